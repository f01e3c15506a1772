"""Smooth operators of ai.onnx.ml: their outputs are float32 in the standard; the reference evaluator keeps float64
for the first order, but a graph of second order would mix both."""

import numpy as np

from tests.grad.checks import Case

ML = "ai.onnx.ml"
WEIGHTS = [0.5, -1.0, 2.0, 1.5, 0.25, -0.75]


def _case(op_type: str, inputs, attributes=None, name: str = "", **options) -> Case:
    options.setdefault("half", False)  # the standard has no float16 here
    return Case(op_type, inputs, attributes or {}, op_domain=ML, name=name, **options)


CASES = [
    _case("Scaler", ((2, 3),), {"scale": [0.5, 2.0, -1.0], "offset": [0.1, 0.2, 0.3]}),
    _case("Scaler", ((2, 3),), {"scale": [0.5], "offset": [0.1]}),
    _case("LinearRegressor", ((2, 3),), {"coefficients": WEIGHTS, "intercepts": [0.1, 0.2], "targets": 2}),
    _case("LinearRegressor", ((2, 3),), {"coefficients": WEIGHTS[:3], "intercepts": [0.5]}),
    *(
        _case(
            "LinearClassifier",
            ((2, 3),),
            {
                "coefficients": WEIGHTS,
                "intercepts": [0.1, 0.2],
                "classlabels_ints": [0, 1],
                "post_transform": transform,
            },
            outputs=2,
            seeded=[1],
            second=transform == "NONE",
        )
        for transform in ("NONE", "LOGISTIC", "SOFTMAX")
    ),
    *(_case("Normalizer", ((2, 3),), {"norm": norm}, domain=(0.3, 2.0), second=False) for norm in ("MAX", "L1", "L2")),
    _case("FeatureVectorizer", ((2, 3), (2, 1)), {"inputdimensions": [3, 1]}),
    _case("ArrayFeatureExtractor", ((2, 4), np.array([[3, 0, 3]]))),
    _case("Imputer", (np.array([[1.0, -0.5, 2.0]]),), {"replaced_value_float": -1.0, "imputed_value_floats": [5.0]}),
]
