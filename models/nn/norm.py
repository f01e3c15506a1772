"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.operand import Operand
from onnxgrad.grad.tape.tensor import Tensor
from onnxgrad.models.nn.initialize import full
from onnxgrad.models.nn.module import Buffer, Module
from onnxgrad.models.nn.operators import Kind, one, several


class BatchNorm(Module):
    """y = (x - mean) / sqrt(variance + eps) weight + bias, for each channel of [N, C, ...].

    While training, mean and variance are those of the batch, and the running ones move towards them: by `momentum`, and
    to the variance with one degree of freedom less, as PyTorch does. Otherwise the running ones are used.
    """

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = full((channels,), 1), full((channels,), 0)
        self.running_mean = Buffer(np.zeros(channels, np.float32))
        self.running_var = Buffer(np.ones(channels, np.float32))

    def __call__(self, x: Kind) -> Kind:
        """See the class. Raises: GraphError for a variable of a graph while training: it has no state to update."""
        given = (x, self.weight, self.bias)
        if not self.training:
            return one(x, "BatchNormalization", *given, self.running_mean, self.running_var, epsilon=self.eps)
        if not isinstance(x, Tensor):
            raise GraphError("BatchNorm cannot update its statistics in a graph", where=repr(x), fix="eval(), og.trace")
        # With a momentum of 0 the running values that come out are those of the batch. What goes in is written to by
        # onnxruntime, where the values that come out are no outputs of the graph: they are values of their own.
        state = (self.running_mean * 0.0, self.running_var * 0.0)
        y, mean, variance = several(
            x, 3, "BatchNormalization", *given, *state, epsilon=self.eps, momentum=0.0, training_mode=1
        )
        self._follow(x, mean.detach(), variance.detach())
        return y

    def _follow(self, x: Tensor, mean: Tensor, variance: Tensor) -> None:
        count = _elements_per_channel(x)
        factor: Operand | float
        if isinstance(count, int):
            factor = self.momentum * count / max(count - 1, 1)
        else:
            factor = count / one(count, "Max", count - 1, 1.0) * self.momentum
        self.running_mean.set(self.running_mean * (1 - self.momentum) + mean * self.momentum)
        self.running_var.set(self.running_var * (1 - self.momentum) + variance * factor)


def _elements_per_channel(x: Tensor) -> int | Tensor:
    sizes = x.shape or ()
    known = [size for axis, size in enumerate(sizes) if axis != 1 and isinstance(size, int)]
    if len(known) == len(sizes) - 1:
        return int(np.prod(known))
    channels = one(x, "Shape", x, start=1, end=2)
    return one(x, "Div", one(x, "Size", x), one(x, "Squeeze", channels)).astype(x.element_type)


class LayerNorm(Module):
    """y = (x - mean) / sqrt(variance + eps) weight + bias, over the last axes, whose sizes are `shape`."""

    def __init__(self, shape: int | Sequence[int], eps: float = 1e-5, bias: bool = True) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = full(self.shape, 1)
        self.bias = full(self.shape, 0) if bias else None

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        return one(x, "LayerNormalization", x, self.weight, self.bias, axis=-len(self.shape), epsilon=self.eps)


class RMSNorm(Module):
    """y = x / sqrt(mean(x^2) + eps) weight, over the last axes, whose sizes are `shape`."""

    def __init__(self, shape: int | Sequence[int], eps: float = 1e-6) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = full(self.shape, 1)

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        return one(x, "RMSNormalization", x, self.weight, axis=-len(self.shape), epsilon=self.eps)


class GroupNorm(Module):
    """As LayerNorm over each of `groups` groups of channels of [N, C, ...], with a weight and bias for each channel."""

    def __init__(self, groups: int, channels: int, eps: float = 1e-5) -> None:
        if channels % groups:
            raise OptionError(f"{channels} channels cannot be split into {groups} groups")
        self.groups, self.eps = groups, eps
        self.weight, self.bias = full((channels,), 1), full((channels,), 0)

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        precision = ir.DataType.DOUBLE if x.element_type == ir.DataType.DOUBLE else ir.DataType.FLOAT
        return one(
            x,
            "GroupNormalization",
            x,
            self.weight,
            self.bias,
            num_groups=self.groups,
            epsilon=self.eps,
            stash_type=int(precision),
        )
