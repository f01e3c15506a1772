"""Operators of com.microsoft for onnx's reference evaluator: their formulas, in any float type."""

from math import erf, sqrt

import numpy as np
from onnx.reference.op_run import OpRun

from tests.grad.contrib_attention import ATTENTION
from tests.grad.contrib_matmul import PRODUCTS
from tests.grad.contrib_recurrent import RECURRENT


def _gelu(x):
    return x * 0.5 * (1 + np.vectorize(erf, otypes=["d"])(x / sqrt(2))).astype(x.dtype)


def _tanh_gelu(x):
    return x * x.dtype.type(0.5) * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)).astype(x.dtype))


class Gelu(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, approximate=None):  # the attribute of the standard's Gelu
        return (_gelu(x),)


class BiasGelu(OpRun):
    op_domain = "com.microsoft"

    def _run(self, a, b):
        return (_gelu(a + b),)


class FastGelu(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, bias=None):
        return (_tanh_gelu(x if bias is None else x + bias),)


class QuickGelu(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, alpha=None):
        return (x / (1 + np.exp(-x.dtype.type(1.702 if alpha is None else alpha) * x)),)


def _statistics(x, axes, epsilon):
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    mean = wide.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axis=axes, keepdims=True) + epsilon)
    return wide, mean, inverse


class SkipLayerNormalization(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, skip, gamma, beta=None, bias=None, epsilon=None):
        total = x + skip if bias is None else x + skip + bias
        wide, mean, inverse = _statistics(total, (-1,), 1e-12 if epsilon is None else epsilon)
        y = ((wide - mean) * inverse).astype(x.dtype) * gamma
        outputs = (y if beta is None else y + beta, mean, inverse, total)
        return outputs[: len(self.onnx_node.output)]


class SkipSimplifiedLayerNormalization(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, skip, gamma, bias=None, epsilon=None):
        total = x + skip if bias is None else x + skip + bias
        wide = total.astype(np.promote_types(x.dtype, np.float32))
        inverse = 1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + (1e-12 if epsilon is None else epsilon))
        outputs = ((wide * inverse).astype(x.dtype) * gamma, np.zeros_like(inverse), inverse, total)
        return outputs[: len(self.onnx_node.output)]


class SimplifiedLayerNormalization(OpRun):
    """onnxruntime has it in the standard's own domain."""

    op_domain = ""

    def _run(self, x, scale, axis=None, epsilon=None, stash_type=None):
        axes = tuple(range((-1 if axis is None else axis) % x.ndim, x.ndim))
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        inverse = 1 / np.sqrt((wide * wide).mean(axes, keepdims=True) + (1e-5 if epsilon is None else epsilon))
        outputs = ((wide * inverse).astype(x.dtype) * scale, inverse)
        return outputs[: len(self.onnx_node.output)]


OPERATORS = [
    *(Gelu, BiasGelu, FastGelu, QuickGelu),
    *(SkipLayerNormalization, SkipSimplifiedLayerNormalization, SimplifiedLayerNormalization),
    *PRODUCTS,
    *RECURRENT,
    *ATTENTION,
]
