"""Arithmetic that goes, and arithmetic that only looks as if it could."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions import arithmetic, chains
from tests.engine.passes.checks import check, f32, i64, model_of, operators
from tests.engine.passes.special import SPECIAL, assert_same_values

RULES = (*arithmetic.RULES, *arithmetic.LATE_RULES, *chains.RULES)
X = SPECIAL.astype(np.float32)
ONES = np.ones(12, np.float32)

# body over float[12] x and z and bool[12] p, constants, operators afterwards
DONE: dict[str, tuple[str, dict[str, np.ndarray | np.generic], list[str]]] = {
    "times one": ("h = Mul(a, x) y = Neg(h)", {"a": np.float32(1)}, ["Neg"]),
    "times ones": ("h = Mul(x, a) y = Neg(h)", {"a": ONES}, ["Neg"]),
    "divided by one": ("h = Div(x, a) y = Neg(h)", {"a": f32(1)}, ["Neg"]),
    "to the power of one": ("h = Pow(x, a) y = Neg(h)", {"a": i64(1)}, ["Neg"]),
    "plus -0.0": ("h = Add(x, a) y = Neg(h)", {"a": f32(-0.0)}, ["Neg"]),
    "less 0.0": ("h = Sub(x, a) y = Neg(h)", {"a": f32(0.0)}, ["Neg"]),
    "plus 0.0, before who cannot tell": ("h = Add(x, a) y = Exp(h)", {"a": f32(0.0)}, ["Exp"]),
    "plus 0.0, after who has no -0.0": ("k = Exp(x) h = Add(k, a) y = Neg(h)", {"a": f32(0.0)}, ["Exp", "Neg"]),
    "plus a negative": ("h = Neg(z) y = Add(h, x)", {}, ["Sub"]),
    "less a negative": ("h = Neg(z) y = Sub(x, h)", {}, ["Add"]),
    "negative of negative": ("h = Neg(x) k = Sub(z, h) y = Abs(k)", {}, ["Abs", "Add"]),
    "sum of two": ("y = Sum(x, z)", {}, ["Add"]),
    "two factors": ("h = Mul(x, a) y = Mul(b, h)", {"a": f32(2), "b": f32(3)}, ["Mul"]),
    "a divisor and a factor": ("h = Div(x, a) y = Mul(h, b)", {"a": f32(255), "b": f32(4.5)}, ["Mul"]),
    "two divisors": ("h = Div(x, a) y = Div(h, b)", {"a": f32(3), "b": f32(5)}, ["Div"]),
    "factors per element": ("h = Mul(x, a) y = Mul(h, b)", {"a": f32(*range(2, 14)), "b": np.float32(3)}, ["Mul"]),
    "two summands": ("h = Add(x, a) y = Sub(h, b)", {"a": f32(2), "b": f32(-3)}, ["Add"]),
    "negation and a factor": ("h = Mul(x, a) y = Neg(h)", {"a": f32(3)}, ["Mul"]),
    "negation and a divisor": ("h = Neg(x) y = Div(h, a)", {"a": f32(3)}, ["Div"]),
    "times a reciprocal": ("h = Reciprocal(z) y = Mul(h, x)", {}, ["Div"]),
    "times one by": ("h = Div(a, z) y = Mul(x, h)", {"a": f32(1)}, ["Div"]),
    "square": ("y = Pow(x, a)", {"a": np.float32(2)}, ["Mul"]),
    "root": ("h = Abs(x) y = Pow(h, a)", {"a": np.float32(0.5)}, ["Abs", "Sqrt"]),
    "divided by a power of two": ("y = Div(x, a)", {"a": f32(8)}, ["Mul"]),
    "rounding twice": ("h = Floor(x) y = Round(h)", {}, ["Floor"]),
    "absolute twice": ("h = Abs(x) y = Abs(h)", {}, ["Abs"]),
    "sign twice": ("h = Sign(x) y = Sign(h)", {}, ["Sign"]),
    "absolute of negative": ("h = Neg(x) y = Abs(h)", {}, ["Abs"]),
    "absolute of square": ("h = Mul(x, x) y = Abs(h)", {}, ["Mul"]),
    "not and where": ("q = Not(p) y = Where(q, x, z)", {}, ["Where"]),
    "not and where, not read elsewhere": (
        "q = Not(p) k = Where(q, x, z) n = Cast<to=1>(q) y = Add(k, n)",
        {},
        ["Add", "Cast", "Not", "Where"],
    ),
    "factors of an angle, one a power of two": (
        "h = Mul(x, a) g = Mul(h, b) y = Sin(g)",
        {"a": f32(2), "b": f32(6.2831855)},
        ["Mul", "Sin"],
    ),
    "where true": ("h = Where(a, x, z) y = Neg(h)", {"a": np.array(True)}, ["Neg"]),
    "where false": ("h = Where(a, x, z) y = Neg(h)", {"a": np.zeros(12, bool)}, ["Neg"]),
    "where the same": ("h = Where(p, x, x) y = Neg(h)", {}, ["Neg"]),
    "and true": ("q = And(p, a) y = Where(q, x, z)", {"a": np.array(True)}, ["Where"]),
}


@pytest.mark.parametrize("name", DONE)
def test_arithmetic_is_shortened(name):
    body, constants, expected = DONE[name]
    model = model_of(f"g (float[12] x, float[12] z, bool[12] p) => (float[12] y) {{ {body} }}", **constants)
    result = check(model, *RULES)
    assert operators(result) == expected
    feeds = {"x": X, "z": X[::-1].copy(), "p": X > 0}
    assert_same_values(model, result, **feeds, signs="Where" not in body)  # the runtime's Where adds 0.0


KEPT = {
    "times zero": ("y = Mul(x, a)", {"a": f32(0)}),
    "plus 0.0": ("y = Add(x, a)", {"a": f32(0)}),
    "less -0.0": ("y = Sub(x, a)", {"a": f32(-0.0)}),
    "0 less": ("y = Sub(a, x)", {"a": f32(0)}),
    "1 by": ("y = Div(a, x)", {"a": f32(1)}),
    "1 to the power": ("y = Pow(a, x)", {"a": f32(1)}),
    "nearly one": ("y = Mul(x, a)", {"a": f32(1 + 1e-7)}),
    "ones of a larger shape": (
        "h = Mul(x, a) y = ReduceSum<keepdims=0>(h, k)",
        {"a": np.ones((2, 12), np.float32), "k": i64(0)},
    ),
    "the difference of the same": ("y = Sub(x, x)", {}),
    "rounding by a large number": ("h = Add(x, a) y = Sub(h, a)", {"a": f32(12582912)}),
    "summands far apart": ("h = Add(x, a) y = Add(h, b)", {"a": f32(1e8), "b": f32(1)}),
    "factors that overflow in between": ("h = Mul(x, a) y = Mul(h, b)", {"a": f32(1e30), "b": f32(1e-30)}),
    "factors whose product is too large": ("h = Mul(x, a) y = Mul(h, b)", {"a": f32(1e30), "b": f32(1e30)}),
    "factors whose product is larger than they": (
        "h = Mul(x, a) g = Mul(h, b) y = ReduceSum<keepdims=0>(g, k)",
        {"a": np.full((1, 12), 2, np.float32), "b": np.full((2, 1), 3, np.float32), "k": i64(0)},
    ),
    "an angle that would be rounded": (
        "h = Mul(x, a) g = Mul(h, b) r = Identity(g) y = Sin(r)",
        {"a": f32(6.2831855), "b": f32(300)},
    ),
    "a root of what may be negative": ("y = Pow(x, a)", {"a": np.float32(0.5)}),
    "a root of what may be -0.0": ("h = Sqrt(x) y = Pow(h, a)", {"a": np.float32(0.5)}),
    "divided by three": ("y = Div(x, a)", {"a": f32(3)}),
    "absolute of anything": ("h = Tanh(x) y = Abs(h)", {}),
    "where it varies": ("y = Where(a, x, z)", {"a": np.arange(12) > 5}),
    "where true of a smaller shape": (
        "s = ReduceMax<keepdims=1>(x, k) y = Where(a, s, z)",
        {"a": np.array(True), "k": i64(0)},
    ),
    "not of a comparison of floats": (
        "h = Less(x, z) q = Not(h) y = Where(a, x, z) n = Cast<to=1>(q)",
        {"a": np.arange(12) > 5},
    ),
    "a factor with another reader": ("h = Mul(x, a) k = Mul(h, a) y = Add(h, k)", {"a": f32(3)}),
}


@pytest.mark.parametrize("name", KEPT)
def test_arithmetic_stays(name):
    body, constants = KEPT[name]
    model = model_of(f"g (float[12] x, float[12] z) => (float[12] y) {{ {body} }}", **constants)
    check(model, *RULES, hits=0)


def test_a_graph_output_in_between_stays():
    text = "g (float[12] x) => (float[12] y, float[12] h) { h = Mul(x, a) y = Mul(h, b) }"
    check(model_of(text, a=f32(2), b=f32(3)), *RULES, hits=0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_around(dtype):
    kind = np.dtype(dtype).type
    largest = np.iinfo(kind).max
    body = "a = Mul(x, u) b = Mul(a, v) c = Add(b, z) d = Sub(c, v) y = Sub(d, w)"
    text = f"g ({dtype}[3] x) => ({dtype}[3] y) {{ {body} }}"
    constants = {"u": kind(3), "v": np.array([largest], kind), "z": kind(0), "w": kind(5)}
    model = model_of(text, **{name: np.asarray(value) for name, value in constants.items()})
    result = check(model, *RULES)
    assert operators(result) == ["Add", "Mul"]
    assert_same_values(model, result, x=np.array([1, -7, largest], kind))


@pytest.mark.parametrize("opset", [11, 13])
def test_log_of_softmax(opset):
    text = "g (float[2,3,4] x) => (float[2,3,4] y) { s = Softmax(x) y = Log(s) }"
    assert operators(check(model_of(text, opset), *RULES, hits=1)) == ["LogSoftmax"]
    text = text.replace("Softmax(", "Softmax<axis=1>(")
    assert operators(check(model_of(text, opset), *RULES, hits=1)) == ["LogSoftmax"]


def test_comparisons_of_integers_are_inverted():
    text = "g (int64[3] x, int64[3] z) => (bool[3] y) { h = Less(x, z) y = Not(h) }"
    assert operators(check(model_of(text), *RULES, hits=1)) == ["GreaterOrEqual"]
    check(model_of(text, 11), *RULES, hits=0)


@pytest.mark.parametrize("opset", [7, 21])
def test_scalars_and_unknown_shapes(opset):
    text = "g (float x, float[N,M] z) => (float y, float[N,M] u) { y = Mul(x, a) u = Mul(z, b) }"
    constants = {"a": np.float32(1), "b": f32(1)}
    assert operators(check(model_of(text, opset, **constants), *RULES)) == ["Identity", "Identity"]
