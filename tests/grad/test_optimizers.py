"""Optimizers against the formulas of their sources, over several steps."""

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.optimizers import SGD, AdamW, Optimizer


def run_steps(optimizer: Optimizer, start: np.ndarray, grads: list[np.ndarray], rates: list[float]) -> np.ndarray:
    """The parameter after a step for each gradient and learning rate."""
    kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(start.shape)
    p, g = (ir.Value(name=name, type=kind, shape=shape) for name in ("p", "g"))
    rate = ir.Value(name="rate", type=kind, shape=ir.Shape([]))
    step = ir.Value(name="step", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    slots = {name: ir.Value(name=name, type=kind, shape=shape) for name in optimizer.slots}
    graph = ir.Graph([p, g, rate, step, *slots.values()], [], nodes=[], opset_imports={"": 18}, name="update")
    op = Builder(graph)
    new, new_slots = optimizer.build(op, p, g, slots, optimizer.scalars(op, rate, step))
    graph.outputs.extend([new, *(new_slots[name] for name in slots)])
    run = compile(ir.Model(graph, ir_version=10))
    value, state = start, dict.fromkeys(slots, np.zeros_like(start))
    for number, (grad, lr) in enumerate(zip(grads, rates, strict=True), 1):
        feeds = {"p": value, "g": grad, "rate": np.float32(lr), "step": np.int64(number), **state}
        value, *rest = run({k: v for k, v in feeds.items() if k in run.input_names}).values()
        state = dict(zip(slots, rest, strict=True))
    return value


def adamw(o: AdamW, p: np.ndarray, grads: list[np.ndarray], rates: list[float]) -> np.ndarray:
    p = p.astype("f8")
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, (g, lr) in enumerate(zip(grads, rates, strict=True), 1):
        (b1, b2), g = o.betas, g.astype("f8")
        p = p * (1 - lr * o.weight_decay)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr / (1 - b1**t) * m / (np.sqrt(v) / np.sqrt(1 - b2**t) + o.eps)
    return p


def sgd(o: SGD, p: np.ndarray, grads: list[np.ndarray], rates: list[float]) -> np.ndarray:
    p = p.astype("f8")
    v = np.zeros_like(p)
    for g, lr in zip(grads, rates, strict=True):
        g = g.astype("f8") + o.weight_decay * p
        v = o.momentum * v + g
        p = p - lr * (g + o.momentum * v if o.nesterov else v)
    return p


@pytest.mark.parametrize(
    ("optimizer", "formula"),
    [
        (AdamW(), adamw),
        (AdamW(betas=(0.8, 0.99), eps=1e-3, weight_decay=0.1), adamw),
        (AdamW(weight_decay=0), adamw),
        (SGD(), sgd),
        (SGD(momentum=0.9), sgd),
        (SGD(momentum=0.9, nesterov=True, weight_decay=0.05), sgd),
    ],
    ids=str,
)
def test_steps_follow_the_formula(optimizer, formula, rng):
    p = rng.standard_normal((3, 4)).astype("f4")
    grads = [(rng.standard_normal((3, 4)) * s).astype("f4") for s in (1, 1e-3, 10, 0, 1)]
    rates = [0.1, 0.1, 0.05, 0.05, 0.01]
    assert np.allclose(run_steps(optimizer, p, grads, rates), formula(optimizer, p, grads, rates), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("optimizer", [AdamW(), SGD(momentum=0.5)], ids=str)
def test_a_learning_rate_of_zero_moves_nothing(optimizer, rng):
    p = rng.standard_normal(4).astype("f4")
    assert (run_steps(optimizer, p, [np.zeros(4, "f4"), np.ones(4, "f4")], [0.0, 0.0]) == p).all()


def test_numbers_out_of_range_are_refused():
    for make in (
        lambda: AdamW(-1),
        lambda: AdamW(betas=(1.0, 0.9)),
        lambda: SGD(nesterov=True),
        lambda: SGD(momentum=1),
    ):
        with pytest.raises(OptionError):
            make()
