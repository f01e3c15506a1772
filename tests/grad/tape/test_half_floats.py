"""Gradients of half floats that are added at indices: those of float64, rounded."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn

ROWS = np.array([0, 1, 1])

FUNCTIONS = {
    "gathered": lambda x: (og.op.Gather(x, ROWS) ** 2).sum(),
    "gathered elements": lambda x: og.op.GatherElements(x, ROWS[None], axis=1).sum(),
    "gathered slices": lambda x: (og.op.GatherND(x, ROWS[:, None]) ** 2).sum(),
    "by two arrays": lambda x: (x[ROWS, ROWS] ** 2).sum(),
    "cross entropy": lambda x: nn.cross_entropy(x, ROWS[:2]),
    "softmax cross entropy": lambda x: og.op.SoftmaxCrossEntropyLoss(x, ROWS[:2]),
    "negative log likelihood": lambda x: og.op.NegativeLogLikelihoodLoss(og.op.LogSoftmax(x), ROWS[:2]),
    "max pool": lambda x: og.op.MaxPool(x[None, None], kernel_shape=[2, 2]).sum(),
    "padded": lambda x: (og.op.Pad(x, [0, 2, 0, 0], mode="reflect") ** 2).sum(),
}


def gradient(function, array, dtype, wrap):
    x = og.Tensor(array, dtype)

    def step(value):
        with og.Grad() as grad:
            grad.wrt(value)
            grad(function(value))
        return value.grad

    found = wrap(step)(x)
    assert found.element_type == x.element_type
    return found.numpy().astype(np.float64)


@pytest.mark.parametrize("wrap", [og.trace, lambda step: step], ids=["traced", "at once"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_half_floats_are_those_of_doubles(name, dtype, wrap):
    array = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float16)
    tolerance = {"float16": 5e-3, "bfloat16": 4e-2}[dtype]
    found = gradient(FUNCTIONS[name], array, dtype, wrap)
    np.testing.assert_allclose(found, gradient(FUNCTIONS[name], array, "float64", wrap), rtol=tolerance, atol=tolerance)
