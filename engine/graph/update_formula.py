"""alpha * dest + beta * delta + bias as nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder

Cast: TypeAlias = Callable[[ir.Value], ir.Value]


def working_type(kind: ir.DataType) -> ir.DataType:
    """The type that an update of elements of type `kind` is computed in, and rounded from once."""
    return ir.DataType.FLOAT if kind.is_floating_point() and kind.bitwidth <= 16 else kind


def next_value(
    op: Builder,
    dest: ir.Value,
    delta: ir.Value,
    alpha: ir.Value | None = None,
    beta: ir.Value | None = None,
    bias: ir.Value | None = None,
    disable: ir.Value | None = None,
) -> ir.Value:
    """y = alpha * dest + beta * delta + bias, of the shape and dtype of dest; y = dest where disable is 1.

    A coefficient that is None is 1, or 0 for bias. Where alpha is 0 dest is not read, whatever it holds.
    """
    kind = dest.dtype
    assert kind is not None
    plain = alpha is None and beta is None and bias is None and kind.bitwidth > 8
    work = kind if plain else working_type(kind)

    def cast(value: ir.Value) -> ir.Value:
        return value if value.dtype == work else op.Cast(value, to=int(work))

    term = cast(delta)
    if beta is not None:
        term = op.Mul(term, cast(beta))
    if bias is not None:
        term = op.Add(term, cast(bias))
    y = _sum(op, dest, term, alpha, cast)
    if y.dtype != kind:
        y = op.Cast(y, to=int(kind))
    return y if disable is None else _unless(op, disable, dest, y)


def _sum(op: Builder, dest: ir.Value, term: ir.Value, alpha: ir.Value | None, cast: Cast) -> ir.Value:
    """alpha * dest + term"""
    if alpha is None:
        return op.Add(cast(dest), term)
    if alpha.const_value is not None and not alpha.const_value.numpy().any():
        return op.Identity(term) if _same_shape(dest, term) else op.Expand(term, op.shape_of(dest))
    kept = op.Mul(cast(dest), cast(alpha))
    uses_dest = op.Cast(alpha, to=int(ir.DataType.BOOL))
    return op.Add(op.Where(uses_dest, kept, op.constant_like(kept, 0)), term)


def _same_shape(x: ir.Value, y: ir.Value) -> bool:
    return x.shape is not None and x.shape == y.shape and all(_is_known(dim) for dim in x.shape)


def _is_known(dim: int | ir.SymbolicDim) -> bool:
    return isinstance(dim, int) or dim.value is not None


def _unless(op: Builder, disable: ir.Value, dest: ir.Value, y: ir.Value) -> ir.Value:
    """dest if disable is 1, y if it is 0; anything else is an index that does not exist, and an error of the run."""
    index = op.Cast(op.Cast(disable, to=int(ir.DataType.UINT32)), to=int(ir.DataType.INT64))
    scope, op.scope = op.scope, "disable_must_be_0_or_1"
    keeps = op.Gather(op.constant(np.array([False, True])), index)
    op.scope = scope
    return op.Where(keeps, dest, y)
