"""Reductions that take up what is done before or after them."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.reduce import RULES
from tests.engine.passes.checks import check, i64, model_of, operators
from tests.engine.passes.special import run_as_written

CONSTANTS = {
    "one": i64(1), "two": i64(2), "minus": i64(-2),
    "shaped": i64(-1, 1, 4), "flat": i64(-1, 4), "wrong": i64(-1, 4, 1),
}  # fmt: skip


def model_with(body, opset, shape="N, 3, 4", out="a, b, c"):
    used = {name: array for name, array in CONSTANTS.items() if f", {name}" in body}
    return model_of(f"g (float[{shape}] x) => (float[{out}] y) {{ {body} }}", opset, 10, **used)


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
    "a reshape that drops the axis": ("r = ReduceProd<axes=[1]>(x) y = Reshape(r, flat)", 13, 2, ["ReduceProd"]),
    "the root of squares": ("s = ReduceSumSquare<axes=[2]>(x) y = Sqrt(s)", 13, 3, ["ReduceL2"]),
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
    "another reader of the squares": ("s = ReduceSumSquare<axes=[2]>(x) r = Sqrt(s) y = Add(s, r)", 13),
    "a reshape to another place": ("r = ReduceSum<keepdims=0>(x, one) y = Reshape(r, wrong)", 13),
}


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    shape, out = ("N, 1, 1", "a, b") if "Squeeze(r, two)" in body else ("N, 3, 4", "a, b, c")
    check(model_with(body, opset, shape, out), *RULES, hits=0)


def test_a_number_has_no_axes_to_give_back():
    model = model_of("g (float x) => (float[1] y) { r = ReduceMax(x) y = Unsqueeze(r, c) }", c=np.array([0]))
    check(model, *RULES, hits=0)
