"""Relu, Clip, Max and Min with constant numbers: all of them clamp to a range, and so do two of them in turn.

NaN stays NaN in each of them.
"""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.signs import never_negative
from onnxgrad.engine.passes.queries import is_constant, rank, scalar_value
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_BOUNDS_ARE_INPUTS = 11

# what onnxruntime's Clip takes besides float32, since opset 12; float16 since 13
_CLIP_TYPES = frozenset(
    {
        *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT8, ir.DataType.UINT8),
        *(ir.DataType.INT32, ir.DataType.UINT32, ir.DataType.INT64, ir.DataType.UINT64),
    }
)
_RELU_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})


@dataclass(frozen=True)
class Range:
    """[low, high]."""

    low: float
    high: float

    def clamp(self, number: float) -> float:
        """The nearest number in the range."""
        return min(max(number, self.low), self.high)


def range_of(y: ir.Value, opset: int) -> Range | None:
    """The range to which a node clamps; None where it is not known, or empty, or ends at -0.0, which is not 0.0."""
    node = y.producer()
    if node is None:
        return None
    if node.op_type == "Relu":
        return Range(0, math.inf)
    if node.op_type == "Clip":
        low, high = _clip_bounds(node, opset)
    else:
        bound = _only_number(node)
        low, high = (bound, math.inf) if node.op_type == "Max" else (-math.inf, bound)
    if low is None or high is None or not low <= high or _is_negative_zero(low) or _is_negative_zero(high):
        return None
    return Range(low, high)


def _is_negative_zero(number: float) -> bool:
    return number == 0 and math.copysign(1.0, number) < 0


def _clip_bounds(node: ir.Node, opset: int) -> tuple[float | None, float | None]:
    """A bound that is left out is the last finite number of the dtype: Clip(infinity) is not infinity."""
    x = node.inputs[0]
    ends = None if x is None or x.dtype is None else _ends(x.dtype)
    if ends is None:
        return None, None
    if opset < _BOUNDS_ARE_INPUTS:
        named = {name: attribute.as_float() for name, attribute in node.attributes.items()}
        return named.get("min", _ends(ir.DataType.FLOAT).low), named.get("max", _ends(ir.DataType.FLOAT).high)
    low, high = (*node.inputs[1:], None, None)[:2]
    return ends.low if low is None else scalar_value(low), ends.high if high is None else scalar_value(high)


