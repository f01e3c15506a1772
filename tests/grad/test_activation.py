"""Activations at their kinks and for large arguments."""

import numpy as np
import pytest

from tests.grad.at_points import floats, gradients_at, gradients_of
from tests.grad.checks import Case, evaluate

POINTS = [
    (Case("Relu", [floats(0, -1, 1)]), [0, 0, 1]),
    (Case("LeakyRelu", [floats(0, -1, 1)], {"alpha": 0.25}), [0.25, 0.25, 1]),
    (Case("ThresholdedRelu", [floats(0.5, 1, 2)]), [0, 0, 1]),
    (Case("Elu", [floats(0, 1)], {"alpha": 2.0}), [2, 1]),
    (Case("HardSigmoid", [floats(-2.5, 0, 2.5)]), [0, 0.2, 0]),
    (Case("HardSwish", [floats(-4, -3, 0, 3, 4)]), [0, 0, 0.5, 1, 1]),
    (Case("Shrink", [floats(-0.5, 0.5, 0, 1)]), [0, 0, 0, 1]),
    (Case("Sigmoid", [floats(-200, 0, 200)]), [0, 0.25, 0]),
    (Case("Tanh", [floats(-200, 0, 200)]), [0, 1, 0]),
    (Case("Softplus", [floats(-200, 0, 200)]), [0, 0.5, 1]),
    (Case("Mish", [floats(-200, 0, 200)]), [0, 0.6, 1]),
    (Case("Gelu", [floats(-1e4, 0, 1, 1e4)]), [0, 0.5, 1.0833155, 1]),
    (Case("Gelu", [floats(-1e4, 0, 1, 1e4)], {"approximate": "tanh"}), [0, 0.5, 1.0829640838457826, 1]),
]


@pytest.mark.parametrize(("case", "expected"), POINTS, ids=lambda value: str(value)[:40])
def test_gradient_at_a_point(case, expected):
    np.testing.assert_allclose(gradients_at(case)[0], expected, rtol=2e-6, atol=1e-7)


def test_the_gradient_of_tanh_gelu_does_not_overflow_in_float16():
    case = Case("Gelu", [floats(-6e4, -300, 300, 6e4)], {"approximate": "tanh"})
    np.testing.assert_array_equal(gradients_at(case, np.float16, run=evaluate)[0], [0, 0, 1, 1])


def test_relu_stops_an_infinite_gradient():
    (dx,) = gradients_at(Case("Relu", [floats(-1, 1)]), seed=np.inf)
    np.testing.assert_array_equal(dx, [0, np.inf])


def test_softmax_of_distant_logits_has_a_finite_gradient():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N, C] x) => (float[N, C] y) { y = LogSoftmax(x) }"""
    (dx,) = gradients_of(text, {"x": [[200.0, -200.0]]}, {"y": [[0.0, 1.0]]})
    np.testing.assert_allclose(dx, [[-1, 1]])


def test_masked_logits_get_no_gradient():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N, C] x) => (float[N, C] y) { y = Softmax(x) }"""
    (dx,) = gradients_of(text, {"x": [[0.0, 0.0, -np.inf]]}, {"y": [[1.0, 0.0, 3.0]]})
    np.testing.assert_allclose(dx, [[0.25, -0.25, 0]])


def test_the_stable_form_of_cross_entropy_with_logits_has_the_gradient_sigmoid_minus_target():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x, float[N] t) => (float[N] y)
              <float zero = {0}, float one = {1}>
              { m = Max(x, zero)  p = Mul(x, t)  a = Abs(x)  n = Neg(a)  e = Exp(n)  s = Add(one, e)  l = Log(s)
                d = Sub(m, p)  y = Add(d, l) }"""
    dx, _ = gradients_of(text, {"x": [-200.0, 200.0, 0.0], "t": [1.0, 0.0, 0.0]}, {"y": [1.0, 1.0, 1.0]})
    np.testing.assert_allclose(dx, [-1, 1, 0.5])
