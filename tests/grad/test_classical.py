"""Smooth operators of ai.onnx.ml in onnxruntime, at special points and beyond what is differentiated."""

import numpy as np
import pytest

from onnxgrad.engine.errors import GradientError
from tests.grad.at_points import floats, gradients_at, gradients_of
from tests.grad.checks import Case

ML = "ai.onnx.ml"
NAN = float("nan")
SUM = {"coefficients": [1.0, 2.0], "rho": [0.0], "kernel_params": [0.0, 0.0, 0.0]}
MACHINE = {
    **{"classlabels_ints": [0, 1], "vectors_per_class": [1, 1], "support_vectors": [1.0, 0.0, 0.0, 1.0]},
    **{"coefficients": [1.0, -1.0], "rho": [0.0], "kernel_params": [0.0, 0.0, 0.0]},
}

POINTS = [
    (
        Case(
            "Imputer",
            [floats([NAN, 1.0])],
            {"replaced_value_float": NAN, "imputed_value_floats": [5.0]},
            op_domain=ML,
        ),
        [[0, 1]],
    ),
    (Case("Normalizer", [floats([0, 0])], {"norm": "L2"}, op_domain=ML), [[1, 1]]),
    (Case("Normalizer", [floats([3, 4])], {"norm": "L2"}, op_domain=ML), [[0.2 * 0.16, -0.2 * 0.12]]),
    (Case("Normalizer", [floats([1, 4])], {"norm": "MAX"}, op_domain=ML), [[0.25, -0.0625]]),
    (Case("ArrayFeatureExtractor", [floats([1, 2, 3]), np.array([[2, 0, 2]])], op_domain=ML), [[1, 0, 2]]),
]


@pytest.mark.parametrize(("case", "expected"), POINTS, ids=lambda value: str(value)[:40])
def test_gradient_at_a_point(case, expected):
    np.testing.assert_allclose(gradients_at(case)[0], expected, rtol=1e-5, atol=1e-7)


def test_float64_features_of_a_pipeline_get_gradients_in_float64():
    text = """<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 1]> g (double[N, 2] x) => (float[N, 1] y)
              { s = ai.onnx.ml.Scaler<scale = [2.0], offset = [0.5]>(x)
                y = ai.onnx.ml.LinearRegressor<coefficients = [3.0, -1.0], intercepts = [0.0]>(s) }"""
    (dx,) = gradients_of(text, {"x": np.array([[1.0, 2.0], [0.0, 0.0]])}, {"y": [[1.0], [2.0]]})
    assert dx.dtype == np.float64
    np.testing.assert_allclose(dx, [[6, -2], [12, -4]])


@pytest.mark.parametrize(
    ("op_type", "attributes", "told"),
    [
        ("LinearRegressor", {"coefficients": [1.0, 2.0], "post_transform": "PROBIT"}, "post_transform"),
        ("LinearClassifier", {"coefficients": [1.0, 2.0], "classlabels_ints": [0, 1], "intercepts": [0.0]}, "every"),
        ("SVMRegressor", {**SUM, "post_transform": "LOGISTIC"}, "post_transform"),
        ("SVMClassifier", {**MACHINE, "prob_a": [1.0], "prob_b": [0.0]}, "probabilities"),
    ],
)
def test_what_is_not_differentiated_is_refused(op_type, attributes, told):
    outputs = 2 if op_type.endswith("Classifier") else 1
    case = Case(op_type, [(2, 2)], attributes, op_domain=ML, outputs=outputs, seeded=[outputs - 1])
    with pytest.raises(GradientError, match=told):
        gradients_at(case)


def test_the_sign_of_a_machine_of_one_class_has_no_gradient():
    case = Case("SVMRegressor", [floats([1, 4])], {**SUM, "one_class": 1}, op_domain=ML)
    np.testing.assert_array_equal(gradients_at(case)[0], [[0, 0]])
