"""Activation functions."""

import numpy as np

from tests.grad.checks import Case

SIGNS = (np.array([[-1.5, 0.25, 2.0], [-0.25, 1.5, -4.0]]),)
CONTRIB = "com.microsoft"
# float64 has no kernels in com.microsoft: tests/grad/contrib_operators.py gives the reference evaluator the formulas

CASES = [
    Case("Relu", SIGNS),
    Case("Relu", ((0, 2),), name="Relu-zero-size"),
    Case("LeakyRelu", SIGNS),
    Case("LeakyRelu", SIGNS, {"alpha": 0.3}),
    Case("PRelu", (SIGNS[0], (3,))),
    Case("PRelu", (SIGNS[0], (2, 1)), name="PRelu-rows"),
    Case("PRelu", (SIGNS[0], ()), name="PRelu-scalar"),
    Case("ThresholdedRelu", SIGNS),
    Case("ThresholdedRelu", SIGNS, {"alpha": 0.2}),
    Case("Elu", SIGNS),
    Case("Elu", SIGNS, {"alpha": 2.0}),
    Case("Selu", SIGNS),
    Case("Selu", SIGNS, {"alpha": 2.0, "gamma": 0.5}),
    Case("Celu", SIGNS),
    Case("Celu", SIGNS, {"alpha": 0.5}),
    Case("Celu", SIGNS, opset=28, runs32=False),
    Case("Sigmoid", SIGNS),
    Case("Tanh", SIGNS),
    Case("HardSigmoid", SIGNS),
    Case("HardSigmoid", SIGNS, {"alpha": 0.3, "beta": 0.25}),
    Case("HardSwish", (np.array([-4.0, -1.0, 0.0, 1.0, 4.0]),)),
    Case("Softplus", SIGNS),
    Case("Softsign", SIGNS),
    Case("Mish", SIGNS),
    Case("Shrink", SIGNS),
    Case("Shrink", SIGNS, {"lambd": 1.0, "bias": 0.5}),
    Case("Swish", SIGNS, opset=24),
    Case("Swish", SIGNS, {"alpha": 0.5}, opset=24),
    Case("SwiGLU", (SIGNS[0], (2, 3)), opset=28, runs32=False),
    Case("SwiGLU", (SIGNS[0], (2, 3)), {"alpha": 1.5}, opset=28, runs32=False),
    Case("Softmax", ((2, 3),)),
    Case("Softmax", ((2, 3, 2),), {"axis": 1}),
    Case("Softmax", ((2, 3),), {"axis": -2}),
    Case("LogSoftmax", ((2, 3),)),
    Case("LogSoftmax", ((2, 3, 2),), {"axis": 0}),
    Case("Gelu", SIGNS, half=False),  # numpy has no float16 erf
    Case("Gelu", SIGNS, {"approximate": "tanh"}),
    Case("Gelu", SIGNS, op_domain=CONTRIB, name="com.microsoft.Gelu", half=False),
    Case("BiasGelu", (SIGNS[0], (3,)), op_domain=CONTRIB, half=False),
    Case("FastGelu", SIGNS, op_domain=CONTRIB, half=False),
    Case("FastGelu", (SIGNS[0], (3,)), op_domain=CONTRIB, name="FastGelu-bias"),
    Case("QuickGelu", SIGNS, op_domain=CONTRIB),
    Case("QuickGelu", SIGNS, {"alpha": 1.0}, op_domain=CONTRIB),
]
