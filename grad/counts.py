"""How many elements a reduction takes together."""

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder


def inverse_count(op: Builder, whole: ir.Value, part: ir.Value, axes: Sequence[int] | None = None) -> ir.Value:
    """1/n as a scalar of the dtype of `whole`, where n elements of `whole` make one of `part`.

    axes: those that `part` lacks, if they are known: then n is a constant where their dimensions are.
    """
    dims = None if whole.shape is None or axes is None else [whole.shape[axis] for axis in axes]
    known = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is not None and len(known) == len(dims):
        return op.constant_like(whole, 1 / max(prod(known), 1))
    wide = ir.DataType.DOUBLE if whole.dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    few, many = (op.Cast(op.Size(value), to=int(wide)) for value in (part, whole))
    ratio = op.Div(few, many)
    return ratio if whole.dtype in (None, wide) else op.Cast(ratio, to=int(whole.dtype))
