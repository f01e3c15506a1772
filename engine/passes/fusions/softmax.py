"""Softmax and LogSoftmax that exporters write out, or prepare for in vain."""

import onnx_ir as ir

from onnxgrad.engine.passes.queries import rank, reduction
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_ONE_AXIS = 13  # the opset from which Softmax works along one axis; before, over all that follow it
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})


def _axis(x: ir.Value, *reduced: ir.Value) -> int | None:
    """The only axis that all of these reduce and keep; None where they differ."""
    found = {reduction(value) for value in reduced}
    only = found.pop() if len(found) == 1 else None
    if only is None or x.dtype not in _FLOATS:
        return None
    axes, kept = only
    return axes[0] if kept and len(axes) == 1 else None


def _shifted(op: Ops, x: Leaf, axes: Leaf) -> Output:
    return op.Sub(x, op.ReduceMax(x, op.optional(axes), attributes=ANY).named("maximum"))


def _total(op: Ops, x: Pattern, axes: Leaf) -> Output:
    return op.ReduceSum(x, op.optional(axes), attributes=ANY).named("total")


class ExpToSoftmax(Rewrite):
    """Exp(x - max) / its sum -> Softmax(x)."""

    since = _ONE_AXIS

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, axes2: Leaf) -> Pattern:
        exp = op.Exp(_shifted(op, x, axes))
        total = _total(op, exp, axes2)
        return op.either(op.Div(exp, total), op.Mul(exp, op.Reciprocal(total)))

    def check(self, x: ir.Value, maximum: ir.Value, total: ir.Value) -> Match:
        return Match.all(_axis(x, maximum, total) is not None)

    def rewrite(self, op: Builder, x: ir.Value, maximum: ir.Value) -> ir.Value:
        return op.Softmax(x, axis=_axis(x, maximum))


class ExpToLogSoftmax(Rewrite):
    """s - Log(sum of Exp(s)), with s = x - max -> LogSoftmax(x)."""

    since = _ONE_AXIS

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, axes2: Leaf) -> Pattern:
        shifted = _shifted(op, x, axes)
        return op.Sub(shifted, op.Log(_total(op, op.Exp(shifted), axes2)))

    def check(self, x: ir.Value, maximum: ir.Value, total: ir.Value) -> Match:
        return Match.all(_axis(x, maximum, total) is not None)

    def rewrite(self, op: Builder, x: ir.Value, maximum: ir.Value) -> ir.Value:
        return op.LogSoftmax(x, axis=_axis(x, maximum))


class ShiftIntoSoftmax(Rewrite):
    """Softmax(x - max) -> Softmax(x), which subtracts the maximum itself; LogSoftmax alike."""

    since = _ONE_AXIS

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, axis: Leaf) -> Pattern:
        return op.one_of(("Softmax", "LogSoftmax"), _shifted(op, x, axes), axis=axis).named("y")

    def check(self, x: ir.Value, maximum: ir.Value, axis: int) -> Match:
        size, reduced = rank(x), _axis(x, maximum)
        return Match.all(size is not None, reduced is not None, reduced == axis % (size or 1))

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value, axis: int) -> ir.Value:
        node = y.producer()
        assert node is not None
        (result,) = op.node(node.op_type, x, axis=axis)
        return result


RULES: tuple[Rewrite, ...] = (ExpToSoftmax(), ExpToLogSoftmax(), ShiftIntoSoftmax())
