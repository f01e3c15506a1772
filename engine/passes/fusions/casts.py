"""Casts that follow a cast which loses nothing, and casts of what is made from a number."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_D = ir.DataType
_EXACT: Mapping[ir.DataType, frozenset[ir.DataType]] = {
    _D.BOOL: frozenset(
        {
            *(_D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64),
            *(_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE),
        }
    ),
    _D.INT8: frozenset({_D.INT16, _D.INT32, _D.INT64, _D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE}),
    _D.UINT8: frozenset(
        {
            *(_D.INT16, _D.INT32, _D.INT64, _D.UINT16, _D.UINT32, _D.UINT64),
            *(_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE),
        }
    ),
    _D.INT16: frozenset({_D.INT32, _D.INT64, _D.FLOAT, _D.DOUBLE}),
    _D.UINT16: frozenset({_D.INT32, _D.INT64, _D.UINT32, _D.UINT64, _D.FLOAT, _D.DOUBLE}),
    _D.INT32: frozenset({_D.INT64, _D.DOUBLE}),
    _D.UINT32: frozenset({_D.INT64, _D.UINT64, _D.DOUBLE}),
    _D.FLOAT16: frozenset({_D.FLOAT, _D.DOUBLE}),
    _D.BFLOAT16: frozenset({_D.FLOAT, _D.DOUBLE}),
    _D.FLOAT: frozenset({_D.DOUBLE}),
}
_INTEGERS = frozenset({_D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64})
_PLAIN = frozenset({*_EXACT, _D.INT64, _D.UINT64, _D.DOUBLE})


def loses_nothing(source: ir.DataType | None, target: ir.DataType) -> bool:
    """Whether every value of one dtype is one of the other: NaN, infinities and -0.0 too."""
    return source is not None and target in _EXACT.get(source, ())


def _direct(source: ir.DataType | None, via: int, to: int) -> bool:
    """Whether source -> via -> to is the same as source -> to.

    Real numbers that are out of range as integers have no defined result, and kernels differ in them: no fusion.
    """
    if source is None or not loses_nothing(source, _D(via)) or _D(to) not in _PLAIN:
        return False
    return source == to or source in (_D.BOOL, *_INTEGERS) or _D(to) not in _INTEGERS


class MergeCasts(Rewrite):
    """Cast(Cast(x)) -> Cast(x), or x, where the first cast loses nothing. Casts that narrow stay."""

    def pattern(self, op: Ops, x: Leaf, via: Leaf, to: Leaf) -> Pattern:
        return op.Cast(op.Cast(x, to=via, attributes=ANY).keep(), to=to, attributes=ANY)

    def check(self, x: ir.Value, via: int, to: int) -> Match:
        return Match.when(_direct(x.dtype, via, to), "the first cast loses something, or may")

    def rewrite(self, op: Builder, x: ir.Value, to: int) -> ir.Value:
        return x if x.dtype == to else op.Cast(x, to=to)


_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Expand", "Tile", "Identity")


class MoveCastsAway(Rewrite):
    """Cast(f(Cast(x))) -> f(x), where f moves elements only and the dtype of x is back."""

    def pattern(self, op: Ops, x: Leaf, via: Leaf, to: Leaf, rest: Leaf) -> Pattern:
        wide = op.Cast(x, to=via, attributes=ANY).keep()
        return op.Cast(op.one_of(_MOVES, wide, op.many(rest), attributes=ANY).named("h"), to=to, attributes=ANY)

    def check(self, x: ir.Value, via: int, to: int) -> Match:
        return Match.all(loses_nothing(x.dtype, _D(via)), x.dtype == to)

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, rest: tuple[ir.Value, ...]) -> ir.Value:
        return write_again(op, h, x, *rest)


class CastConstantOfShape(Rewrite):
    """Cast(ConstantOfShape(shape)) -> ConstantOfShape(shape) of the other dtype."""

    def pattern(self, op: Ops, shape: Leaf, value: Leaf, to: Leaf) -> Pattern:
        return op.Cast(op.ConstantOfShape(shape, value=value), to=to, attributes=ANY)

    def check(self, value: ir.TensorProtocol | None, to: int) -> Match:
        return Match.when(_as_dtype(value, _D(to)) is not None, "the number has no certain value in the other dtype")

    def rewrite(self, op: Builder, shape: ir.Value, value: ir.TensorProtocol | None, to: int) -> ir.Value:
        tensor = _as_dtype(value, _D(to))
        assert tensor is not None
        return op.ConstantOfShape(shape, value=tensor)


_FILLED = frozenset({_D.BOOL, *_INTEGERS, _D.FLOAT16, _D.FLOAT, _D.DOUBLE})


def _as_dtype(value: ir.TensorProtocol | None, to: ir.DataType) -> ir.TensorProtocol | None:
    """The number that a ConstantOfShape holds in another dtype; None where kernels may differ in it."""
    array = np.zeros(1, np.float32) if value is None else value.numpy().reshape(-1)
    if to not in _FILLED or array.size != 1 or array.dtype.kind not in "biufV":
        return None
    if array.dtype.kind in "fV" and to in _INTEGERS:
        number = float(array.astype(np.float64)[0])
        limits = np.iinfo(to.numpy())
        if not np.isfinite(number) or not limits.min <= number <= min(limits.max, 2**53):
            return None
    with np.errstate(all="ignore"):
        return ir.Tensor(array.astype(to.numpy()))


RULES: tuple[Rewrite, ...] = (MergeCasts(), MoveCastsAway(), CastConstantOfShape())
