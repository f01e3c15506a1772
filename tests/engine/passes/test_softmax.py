"""Softmax and LogSoftmax that exporters write out."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.softmax import RULES
from tests.engine.passes.checks import check, i64, model_of, operators
from tests.engine.passes.special import run_as_written

inf, nan = np.inf, np.nan
X = np.array([[1, 2, 3, 4], [inf, 1, 2, 3], [-inf, 1, 2, 3], [-inf] * 4, [nan, 1, 2, 3], [3e38, -3e38, 0, 0],
              [inf, -inf, 0, 0], [-200, 200, -0.0, 0]], np.float32)  # fmt: skip


def model_with(body, opset=13):
    axes = {"ax": i64(1), "zeroth": i64(0), "both": i64(0, 1)}
    used = {name: array for name, array in axes.items() if name in body}
    return model_of(f"g (float[N, 4] x) => (float[N, 4] y) {{ {body} }}", opset, 10, **used)


SHIFT = "m = ReduceMax<axes=[1]>(x) d = Sub(x, m)"

DONE = {
    "softmax": (f"{SHIFT} e = Exp(d) s = ReduceSum(e, ax) y = Div(e, s)", 13, ["Softmax"]),
    "softmax with axes as inputs": (
        "m = ReduceMax(x, ax) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, ax) y = Div(e, s)",
        18,
        ["Softmax"],
    ),
    "softmax by a reciprocal": (
        f"{SHIFT} e = Exp(d) s = ReduceSum(e, ax) r = Reciprocal(s) y = Mul(r, e)",
        13,
        ["Softmax"],
    ),
    "log softmax": (f"{SHIFT} e = Exp(d) s = ReduceSum(e, ax) l = Log(s) y = Sub(d, l)", 13, ["LogSoftmax"]),
    "a shift for nothing": (f"{SHIFT} y = Softmax<axis=-1>(d)", 13, ["Softmax"]),
    "a shift for nothing before a logarithm": (f"{SHIFT} y = LogSoftmax<axis=1>(d)", 13, ["LogSoftmax"]),
}


@pytest.mark.parametrize("name", DONE)
def test_is_fused_with_the_same_values_nan_and_infinities(name):
    body, opset, expected = DONE[name]
    model = model_with(body, opset)
    result = check(model, *RULES)
    assert operators(result) == expected
    np.testing.assert_allclose(run_as_written(result, x=X)[0], run_as_written(model, x=X)[0], rtol=1e-5, atol=1e-6)


KEPT = {
    "before opset 13": ("m = ReduceMax<axes=[1]>(x) d = Sub(x, m) y = Softmax<axis=1>(d)", 12),
    "without the maximum": ("e = Exp(x) s = ReduceSum(e, ax) y = Div(e, s)", 13),
    "the sum of another axis": (f"{SHIFT} e = Exp(d) s = ReduceSum(e, zeroth) y = Div(e, s)", 13),
    "the maximum of another axis": ("m = ReduceMax<axes=[0]>(x) d = Sub(x, m) y = Softmax<axis=-1>(d)", 13),
    "both axes": (
        "m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e) y = Div(e, s)",
        13,
    ),
    "another reader": (f"{SHIFT} e = Exp(d) s = ReduceSum(e, ax) q = Div(e, s) y = Mul(q, s)", 13),
    "the sum over": (f"{SHIFT} e = Exp(d) s = ReduceSum(e, ax) y = Div(s, e)", 13),
    "the logarithm of the sum of something else": (
        f"{SHIFT} e = Exp(x) s = ReduceSum(e, ax) l = Log(s) y = Sub(d, l)",
        13,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    check(model_with(body, opset), *RULES, hits=0)


def test_a_maximum_that_is_not_kept_stays():
    graph = (
        "g (float[4, 4] x) => (float[4, 4] y) { m = ReduceMax<axes=[1], keepdims=0>(x) d = Sub(x, m) y = Softmax(d) }"
    )
    check(model_of(graph, 13), *RULES, hits=0)
