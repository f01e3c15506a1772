"""Nodes of ai.onnx.preview.training::Gradient become standard nodes."""

import numpy as np
import pytest
from onnx import parser

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>'
X, W = np.asarray([1, 2, 3], np.float32), np.asarray([2, 1, 0.5], np.float32)


def run(body, outputs="float[3] d"):
    model = parser.parse_model(
        f"{HEAD} g (float[3] x, float[3] w) => ({outputs}) {{ y = Mul(x, w) z = Mul(y, y) {body} }}"
    )
    return compile(model, providers="cpu", threads=1)(X, W)


def gradient(outputs, inputs, **names):
    lists = ", ".join(
        f"{key}: strings = [{', '.join(f'{chr(34)}{n}{chr(34)}' for n in value)}]" for key, value in names.items()
    )
    return f'{outputs} = ai.onnx.preview.training.Gradient <{lists}, y: string = "z"> ({inputs})'


def test_the_derivative_is_that_of_the_sum_of_y():
    got = run(gradient("d, e", "x, w", xs=["x", "w"]), "float[3] d, float[3] e")
    np.testing.assert_allclose(got["d"], 2 * X * W * W, rtol=1e-6)
    np.testing.assert_allclose(got["e"], 2 * X * X * W, rtol=1e-6)


def test_zs_are_inputs_without_a_derivative():
    np.testing.assert_allclose(run(gradient("d", "x, w", xs=["x"], zs=["w"]))["d"], 2 * X * W * W, rtol=1e-6)


def test_the_derivative_is_taken_at_other_values_where_they_are_given():
    np.testing.assert_allclose(run(gradient("d", "w, x", xs=["x"], zs=["w"]))["d"], 2 * W * X * X, rtol=1e-6)


def test_values_in_between_count_as_independent():
    np.testing.assert_allclose(run(gradient("d", "y", xs=["y"]))["d"], 2 * X * W, rtol=1e-6)


def test_what_y_does_not_depend_on_has_zeros():
    body = "u = Neg(w) " + gradient("d", "u", xs=["u"])
    np.testing.assert_array_equal(run(body)["d"], np.zeros(3))


def test_a_name_that_is_no_value_is_an_error():
    with pytest.raises(ModelError, match="'nope'"):
        run(gradient("d", "x", xs=["nope"]))
