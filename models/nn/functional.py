"""Functions on tensors and variables: activations, pooling, dropout, losses."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.graph.operand import Operand
from onnxgrad.grad.losses import MSE, CrossEntropy, Loss, Reduction
from onnxgrad.grad.tape.loss_call import call_loss
from onnxgrad.models.nn.operators import Kind, one, several


def relu(x: Kind) -> Kind:
    """max(x, 0)"""
    return one(x, "Relu", x)


def leaky_relu(x: Kind, slope: float = 0.01) -> Kind:
    """x where it is positive, slope x elsewhere"""
    return one(x, "LeakyRelu", x, alpha=slope)


def elu(x: Kind, alpha: float = 1.0) -> Kind:
    """x where it is positive, alpha (e^x - 1) elsewhere"""
    return one(x, "Elu", x, alpha=alpha)


def gelu(x: Kind, approximate: str = "none") -> Kind:
    """x Phi(x), Phi the normal distribution; approximate="tanh" for the form with tanh"""
    return one(x, "Gelu", x, approximate=approximate)


def silu(x: Kind) -> Kind:
    """x sigmoid(x)"""
    return one(x, "Mul", x, one(x, "Sigmoid", x))


def mish(x: Kind) -> Kind:
    """x tanh(log(1 + e^x))"""
    return one(x, "Mish", x)


def softplus(x: Kind) -> Kind:
    """log(1 + e^x)"""
    return one(x, "Softplus", x)


def sigmoid(x: Kind) -> Kind:
    """1 / (1 + e^-x)"""
    return one(x, "Sigmoid", x)


def tanh(x: Kind) -> Kind:
    """The hyperbolic tangent"""
    return one(x, "Tanh", x)


def softmax(x: Kind, axis: int = -1) -> Kind:
    """e^x / sum(e^x), over one axis"""
    return one(x, "Softmax", x, axis=axis)


def log_softmax(x: Kind, axis: int = -1) -> Kind:
    """x - log(sum(e^x)), over one axis"""
    return one(x, "LogSoftmax", x, axis=axis)


def flatten(x: Kind) -> Kind:
    """[N, ...] -> [N, K]"""
    return one(x, "Flatten", x)


def dropout(x: Kind, ratio: float = 0.5, training: bool = True) -> Kind:
    """While training, 0 with probability `ratio` and x / (1 - ratio) otherwise, each element for itself; else x

    Raises: OptionError for a ratio that is not in 0..1, 1 excluded.
    """
    check_ratio(ratio)
    if not training or ratio == 0:
        return x
    y, _ = several(x, 2, "Dropout", x, ratio, True)  # the mask is for the gradient
    return y


def check_ratio(ratio: float) -> None:
    """Raises: OptionError for what is no ratio of dropout."""
    if not 0 <= ratio < 1:
        raise OptionError(f"a ratio of dropout of {ratio} is not possible", fix="0 <= ratio < 1")


def max_pool(
    x: Kind, kernel: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0
) -> Kind:
    """Maxima over windows of [N, C, ...]; the stride is the kernel's size unless another is given"""
    axes = x.ndim - 2
    sizes, pads = spread(kernel, axes), spread(padding, axes)
    strides = sizes if stride is None else spread(stride, axes)
    return one(x, "MaxPool", x, kernel_shape=sizes, strides=strides, pads=[*pads, *pads])


def avg_pool(
    x: Kind, kernel: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0
) -> Kind:
    """Means over windows of [N, C, ...], zeros of the padding counted; the stride is the kernel's size by default"""
    axes = x.ndim - 2
    sizes, pads = spread(kernel, axes), spread(padding, axes)
    strides = sizes if stride is None else spread(stride, axes)
    return one(x, "AveragePool", x, kernel_shape=sizes, strides=strides, pads=[*pads, *pads], count_include_pad=1)


def spread(value: int | Sequence[int], count: int) -> list[int]:
    """A number for each axis."""
    return [value] * count if isinstance(value, int) else list(value)


def apply_loss(loss: Loss, prediction: Kind, label: Operand | np.ndarray) -> Kind:
    """One of og.losses on tensors or variables: a scalar. Raises: ShapeError for a label that does not fit."""
    return call_loss(loss, prediction, label)


def cross_entropy(
    logits: Kind,
    labels: Operand | np.ndarray,
    *,
    class_weights: Sequence[float] | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Kind:
    """og.losses.CrossEntropy: logits [N, C] or [N, C, ...], labels [N] or [N, ...] of integers."""
    weights = None if class_weights is None else tuple(class_weights)
    return call_loss(_cross_entropy(weights, ignore_index, label_smoothing, reduction), logits, labels)


def mse(prediction: Kind, target: Operand | np.ndarray, *, reduction: Reduction = "mean") -> Kind:
    """og.losses.MSE: the mean of the squared differences."""
    return call_loss(_mse(reduction), prediction, target)


@functools.lru_cache(64)
def _cross_entropy(
    weights: tuple[float, ...] | None, ignore_index: int | None, label_smoothing: float, reduction: Reduction
) -> CrossEntropy:
    return CrossEntropy(weights, ignore_index, label_smoothing, reduction)


@functools.lru_cache(8)
def _mse(reduction: Reduction) -> MSE:
    return MSE(reduction)
