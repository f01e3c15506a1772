"""Order of callbacks and gradients for graphs of every shape, against values computed by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError
from tests.grad.tape.watch import Watch, t

Results = list[tuple[og.Tensor, og.Tensor | None]]


@dataclass(frozen=True)
class Shape:
    """build: attached tensors by name -> pairs (value, its gradient; None: ones). order: of callbacks, the earliest
    first; those in one tuple may come in either order."""

    name: str
    leaves: dict[str, tuple[float, ...]]
    build: Callable[..., Results]
    order: tuple[str | tuple[str, ...], ...]
    grads: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def dead_branch(a, b):
    og.op.Exp(a * b)  # nobody has the result
    return [(a * 3.0, None)]


def side_branch(a, b):
    side_branch.kept = a * b  # type: ignore[attr-defined]
    return [(a * 3.0, None)]


def unused_output(a):
    _, second = og.op.Split(a, [1, 2])
    return [(second * 2.0, None)]


def sequence(a, b, c):
    """Each of the later leaves is used later: its gradient is complete earlier."""
    return [((a * 2.0 + b) * 3.0 * c, None)]


SHAPES = [
    Shape("chain", {"a": (2.0,)}, lambda a: [((a * a) * 3.0, None)], ("a",), {"a": [12]}),
    # y = (2a) (3a) = 6 a^2
    Shape("diamond", {"a": (2.0,)}, lambda a: [((a * 2.0) * (a * 3.0), None)], ("a",), {"a": [24]}),
    # y = (a^2 + a^2)^2 = 4 a^4
    Shape(
        "nested diamonds",
        {"a": (1.0,)},
        lambda a: [((s := (h := a * a) + h) * s, None)],
        ("a",),
        {"a": [16]},
    ),
    Shape("operand used twice", {"a": (3.0,)}, lambda a: [(a * a, t(5.0))], ("a",), {"a": [30]}),
    Shape(
        "shared by two",
        {"a": (2.0,), "b": (5.0,)},
        lambda a, b: [(a * b + a, None)],
        (("a", "b"),),
        {"a": [6], "b": [2]},
    ),
    # y = 3 (2a + b) c
    Shape(
        "one after another",
        {"a": (1.0,), "b": (2.0,), "c": (3.0,)},
        sequence,
        ("c", "b", "a"),
        {"a": [18], "b": [9], "c": [12]},
    ),
    Shape("dead branch", {"a": (2.0,), "b": (1.0,)}, dead_branch, ("a",), {"a": [3]}),
    Shape("branch beside", {"a": (2.0,), "b": (1.0,)}, side_branch, ("a",), {"a": [3]}),
    Shape("unused output", {"a": (1.0, 2.0, 3.0)}, unused_output, ("a",), {"a": [0, 2, 2]}),
    # only the first factor counts: d/da (a^2) detach(a^2) = 2 a a^2
    Shape("detached path", {"a": (2.0,)}, lambda a: [((h := a * a) * h.detach(), None)], ("a",), {"a": [16]}),
    Shape(
        "several results",
        {"a": (2.0,), "b": (3.0,)},
        lambda a, b: [(a * b, t(1.0)), (a + b, t(10.0))],
        (("a", "b"),),
        {"a": [13], "b": [12]},
    ),
    # h is a result and on the way to another one: d (5 h + 2 h^2) = (5 + 4 h) 2a
    Shape(
        "result on the way",
        {"a": (1.0,)},
        lambda a: [(h := a * a, t(5.0)), (h * h, t(2.0))],
        ("a",),
        {"a": [18]},
    ),
    Shape("the same result twice", {"a": (3.0,)}, lambda a: [(h := a * 2.0, t(1.0)), (h, t(1.0))], ("a",), {"a": [4]}),
    Shape("leaf as result", {"a": (3.0,)}, lambda a: [(a, t(4.0)), (a * 2.0, t(1.0))], ("a",), {"a": [6]}),
    Shape(
        "broadcast",
        {"a": (1.0, 2.0), "b": (3.0,)},
        lambda a, b: [(a * b, None)],
        (("a", "b"),),
        {"a": [3, 3], "b": [3]},
    ),
    Shape("nothing depends on it", {"a": (1.0,)}, lambda a: [(t(1.0), None)], (), {}),
    Shape("through integers", {"a": (1.5,)}, lambda a: [(og.op.Cast(og.op.Cast(a, to=7), to=11), None)], (), {}),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_callbacks_and_gradients_are_those_computed_by_hand(shape):
    seen = Watch()
    leaves = {name: t(*values) for name, values in shape.leaves.items()}
    with og.Grad() as grad:
        for name, leaf in leaves.items():
            grad.wrt(leaf, callback=seen.of(name))
        pairs = shape.build(**leaves)
        ones = [dy if dy is not None else og.Tensor(np.ones_like(y.numpy())) for y, dy in pairs]
        grad([y for y, _ in pairs], ones)
    order = list(seen.order)
    for wanted in shape.order:
        group = (wanted,) if isinstance(wanted, str) else wanted
        assert sorted(order[: len(group)]) == sorted(group), seen.order
        del order[: len(group)]
    assert order == []
    assert {name: seen[name] for name in seen.values} == shape.grads


def test_there_are_twelve_shapes_and_more():
    assert len({shape.name for shape in SHAPES}) >= 12


def test_attaching_twice_is_an_error_and_leaves_the_first_as_it_was():
    seen, a = Watch(), t(2.0)
    with og.Grad() as grad:
        grad.wrt(a, callback=seen.of("first"))
        with pytest.raises(GradientError, match="tracked already"):
            grad.wrt(a, callback=seen.of("second"))
        grad(a * a)
    assert (seen.order, seen["first"]) == (["first"], [4])
