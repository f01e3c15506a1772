"""Straight-through gradients of rounding and quantization."""

import numpy as np
import onnx
import pytest

from onnxgrad.engine.errors import OptionError
from onnxgrad.grad.straight_through import straight_through
from tests.grad.checks import evaluate, gradient_model_of


def graph_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


ROUND = "g (float[4] x, float[4] s) => (float[4] y) { r = Round(x)  y = Mul(r, s) }"
QDQ = """g (float[5] x, float s) => (float[5] y) <int8 z = {1}> {
    q = QuantizeLinear(x, s, z)
    y = DequantizeLinear(q, s, z)
}"""
PER_CHANNEL = """g (float[2,3] x, float[3] s) => (float[2,3] y) {
    q = QuantizeLinear<axis: int = 1, output_dtype: int = 3>(x, s)
    y = DequantizeLinear<axis: int = 1>(q, s)
}"""
DYNAMIC = """g (float[3] x) => (float[3] y) {
    q, s, z = DynamicQuantizeLinear(x)
    y = DequantizeLinear(q, s, z)
}"""
X = np.array([0.4, 1.5, -2.6, 3.0], np.float32)
S = np.array([2.0, 3.0, 4.0, 5.0], np.float32)


def test_rounding_has_no_gradient_by_default():
    model = gradient_model_of(graph_of(ROUND), ["x"])
    assert not evaluate(model, {"x": X, "s": S, "y.grad": np.ones(4, "f4")})["x.grad"].any()


@pytest.mark.parametrize("op_type", ["Round", "Floor", "Ceil", "Sign"])
def test_rounding_on_request_is_an_identity_on_the_way_back(op_type):
    with straight_through(op_type):
        model = gradient_model_of(graph_of(ROUND.replace("Round", op_type)), ["x"])
    got = evaluate(model, {"x": X, "s": S, "y.grad": np.ones(4, "f4")})["x.grad"]
    np.testing.assert_array_equal(got, S)


def test_the_request_ends_with_its_block():
    with straight_through("Round"):
        pass
    model = gradient_model_of(graph_of(ROUND), ["x"])
    assert not evaluate(model, {"x": X, "s": S, "y.grad": np.ones(4, "f4")})["x.grad"].any()


def test_an_operator_that_does_not_round_is_refused():
    with pytest.raises(OptionError, match="Relu"), straight_through("Relu"):
        pass


def test_quantized_values_get_a_gradient_where_they_are_not_saturated():
    with straight_through("QuantizeLinear"):
        model = gradient_model_of(graph_of(QDQ), ["x", "s"])
    x = np.array([0.26, -1.4, 63.0, 63.4, -200.0], np.float32)  # integers -127 .. 126 about the zero point, times 0.5
    dy = np.array([1, 2, 3, 4, 5], np.float32)
    got = evaluate(model, {"x": x, "s": np.array(0.5, np.float32), "y.grad": dy})
    np.testing.assert_array_equal(got["x.grad"], [1, 2, 3, 0, 0])
    rounded = np.array([1, -3, 126, 126, -129]) - np.array([0.52, -2.8, 126, 0, 0])
    np.testing.assert_allclose(got["s.grad"], (dy * rounded).sum(), rtol=1e-5)


def test_every_channel_has_its_own_scale():
    with straight_through():
        model = gradient_model_of(graph_of(PER_CHANNEL), ["x", "s"])
    x = np.array([[0.26, -1.4, 7.9], [0.1, 300.0, 2.0]], np.float32)
    got = evaluate(model, {"x": x, "s": np.array([0.5, 1, 2], "f4"), "y.grad": np.ones((2, 3), "f4")})
    np.testing.assert_array_equal(got["x.grad"], [[1, 1, 1], [1, 0, 1]])
    np.testing.assert_allclose(got["s.grad"], [1 - 0.52 - 0.2, -1 + 1.4 + 127, 4 - 3.95], rtol=1e-5)


def test_dynamic_quantization_is_an_identity_on_the_way_back():
    with straight_through():
        model = gradient_model_of(graph_of(DYNAMIC), ["x"])
    dy = np.array([1, -2, 3], np.float32)
    got = evaluate(model, {"x": np.array([-1, 0.3, 2], "f4"), "y.grad": dy})
    np.testing.assert_array_equal(got["x.grad"], dy)
