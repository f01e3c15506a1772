"""Cases for grad/rules/support_vectors.py. Outputs are float32 in the standard: a second order would mix types."""

import numpy as np

from tests.grad.checks import Case

ML = "ai.onnx.ml"
VECTORS = np.random.default_rng(0).uniform(-1, 1, (5, 3)).round(3)
KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "RBF": [0.5, 0.0, 0.0], "POLY": [0.5, 0.75, 3.0], "SIGMOID": [0.25, 0.1, 0.0]}


def _case(op_type, name, attributes, **options) -> Case:
    return Case(
        op_type, ((2, 3),), attributes, name=f"{op_type}-{name}", op_domain=ML, half=False, second=False, **options
    )


def _regressor(kernel: str) -> Case:
    attributes = {"kernel_type": kernel, "n_supports": 5, "support_vectors": VECTORS.ravel().tolist(), "rho": [0.3]}
    attributes |= {"kernel_params": KERNELS[kernel], "coefficients": [0.5, -1.0, 2.0, -0.25, 1.5]}
    return _case("SVMRegressor", kernel, attributes)


def _classifier(name: str, counts: list[int]) -> Case:
    classes = len(counts)
    attributes = {
        "classlabels_ints": list(range(classes)),
        "coefficients": np.linspace(-1, 1.5, (classes - 1) * 5).round(3).tolist(),
        "kernel_type": "RBF",
        "kernel_params": KERNELS["RBF"],
        "rho": np.linspace(0.1, 0.3, classes * (classes - 1) // 2).round(3).tolist(),
        "support_vectors": VECTORS.ravel().tolist(),
        "vectors_per_class": counts,
    }
    return _case("SVMClassifier", name, attributes, outputs=2, seeded=[1])


LINEAR = {"kernel_params": KERNELS["LINEAR"], "coefficients": [0.5, -1.0, 2.0], "rho": [0.25]}
PER_CLASS = {
    "kernel_params": KERNELS["LINEAR"],
    "coefficients": np.linspace(-1, 1.5, 9).round(3).tolist(),
    "rho": [0.25, 0.25, 0.25],
    "classlabels_ints": [0, 1, 2],
}
CASES = [
    *(_regressor(kernel) for kernel in KERNELS),
    _case("SVMRegressor", "without-vectors", LINEAR),
    _classifier("three", [2, 1, 2]),
    _classifier("two", [2, 3]),
    _case("SVMClassifier", "without-vectors", PER_CLASS, outputs=2, seeded=[1]),
]
