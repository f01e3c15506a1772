"""Reductions: ties, zeros, infinities, and axes known at run time only."""

import numpy as np
import onnx.helper as oh
import pytest

from tests.grad.at_points import floats, gradients_at, gradients_of
from tests.grad.checks import Case, evaluate

LAST = np.array([-1])
ROWS = floats([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0])
INF = float("inf")

POINTS = [
    (Case("ReduceMin", [floats(3, 1, 2)]), [0, 1, 0]),
    (Case("ReduceMax", [floats([1, 3, 3], [2, 2, 2]), LAST]), [[0, 0.5, 0.5], [1 / 3] * 3]),
    (Case("ReduceMax", [floats([1, 3], [3, 2])], {"keepdims": 0}), [[0, 0.5], [0.5, 0]]),
    (Case("ReduceProd", [ROWS, LAST]), [[6, 0, 0], [0, 0, 0], [6, 3, 2]]),
    (Case("ReduceL2", [floats([0, 0], [3, 4]), LAST], {"keepdims": 0}), [[0, 0], [0.6, 0.8]]),
    (Case("ReduceL1", [floats(0, -2, 2)]), [0, -1, 1]),
    (Case("ReduceLogSumExp", [floats([-INF, -INF], [-INF, 0], [200, 200]), LAST]), [[0, 0], [0, 1], [0.5, 0.5]]),
    (Case("ReduceLogSumExp", [floats(-200, 200)], {"keepdims": 0}), [0, 1]),
    (Case("ReduceMean", [floats([1, 2], [3, 4]), np.array([0])], {"keepdims": 0}), [[0.5, 0.5], [0.5, 0.5]]),
    (Case("CumSum", [floats(1, 2, 3), np.array(0)]), [3, 2, 1]),
    (Case("LpNormalization", [floats([0, 0], [3, 4])]), [[0, 0], [0.2 * 0.16, -0.2 * 0.12]]),
]


@pytest.mark.parametrize(("case", "expected"), POINTS, ids=lambda value: str(value)[:40])
def test_gradient_at_a_point(case, expected):
    np.testing.assert_allclose(gradients_at(case)[0], expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1, 2], []], ids=str)
@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Prod", "L2", "LogSumExp", "SumSquare"])
def test_axes_known_at_run_time_give_the_same_as_constant_ones(op_type, axes, keepdims):
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[A, B, C] x, int64[K] axes) => (float[M] l)
               <int64[1] flat = {{-1}}>
               {{ y = Reduce{op_type}<keepdims = {keepdims}>(x, axes)  l = Reshape(y, flat) }}"""
    x = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 2)).astype(np.float32)
    case = Case(f"Reduce{op_type}", [x.astype(np.float64), np.array(axes, np.int64)], {"keepdims": keepdims})
    (want,) = gradients_at(case, np.float64, run=evaluate)
    count = x.size // int(np.prod([x.shape[a] for a in axes or range(3)]))
    (got,) = gradients_of(text, {"x": x, "axes": np.array(axes, np.int64)}, {"l": np.ones(count, np.float32)})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_no_axes_at_run_time_and_noop_reduce_nothing():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[A, B] x, int64[K] axes) => (float[A, B] y)
              { y = ReduceProd<noop_with_empty_axes = 1>(x, axes) }"""
    axes, seed = np.array([], np.int64), [[3.0, 4.0]]
    (dx,) = gradients_of(text, {"x": [[1.0, 0.0]], "axes": axes}, {"y": seed})
    np.testing.assert_allclose(dx, seed)


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}], ids=str)
def test_cumulative_product_along_an_axis_of_unknown_length(attributes):
    x = np.array([[0.0, 2.0, 3.0, 0.5, -1.0], [1.0, 2.0, 0.0, 0.0, 4.0]])
    case = Case("CumProd", [x, np.array(1)], attributes, opset=26)
    (got,) = gradients_at(case, np.float64, run=evaluate)
    exclusive, order = attributes.get("exclusive", 0), -1 if attributes.get("reverse") else 1
    z, want = x[:, ::order], np.zeros_like(x)
    for i in range(5):
        for k in range(i + exclusive, 5):
            others = [j for j in range(k + 1 - exclusive) if j != i]
            want[:, i] += z[:, others].prod(1)
    np.testing.assert_allclose(got, want[:, ::order])


def test_a_reduction_of_nothing_has_an_empty_gradient():
    node = oh.make_node("ReduceMean", ["x"], ["y"], keepdims=0)
    info = [oh.make_tensor_value_info("x", 1, ["N", 3])], [oh.make_tensor_value_info("y", 1, [])]
    model = oh.make_model(oh.make_graph([node], "g", *info), opset_imports=[oh.make_opsetid("", 18)], ir_version=8)
    (dx,) = gradients_of(model, {"x": np.zeros((0, 3), np.float32)}, {"y": np.float32(1)})
    assert dx.shape == (0, 3)
