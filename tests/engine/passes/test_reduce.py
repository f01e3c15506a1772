"""Reductions that take up what is done before or after them."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.reduce import RULES
from tests.engine.passes.checks import check, f32, i64, model_of, operators
from tests.engine.passes.special import run_as_written

CONSTANTS = {
    "one": i64(1), "two": i64(2), "minus": i64(-2), "none": np.zeros(0, np.int64), "square": f32(2), "cube": f32(3),
    "shaped": i64(-1, 1, 4), "flat": i64(0, 4), "wrong": i64(-1, 4, 1),
}  # fmt: skip


def model_with(body, opset, shape="N, 3, 4", out="a, b, c", dtype="float"):
    used = {name: array for name, array in CONSTANTS.items() if f", {name}" in body}
    return model_of(f"g ({dtype}[{shape}] x) => ({dtype}[{out}] y) {{ {body} }}", opset, 10, **used)


# name: body, opset, rank afterwards, operators afterwards
DONE = {
    "sum and unsqueeze": ("r = ReduceSum<keepdims=0>(x, one) y = Unsqueeze(r, one)", 13, 3, ["ReduceSum"]),
    "mean and unsqueeze of attributes": (
        "r = ReduceMean<axes=[1], keepdims=0>(x) y = Unsqueeze<axes=[1]>(r)",
        11,
        3,
        ["ReduceMean"],
    ),
    "maximum and unsqueeze from the end": (
        "r = ReduceMax<axes=[-2], keepdims=0>(x) y = Unsqueeze(r, minus)",
        13,
        3,
        ["ReduceMax"],
    ),
    "kept axes and squeeze": ("r = ReduceMin<axes=[1]>(x) y = Squeeze(r, one)", 13, 2, ["ReduceMin"]),
    "a reshape that gives the axis back": (
        "r = ReduceSum<keepdims=0>(x, one) y = Reshape(r, shaped)",
        13,
        3,
        ["ReduceSum"],
    ),
    "squares": ("p = Mul(x, x) y = ReduceSum<keepdims=0>(p, one)", 13, 2, ["ReduceSumSquare"]),
    "squares by a power": ("p = Pow(x, square) y = ReduceSum<axes=[1]>(p)", 11, 3, ["ReduceSumSquare"]),
    "squares of everything": ("p = Mul(x, x) y = ReduceSum(p)", 18, 3, ["ReduceSumSquare"]),
    "norm": ("p = Mul(x, x) s = ReduceSum(p, two) y = Sqrt(s)", 18, 3, ["ReduceL2"]),
    "sum of magnitudes": ("p = Abs(x) y = ReduceSum(p, one)", 13, 3, ["ReduceL1"]),
}
OUTS = {2: "a, b", 3: "a, b, c"}


@pytest.mark.parametrize("name", DONE)
def test_is_taken_up_with_the_same_values(name):
    body, opset, rank, expected = DONE[name]
    model = model_with(body, opset, out=OUTS[rank])
    result = check(model, *RULES)
    assert operators(result) == expected
    x = np.array([1, np.nan, -2, 3, np.inf, -np.inf, 4, 5, -0.0, 0, 1e20, 7] * 2, np.float32).reshape(2, 3, 4)
    np.testing.assert_allclose(run_as_written(result, x=x)[0], run_as_written(model, x=x)[0], rtol=1e-5)


KEPT = {
    "unsqueeze of another axis": ("r = ReduceSum<keepdims=0>(x, one) y = Unsqueeze(r, two)", 13),
    "unsqueeze of what is kept": ("r = ReduceSum(x, one) s = Squeeze(r, two) y = Relu(s)", 13),
    "another reader": ("r = ReduceSum<keepdims=0>(x, one) u = Unsqueeze(r, one) y = Add(u, r)", 13),
    "a reshape to another place": ("r = ReduceSum<keepdims=0>(x, one) y = Reshape(r, wrong)", 13),
    "cubes": ("p = Pow(x, cube) y = ReduceSum(p, one)", 13),
    "products": ("q = Relu(x) p = Mul(x, q) y = ReduceSum(p, one)", 13),
    "no axes at all": ("p = Mul(x, x) y = ReduceSum<noop_with_empty_axes=1>(p)", 13),
}


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    shape, out = ("N, 1, 1", "a, b") if "Squeeze(r, two)" in body else ("N, 3, 4", "a, b, c")
    check(model_with(body, opset, shape, out), *RULES, hits=0)


def test_integers_stay():
    check(model_with("p = Mul(x, x) y = ReduceSum(p, one)", 13, dtype="int64"), *RULES, hits=0)


@pytest.mark.parametrize("axes, keep, tail, hits", [
    ("2, 3", 1, "Relu(r)", 1), ("-1, -2", 1, "Relu(r)", 1), ("1, 2", 1, "Relu(r)", 0), ("3", 1, "Relu(r)", 0),
    ("2, 3", 0, "Relu(r)", 0), ("2, 3", 1, "Sub(x, r)", 0),
])  # fmt: skip
def test_the_mean_of_planes_is_a_pool(axes, keep, tail, hits):
    body = f"r = ReduceMean<axes=[{axes}], keepdims={keep}>(x) y = {tail}"
    out = "a, b, c, d" if keep else "a, b"
    result = check(model_with(body, 13, "N, 3, H, W", out), *RULES, hits=hits)
    assert ("GlobalAveragePool" in operators(result)) == bool(hits)


def test_the_mean_of_squares_stays_for_what_looks_for_normalizations():
    body = "p = Mul(x, x) r = ReduceMean<axes=[2, 3]>(p) y = Sqrt(r)"
    check(model_with(body, 13, "N, 3, H, W", "a, b, c, d"), *RULES, hits=0)
