"""A training step of an MLP, three ways in turn: og.Trainer, a traced function, and the same function not traced.

    python benchmarks/traced_step.py [--steps 100] [--rounds 7] [--batch 64] [--hidden 256]

Prints the median time of a step in each way, and how the traced one compares with og.Trainer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

import onnxgrad as og

INPUTS, CLASSES = 784, 10


def trainer_model(net: og.nn.Module, batch: int) -> ir.Model:
    """The net as a model for og.Trainer, with the same weights."""
    graph = og.Graph("mlp")
    x = graph.input("x", "float32", (batch, INPUTS))
    weights = {name: graph.constant(array, name=name) for name, array in net.state_dict().items()}
    hidden = og.op.Relu(og.op.Gemm(x, weights["0.weight"], weights["0.bias"], transB=1))
    logits = og.op.Gemm(hidden, weights["2.weight"], weights["2.bias"], transB=1)
    return graph.to_model([logits])


def measured(step: Callable[[], object], steps: int) -> float:
    """Milliseconds of one step."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps * 1e3


def measure_in_turn(ways: dict[str, Callable[[], object]], steps: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a step in each way, by round; who comes first changes from round to round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        measured(way, 10)
    for number in range(rounds):
        order = list(ways)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            time.sleep(0.2)  # until the threads of the one before no longer wait busily
            times[name].append(measured(ways[name], steps))
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    for name, default in (("steps", 100), ("rounds", 7), ("batch", 64), ("hidden", 256), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    threads = options.threads or None
    og.nn.seed(0)
    net = og.nn.Sequential(og.nn.Linear(INPUTS, options.hidden), og.nn.relu, og.nn.Linear(options.hidden, CLASSES))
    rng = np.random.default_rng(0)
    x = rng.random((options.batch, INPUTS), dtype=np.float32)
    y = rng.integers(0, CLASSES, options.batch)
    rule = og.optimizers.AdamW(1e-3)
    trainer = og.Trainer(trainer_model(net, options.batch), og.losses.CrossEntropy(), rule, threads=threads)
    optimizer = og.TensorOptimizer(rule, net.parameters())
    gradients = og.GradManager().attach(net.parameters())

    def step(x: og.Tensor, y: og.Tensor) -> og.Tensor:
        with gradients:
            loss = og.nn.cross_entropy(net(x), y)
            gradients.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    traced = og.trace(step, threads=threads)
    tensors = og.Tensor(x), og.Tensor(y)
    ways: dict[str, Callable[[], object]] = {
        "og.Trainer": lambda: trainer.train_step(x, y),
        "traced": lambda: traced(x, y).item(),  # type: ignore[arg-type]  # arrays are welcome
        "at once": lambda: step(*tensors).item(),
    }
    times = measure_in_turn(ways, options.steps, options.rounds)
    for name, found in times.items():
        print(f"{name:>12}: {statistics.median(found):7.3f} ms a step (least {min(found):.3f})")
    ratios = [ours / theirs for ours, theirs in zip(times["traced"], times["og.Trainer"], strict=True)]
    print(f"traced / og.Trainer: {statistics.median(ratios):.3f} (median of {options.rounds} rounds in turn)")


if __name__ == "__main__":
    main()
