"""Layers that multiply by a matrix, or pick its rows."""

from __future__ import annotations

import numpy as np

from onnxgrad.models.nn.initialize import fan_in_uniform, normal
from onnxgrad.models.nn.module import Module
from onnxgrad.models.nn.operators import Kind, one


class Linear(Module):
    """y = x weight^T + bias, over the last axis: [..., in_features] -> [..., out_features]."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, rng: np.random.Generator | None = None
    ) -> None:
        self.weight = fan_in_uniform((out_features, in_features), in_features, rng)
        self.bias = fan_in_uniform((out_features,), in_features, rng) if bias else None

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        if x.ndim == 2:
            return one(x, "Gemm", x, self.weight, self.bias, transB=1)
        y = one(x, "MatMul", x, self.weight.T)
        return y if self.bias is None else one(x, "Add", y, self.bias)


class Embedding(Module):
    """y = weight[x]: integers of any shape [...] -> [..., dim]."""

    def __init__(self, count: int, dim: int, *, rng: np.random.Generator | None = None) -> None:
        self.weight = normal((count, dim), rng=rng)

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        return one(x, "Gather", self.weight, x, axis=0)
