"""Products and recurrences along an axis in log2(n) steps, without a division and exact with zeros."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder

_LONGEST = 31  # doublings that reach over any axis whose length is not known

Dim = int | ir.SymbolicDim | None


def exclusive_product(op: Builder, x: ir.Value, axis: ir.Value, size: Dim, step: int) -> ir.Value:
    """y_i = product of x_j for j < i (step 1) or j > i (step -1) along axis (int64[1]) of `size` elements."""
    product = shifted(op, x, axis, size, step, 1.0)
    for power in range(_doublings(size - 1 if isinstance(size, int) else None)):
        product = op.Mul(product, shifted(op, product, axis, size, step * 2**power, 1.0))
    return product


def suffix_recurrence(op: Builder, b: ir.Value, a: ir.Value, axis: ir.Value, size: Dim, step: int) -> ir.Value:
    """s_i = b_i + a_i s_i+step along axis, with s = 0 past the end."""
    for power in range(_doublings(size)):
        ahead = -step * 2**power
        b = op.Add(b, op.Mul(a, shifted(op, b, axis, size, ahead, 0.0)))
        a = op.Mul(a, shifted(op, a, axis, size, ahead, 0.0))
    return b


def shifted(op: Builder, x: ir.Value, axis: ir.Value, size: Dim, step: int, fill: float) -> ir.Value:
    """y_i = x_i-step along axis, `fill` where there is none."""
    length: int | ir.Value = abs(step)
    if not isinstance(size, int):
        length = op.Min(op.constant([abs(step)]), op.Gather(op.Shape(x), axis))
    elif size <= abs(step):
        return op.Expand(op.constant_like(x, fill), op.shape_of(x))
    width = op.constant([length]) if isinstance(length, int) else length
    if step > 0:
        kept = op.Slice(x, [0], op.Neg(width), axis)
        pads = op.Concat(width, [0], axis=0)
    else:
        kept = op.Slice(x, width, [2**62], axis)
        pads = op.Concat([0], width, axis=0)
    result = op.Pad(kept, pads, op.constant_like(x, fill), axis)
    result.shape = x.shape
    return result


def _doublings(reach: Dim) -> int:
    return max(reach - 1, 0).bit_length() if isinstance(reach, int) else _LONGEST
