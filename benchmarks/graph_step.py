"""What writing a training loop by hand costs: a step of a graph's function beside `og.Trainer`, and a call's overhead.

    python benchmarks/graph_step.py

The net is 784-256-10 with SGD on batches of 64. Times are medians of blocks that take turns. Exits with 1 when a step
by hand takes more than 1.15 times as long, or a call more than 15 microseconds longer than onnxruntime's own `run`.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import onnxruntime

import onnxgrad as og

LIMIT, CALL_LIMIT = 1.15, 15.0
Call = Callable[[], object]


def take_turns(calls: dict[str, Call], blocks: int, count: int) -> dict[str, list[float]]:
    """Microseconds of a call, for each block of `count`; the calls take turns with their blocks."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for block in range(blocks + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(count):
                call()
            if block > 1:
                times[name].append((time.perf_counter() - start) / count * 1e6)
    return times


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The parameters of the net."""
    shapes = {"w1": (784, 256), "b1": (256,), "w2": (256, 10), "b2": (10,)}
    return {name: (rng.standard_normal(shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}


def by_hand(values: dict[str, np.ndarray]) -> og.GraphFunction[list[np.ndarray]]:
    """A training step as a program writes it."""
    graph = og.Graph()
    x, label = graph.input("x", "float32", ("N", 784)), graph.input("label", "int64", ("N",))
    w1, b1, w2, b2 = parameters = [graph.param(og.SharedTensor(value, name=name)) for name, value in values.items()]
    logits = og.op.Relu(x @ w1 + b1) @ w2 + b2
    loss = og.op.SoftmaxCrossEntropyLoss(logits, label)
    rate = og.SharedScalar(-0.01)
    grads = og.gradients(loss, parameters)
    updates = [og.add_update(p, grad, beta=rate) for p, grad in zip(parameters, grads, strict=True) if grad is not None]
    return graph.compile([x, label], [og.copy_output(loss), *updates])


def by_trainer(values: dict[str, np.ndarray]) -> og.Trainer:
    """The same net for og.Trainer."""
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 784))
    w1, b1, w2, b2 = (graph.param(og.SharedTensor(value, name=name)) for name, value in values.items())
    logits = og.op.Relu(x @ w1 + b1) @ w2 + b2
    model = graph.to_model({"logits": logits})
    return og.Trainer(model, loss=og.losses.CrossEntropy(), optimizer=og.optimizers.SGD(0.01))


def one_input() -> dict[str, Call]:
    """A call of a function of one input, and of the bare session."""
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 16))
    y = og.op.Relu(x)
    function = graph.compile([x], og.copy_output(y))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = ir.to_proto(graph.to_model({"y": y})).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    array = np.ones((4, 16), np.float32)
    return {"function": lambda: function(array), "session.run": lambda: session.run(None, {"x": array})}


def main() -> int:
    """Measure and judge."""
    rng = np.random.default_rng(0)
    values = weights(rng)
    step, trainer = by_hand(values), by_trainer(values)
    x, label = rng.standard_normal((64, 784)).astype(np.float32), rng.integers(0, 10, 64)
    times = take_turns({"by hand": lambda: step(x, label), "og.Trainer": lambda: trainer.train_step(x, label)}, 30, 40)
    middle = {name: statistics.median(blocks) for name, blocks in times.items()}
    ratio = middle["by hand"] / middle["og.Trainer"]
    print(f"a step: {middle['by hand']:.0f} us by hand, {middle['og.Trainer']:.0f} us by og.Trainer, ratio {ratio:.2f}")
    least = {name: min(blocks) for name, blocks in take_turns(one_input(), 30, 1000).items()}
    extra = least["function"] - least["session.run"]
    print(f"a call: {least['function']:.1f} us, session.run {least['session.run']:.1f} us, extra {extra:.1f} us")
    return 1 if ratio > LIMIT or extra > CALL_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