def _ends(dtype: ir.DataType) -> Range:
    """The lowest and the highest finite number of a dtype."""
    kind = dtype.numpy()
    if kind.kind in "iu":
        return Range(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return Range(float(limits.min), float(limits.max))


def _is_everything(result: Range, dtype: ir.DataType) -> bool:
    ends = Range(-math.inf, math.inf) if dtype.is_floating_point() else _ends(dtype)
    return result.low <= ends.low and result.high >= ends.high


def _only_number(node: ir.Node) -> float | None:
    """The constant number that Max or Min compares with, where it adds no dimensions."""
    constants = [value for value in node.inputs if is_constant(value)]
    others = [value for value in node.inputs if not is_constant(value)]
    if len(constants) != 1 or len(others) != 1 or constants[0] is None or others[0] is None:
        return None
    size, own = rank(constants[0]), rank(others[0])
    return scalar_value(constants[0]) if size == 0 or (size is not None and own is not None and size <= own) else None


def _clamp(op: Ops, x: Leaf | Output, low: Leaf, high: Leaf, bound: Leaf) -> tuple[Output, Output, Output]:
    return (
        op.Relu(x),
        op.Clip(x, op.optional(op.constant(low)), op.optional(op.constant(high)), attributes=ANY),
        op.one_of(("Max", "Min"), x, op.constant(bound)),
    )


def _form(kinds: frozenset[str], result: Range, dtype: ir.DataType | None, opset: int) -> str:
    """The operator for a range: one of those that were there, or one that takes the dtype; "" for none."""
    if dtype is None:
        return ""
    if _is_everything(result, dtype):
        return "Identity"
    if result == Range(0, math.inf) and ("Relu" in kinds or dtype in _RELU_TYPES):
        return "Relu"
    for kind, other_end in (("Max", result.high == math.inf), ("Min", result.low == -math.inf)):
        if other_end and kind in kinds:
            return kind
    takes = dtype == ir.DataType.FLOAT or (opset >= 12 and dtype in _CLIP_TYPES)
    return "Clip" if "Clip" in kinds or takes or (opset >= 13 and dtype == ir.DataType.FLOAT16) else ""


def _emit(op: Builder, form: str, x: ir.Value, result: Range) -> ir.Value:
    if form == "Identity":
        return x
    if form == "Relu":
        return op.Relu(x)
    dtype = x.dtype
    assert dtype is not None

    def number(value: float, left_out: float | None = None) -> ir.Value | None:
        if value == left_out and op.opset >= _BOUNDS_ARE_INPUTS:
            return None
        return op.constant(np.asarray(value).astype(dtype.numpy()))

    if form == "Clip":
        ends = _ends(dtype)
        return op.Clip(x, number(result.low, ends.low), number(result.high, ends.high))
    return op.Max(x, number(result.low)) if form == "Max" else op.Min(x, number(result.high))


class MergeClamps(Rewrite):
    """Two of Relu, Clip, Max and Min with constant numbers in turn -> one of them."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf, c: Leaf, d: Leaf, e: Leaf, f: Leaf) -> Pattern:
        inner = [option.named("h") for option in _clamp(op, x, a, b, c)]
        return op.either(*(outer.named("y") for option in inner for outer in _clamp(op, option, d, e, f)))

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value, opset: int) -> Match:
        result = _merged(h, y, opset)
        if result is None:
            return Match.no("the bounds are not known, or no range")
        return Match.when(_form(_kinds(h, y), result, x.dtype, opset) != "", "no operator takes the dtype")

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value) -> ir.Value:
        result = _merged(h, y, op.opset)
        assert result is not None
        return _emit(op, _form(_kinds(h, y), result, x.dtype, op.opset), x, result)


def _kinds(*values: ir.Value) -> frozenset[str]:
    return frozenset(node.op_type for value in values if (node := value.producer()) is not None)


def _merged(h: ir.Value, y: ir.Value, opset: int) -> Range | None:
    """clamp(clamp(x, a, b), c, d) = clamp(x, clamp(a, c, d), clamp(b, c, d))"""
    inner, outer = range_of(h, opset), range_of(y, opset)
    if inner is None or outer is None:
        return None
    return Range(outer.clamp(inner.low), outer.clamp(inner.high))


class ClampToRelu(Rewrite):
    """Max(x, 0) and Clip(x, 0, inf) -> Relu(x); Clip from -inf to inf, and of integers without bounds -> x."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf, c: Leaf) -> Pattern:
        return op.either(*(option.named("y") for option in _clamp(op, x, a, b, c)[1:]))

    def check(self, x: ir.Value, y: ir.Value, opset: int) -> Match:
        result = range_of(y, opset)
        if result is None or x.dtype is None:
            return Match.no("the bounds are not known, or no range")
        is_relu = result == Range(0, math.inf) and x.dtype in _RELU_TYPES
        return Match.when(is_relu or _is_everything(result, x.dtype), "the range is another")

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        result = range_of(y, op.opset)
        assert result is not None and x.dtype is not None
        return x if _is_everything(result, x.dtype) else op.Relu(x)


class RemoveRelu(Rewrite):
    """Relu(x) -> x, for x that is never negative."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Relu(x)

    def check(self, x: ir.Value) -> Match:
        return Match.all(never_negative(x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


RULES: tuple[Rewrite, ...] = (RemoveRelu(), MergeClamps(), ClampToRelu())
