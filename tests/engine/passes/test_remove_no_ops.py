"""Nodes that give back what they are given go; those that only seem to stay."""

import numpy as np
import pytest

from onnxgrad.engine.passes.remove_no_ops import RULES
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators

X = "g (float[2,3,4] x) => (float[a,b,c] y)"
N = "g (float[N,3,4] x) => (float[a,b,c] y)"

GONE = {
    # name: text, constants
    "identity": (f"{X} {{ i = Identity(x) y = Abs(i) }}", {}),
    "identity before an output": (f"{X} {{ a = Abs(x) y = Identity(a) }}", {}),
    "dropout": (f"{X} {{ a = Abs(x) y = Dropout(a) }}", {}),
    "dropout, training_mode false": (
        f"{X} {{ a = Abs(x) y = Dropout(a, r, t) }}",
        {"r": np.float32(0.5), "t": np.array(False)},
    ),
    "cast": (f"{X} {{ a = Abs(x) y = Cast<to=1>(a) }}", {}),
    "cast like": (f"{X} {{ a = Abs(x) y = CastLike(a, x) }}", {}),
    "transpose": (f"{X} {{ a = Abs(x) y = Transpose<perm=[0,1,2]>(a) }}", {}),
    "reshape": (f"{X} {{ r = Reshape(x, s) y = Abs(r) }}", {"s": i64(2, 3, 4)}),
    "reshape, -1": (f"{N} {{ r = Reshape(x, s) y = Abs(r) }}", {"s": i64(-1, 3, 4)}),
    "reshape, 0": (f"{N} {{ r = Reshape(x, s) y = Abs(r) }}", {"s": i64(0, 0, -1)}),
    "reshape to the shape of x": (f"{N} {{ s = Shape(x) r = Reshape(x, s) y = Abs(r) }}", {}),
    "expand": (f"{N} {{ r = Expand(x, s) y = Abs(r) }}", {"s": i64(1)}),
    "expand to the shape of x": (f"{N} {{ s = Shape(x) r = Expand(x, s) y = Abs(r) }}", {}),
    "tile": (f"{N} {{ r = Tile(x, s) y = Abs(r) }}", {"s": i64(1, 1, 1)}),
    "slice": (f"{N} {{ r = Slice(x, b, e, b) y = Abs(r) }}", {"b": i64(0), "e": i64(2**31 - 1)}),
    "slice, longer than x": (
        f"{N} {{ r = Slice(x, b, e, o, o) y = Abs(r) }}",
        {"b": i64(-3), "e": i64(5), "o": i64(1)},
    ),
    "concat of one": (f"{X} {{ a = Abs(x) y = Concat<axis=0>(a) }}", {}),
    "concat with nothing": (f"{X} {{ a = Abs(x) y = Concat<axis=1>(a, e) }}", {"e": np.zeros((2, 0, 4), np.float32)}),
    "sum of one": (f"{X} {{ a = Abs(x) y = Sum(a) }}", {}),
    "max of one": (f"{X} {{ a = Abs(x) y = Max(a) }}", {}),
    "pad by nothing": (f"{X} {{ a = Abs(x) y = Pad(a, p) }}", {"p": i64(0, 0, 0, 0, 0, 0)}),
    "neg of neg": (f"{X} {{ a = Abs(x) b = Neg(a) y = Neg(b) }}", {}),
}

KEPT = {
    "identity of an input": ("g (float[2] x) => (float[2] y, float[2] z) { y = Identity(x) z = Identity(x) }", {}),
    "narrowing cast": ("g (float[3] x) => (bool[3] y) { a = Cast<to=6>(x) y = Cast<to=9>(a) }", {}),
    "cast there and back": ("g (float[3] x) => (float[3] y) { a = Cast<to=10>(x) y = Cast<to=1>(a) }", {}),
    "cast to bfloat16 and back": ("g (float[3] x) => (float[3] y) { a = Cast<to=16>(x) y = Cast<to=1>(a) }", {}),
    "transpose": (f"{X} {{ a = Abs(x) y = Transpose(a) }}", {}),
    "reshape": (f"{X} {{ a = Abs(x) y = Reshape(a, s) }}", {"s": i64(3, 2, 4)}),
    "reshape to a run-time shape": ("g (float[N,3] x, int64[2] s) => (float[N,3] y) { a = Abs(x) y = Reshape(a, s) "
                                    "}", {}),
    "expand that broadcasts": ("g (float[1,3] x) => (float[a,b] y) { a = Abs(x) y = Expand(a, s) }", {"s": i64(2, 3)}),
    "expand that adds a dimension": ("g (float[2,3,4] x) => (float[d,a,b,c] y) { a = Abs(x) y = Expand(a, s) "
                                     "}", {"s": i64(1, 1, 1, 1)}),
    "slice that cuts": (f"{N} {{ a = Abs(x) y = Slice(a, b, e, o) }}", {"b": i64(0), "e": i64(2), "o": i64(1)}),
    "slice backwards": (f"{N} {{ a = Abs(x) y = Slice(a, b, e, o, s) }}",
        {"b": i64(-1), "e": i64(-9), "o": i64(1), "s": i64(-1)}),
    "slice of an unknown size": (f"{N} {{ a = Abs(x) y = Slice(a, b, e, b) }}", {"b": i64(0), "e": i64(5)}),
    "dropout with its mask": ("g (float[3] x) => (float[3] y, bool[3] m) { a = Abs(x) y, m = Dropout(a) }", {}),
    "pad": (f"{X} {{ a = Abs(x) y = Pad(a, p) }}", {"p": i64(0, 0, 0, 0, 0, 1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE)
def test_goes(name):
    text, constants = GONE[name]
    left = operators(check(model_of(text, **constants), *RULES))
    assert set(left) <= {"Abs", "Shape"}


@pytest.mark.parametrize("name", KEPT)
def test_stays(name):
    text, constants = KEPT[name]
    check(model_of(text, **constants), *RULES, hits=0)


def test_a_dropout_in_training_mode_stays():
    model = model_of(
        "g (float[9] x) => (float[9] y) { a = Abs(x) y = Dropout(a, r, t) }", r=np.float32(0.5), t=np.array(True)
    )
    assert operators(_random(model)) == ["Abs", "Dropout"]


def test_a_dropout_whose_mode_is_an_input_stays():
    model = model_of("g (float[9] x, bool t) => (float[9] y) { a = Abs(x) y = Dropout(a, r, t) }", r=np.float32(0.5))
    assert operators(_random(model)) == ["Abs", "Dropout"]


def _random(model):
    return apply(model, *RULES)[0]


def test_a_declared_shape_of_an_output_proves_nothing():
    """A file may declare its output as [N, 3] where that is not what comes out."""
    model = model_of("g (float[N,4] x) => (float[N,4] y) { a = Abs(x) y = Reshape(a, s) }", s=i64(4, -1))
    check(model, *RULES, hits=0)


def test_an_overridable_shape_is_not_trusted():
    model = model_of("g (float[2,3] x, int64[2] s) => (float[a,b] y) { r = Reshape(x, s) y = Abs(r) }", s=i64(2, 3))
    assert operators(check(model, *RULES, hits=0)) == ["Abs", "Reshape"]


def test_values_around_stay_exact():
    model = model_of("g (float[3] x) => (float[3] y) { i = Identity(x) y = Mul(i, k) }", k=f32(1, 2, 3))
    check(model, *RULES, hits=1)
