"""Normalizations for onnx's reference evaluator, which has them wrong (LRN, LpNormalization), in float32 or less only
(GroupNormalization, MeanVarianceNormalization) or with statistics in the type of x (LayerNormalization)."""

import numpy as np
from onnx.reference.op_run import OpRun


def _standardized(x, axes, epsilon):
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    mean = wide.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axis=axes, keepdims=True) + wide.dtype.type(epsilon))
    return ((wide - mean) * inverse).astype(x.dtype), mean, inverse


class LayerNormalization(OpRun):
    def _run(self, x, scale, b=None, axis=None, epsilon=None, stash_type=None):
        y, mean, inverse = _standardized(x, tuple(range(axis % x.ndim, x.ndim)), epsilon)
        y = y * scale if b is None else y * scale + b
        return (y, mean, inverse)[: len(self.onnx_node.output)]


class GroupNormalization(OpRun):
    """Per channel scale and bias, or per group as before opset 21."""

    def _run(self, x, scale, b, epsilon=None, num_groups=None, stash_type=None):
        groups = x.reshape(x.shape[0], num_groups, -1)
        y = _standardized(groups, (2,), epsilon)[0].reshape(x.shape)
        scale, b = (np.repeat(v, x.shape[1] // v.size).reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, b))
        return (y * scale + b,)


class MeanVarianceNormalization(OpRun):
    def _run(self, x, axes=None):
        axes = tuple(axes or (0, 2, 3))
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        y = (wide - wide.mean(axis=axes, keepdims=True)) / (wide.std(axis=axes, keepdims=True) + 1e-9)
        return (y.astype(x.dtype),)


class LpNormalization(OpRun):
    def _run(self, x, axis=None, p=None):
        axis, p = -1 if axis is None else axis, p or 2
        norm = np.linalg.norm(x.astype(np.promote_types(x.dtype, np.float32)), p, axis, keepdims=True)
        return ((x / np.where(norm == 0, 1, norm)).astype(x.dtype),)


class LRN(OpRun):
    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(x * x, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
        window = sum(squares[:, k : k + x.shape[1]] for k in range(size))
        return ((x / (bias + alpha / size * window) ** beta).astype(x.dtype),)


OPERATORS = [LayerNormalization, GroupNormalization, MeanVarianceNormalization, LpNormalization, LRN]
