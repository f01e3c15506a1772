"""Attention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.graph.operand import Input, Operand
from onnxgrad.models.nn.functional import dropout, softmax
from onnxgrad.models.nn.initialize import full, glorot_uniform
from onnxgrad.models.nn.linear import Linear
from onnxgrad.models.nn.module import Module
from onnxgrad.models.nn.operators import Kind, one, several


def _masked(scores: Operand) -> float:
    """A score that stands for no attention, and is finite, so that a row without any has no NaN."""
    return -65504.0 if scores.element_type == ir.DataType.FLOAT16 else -1e9


def scaled_dot_product_attention(
    query: Kind, key: Operand, value: Operand, mask: Input = None, causal: bool = False, ratio: float = 0.0
) -> Kind:
    """softmax(query key^T / sqrt(D) + mask) value, over the last two axes [..., T, D].

    mask: bools, true where attention goes, or floats to add; broadcast. causal: no attention to later places. ratio: of
    dropout on the weights.
    """
    last = query.shape[-1] if query.shape is not None else None
    if not isinstance(last, int):
        raise OptionError("attention needs a known size of the last axis", where=repr(query))
    order = [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2]
    scores = one(query, "MatMul", query * (1 / math.sqrt(last)), key.transpose(order))
    if causal:
        ones = one(scores, "ConstantOfShape", one(scores, "Shape", scores, start=-2), value=np.ones(1, np.bool_))
        scores = one(scores, "Where", one(scores, "Trilu", ones, upper=0), scores, _masked(scores))
    if mask is not None:
        is_choice = isinstance(mask, Operand | np.ndarray) and mask.dtype == np.bool_
        scores = one(scores, "Where", mask, scores, _masked(scores)) if is_choice else one(scores, "Add", scores, mask)
    return one(query, "MatMul", dropout(softmax(scores), ratio), value)


class MultiHeadAttention(Module):
    """Attention with `heads` heads on [N, T, dim]; the last axis is split among them.

    The weights of query, key and value lie in one matrix [3 dim, dim], as in PyTorch. ratio: of dropout on the
    attention weights while training.
    """

    def __init__(
        self, dim: int, heads: int, bias: bool = True, ratio: float = 0.0, *, rng: np.random.Generator | None = None
    ) -> None:
        if dim % heads:
            raise OptionError(f"{dim} cannot be split among {heads} heads")
        self.dim, self.heads, self.ratio = dim, heads, ratio
        self.in_proj_weight = glorot_uniform((3 * dim, dim), rng)
        self.in_proj_bias = full((3 * dim,), 0) if bias else None
        self.out_proj = Linear(dim, dim, bias, rng=rng)
        if self.out_proj.bias is not None:
            self.out_proj.bias.set(np.zeros(dim, np.float32))

    def __call__(
        self, query: Kind, key: Kind | None = None, value: Kind | None = None, mask: Input = None, causal: bool = False
    ) -> Kind:
        """key: query by default; value: key by default. mask, causal: see `scaled_dot_product_attention`."""
        key = query if key is None else key
        value = key if value is None else value
        if query is key and key is value:
            packed = self._project(query, self.in_proj_weight, self.in_proj_bias)
            projected = several(query, 3, "Split", packed, axis=-1, num_outputs=3)
        else:
            weights = several(query, 3, "Split", self.in_proj_weight, axis=0, num_outputs=3)
            bias = self.in_proj_bias
            biases = (None,) * 3 if bias is None else several(query, 3, "Split", bias, axis=0, num_outputs=3)
            given = zip((query, key, value), weights, biases, strict=True)
            projected = tuple(self._project(x, weight, bias) for x, weight, bias in given)
        q, k, v = (self._split_heads(x) for x in projected)
        y = scaled_dot_product_attention(q, k, v, mask, causal, self.ratio if self.training else 0.0)
        merged = one(y, "Reshape", y.transpose(0, 2, 1, 3), [0, 0, self.dim])
        return self.out_proj(merged)

    def _project(self, x: Kind, weight: Operand, bias: Operand | None) -> Kind:
        y = one(x, "MatMul", x, weight.T)
        return y if bias is None else one(x, "Add", y, bias)

    def _split_heads(self, x: Kind) -> Kind:
        """[N, T, dim] -> [N, heads, T, dim / heads]"""
        return one(x, "Reshape", x, [0, 0, self.heads, self.dim // self.heads]).transpose(0, 2, 1, 3)
