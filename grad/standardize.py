"""What the normalizations share: z = (x - mean) / sqrt(variance + epsilon) and its gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.counts import inverse_count


@dataclass(frozen=True)
class Standard:
    """z = (x - mean(x)) inverse, or x inverse if not centred, with statistics over `axes`, which they keep as 1."""

    z: ir.Value
    inverse: ir.Value
    axes: Sequence[int]
    centred: bool = True


def wide_type(*values: ir.Value | None) -> ir.DataType:
    """The type to compute statistics in: float64 if one of `values` has it, else float32."""
    is_double = any(value is not None and value.dtype == ir.DataType.DOUBLE for value in values)
    return ir.DataType.DOUBLE if is_double else ir.DataType.FLOAT


def cast(op: Builder, value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    """`value` in another type."""
    return value if dtype is None or value.dtype == dtype else op.Cast(value, to=int(dtype))


def mean(op: Builder, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The mean over `axes`, which are kept as 1; x itself if there are none."""
    return op.ReduceMean(x, list(axes), keepdims=1) if axes else x


def standardize(op: Builder, x: ir.Value, axes: Sequence[int], epsilon: float, centred: bool = True) -> Standard:
    """z = d r with r = 1 / sqrt(mean(d^2) + epsilon), where d is x - mean(x), or x if not centred."""
    deviation = op.Sub(x, mean(op, x, axes)) if centred else x
    variance = mean(op, op.Mul(deviation, deviation), axes)
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    return Standard(op.Mul(deviation, inverse), inverse, axes, centred)


def pull_back(
    op: Builder,
    to: Standard,
    dz: ir.Value | None,
    d_mean: ir.Value | None = None,
    d_inverse: ir.Value | None = None,
) -> ir.Value | None:
    """dx = r (dz - mean(dz) - z mean(dz z)) for z = (x - mean(x)) r; not centred: without mean(dz).

    d_mean, d_inverse: gradients of the mean and of r, where they are results themselves: they add d_mean / n and
    -d_inverse r^2 z / n. None if there is no gradient at all.
    """
    weight = None if dz is None else mean(op, op.Mul(dz, to.z), to.axes)
    share = inverse_count(op, to.z, to.inverse, to.axes)
    if d_inverse is not None:
        extra = op.Mul(op.Mul(d_inverse, to.inverse), share)
        weight = extra if weight is None else op.Add(weight, extra)
    dx = None
    if weight is not None:
        along = op.Mul(weight, to.z)
        level = dz if dz is None or not to.centred else op.Sub(dz, mean(op, dz, to.axes))
        dx = op.Mul(op.Neg(along) if level is None else op.Sub(level, along), to.inverse)
    if d_mean is None:
        return dx
    even = op.Mul(d_mean, share)
    return op.Expand(even, op.shape_of(to.z)) if dx is None else op.Add(dx, even)
