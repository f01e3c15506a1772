"""Products and sums with constants in turn become one.

The order of operations changes, so only where neither overflow nor cancellation can tell: a product is not taken
apart where its first step may overflow and the second bring it back, and (x + c) - c, which rounds x, stays. Nor where
the result is an angle: the sine of a large number turns the last bit of that number into another value.
"""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import Doubles, is_normal
from onnxgrad.engine.passes.queries import Array, constant_value, is_float
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_LIMIT = 1 << 16  # elements of constants that are worked on
_FAR = 1024.0  # how much larger one of two summands may be
_LARGEST_GAIN = 2.0**64  # what comes after a product may not enlarge what was lost in it by more
_LARGEST_HALF_GAIN = 2.0**10  # in float16


_PERIODIC = frozenset({"Sin", "Cos", "Tan", "Mod", "Floor", "Ceil", "Round"})
_CARRIED_BY = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "CumSum", "Resize", "Upsample", "Concat", "Split", "Identity"),
        *(
            "Transpose",
            "Reshape",
            "Squeeze",
            "Unsqueeze",
            "Flatten",
            "Slice",
            "Gather",
            "Expand",
            "Pad",
            "Cast",
            "Tile",
        ),
    }
)
_STEPS = 12


class MergeScales(Rewrite):
    """(x * c) * d -> x * (c * d), for constants c and d; division and integers too."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf, d: Leaf) -> Pattern:
        inner = op.one_of(("Mul", "Div"), x, op.constant(c)).named("h")
        return op.one_of(("Mul", "Div"), inner, op.constant(d)).named("y")

    def check(self, h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> Match:
        return Match.all(
            Match.when(_scale(h, y, c, d) is not None, "overflow, rounding or size of the constant would differ"),
            Match.when(_is_exact(c) or _is_exact(d) or not _becomes_angle(y), "it is an angle, and would be rounded"),
        )

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
        number = _scale(h, y, c, d)
        assert number is not None
        return op.Div(x, op.constant(number)) if _kinds(h, y) == ("Div", "Div") else op.Mul(x, op.constant(number))


def _is_exact(factor: ir.Value) -> bool:
    """Whether multiplying by this constant rounds nothing: powers of two, and integers of integer types."""
    array = constant_value(factor, _LIMIT)
    if array is None or not is_float(factor):
        return array is not None
    mantissas, _ = np.frexp(np.abs(array.astype(np.float64)))
    return bool((mantissas == 0.5).all())


def _becomes_angle(value: ir.Value) -> bool:
    """Whether `value` arrives, moved and scaled at most, where only its remainder counts."""
    front, seen = [value], {value}
    for _ in range(_STEPS):
        nodes = {user for read in front for user, _ in read.uses()}
        if any(node.op_type in _PERIODIC for node in nodes):
            return True
        front = [
            output for node in nodes if node.op_type in _CARRIED_BY for output in node.outputs if output not in seen
        ]
        seen.update(front)
    return False


def _kinds(h: ir.Value, y: ir.Value) -> tuple[str, str]:
    inner, outer = h.producer(), y.producer()
    assert inner is not None and outer is not None
    return inner.op_type, outer.op_type


def _operands(c: ir.Value, d: ir.Value) -> tuple[Array, Array] | None:
    """Two constants whose combination is not larger than they are."""
    first, second = constant_value(c, _LIMIT), constant_value(d, _LIMIT)
    if first is None or second is None or first.size == 0 or second.size == 0:
        return None
    try:
        size = int(np.prod(np.broadcast_shapes(first.shape, second.shape)))
    except ValueError:
        return None  # the model is not sound
    return (first, second) if size <= max(first.size, second.size) else None


def _scale(h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> Array | None:
    """The constant that takes the place of both: a divisor where both are, else a factor."""
    operands, kinds = _operands(c, d), _kinds(h, y)
    if operands is None:
        return None
    if not is_float(c):
        whole = kinds == ("Mul", "Mul") and operands[0].dtype.kind in "iu"
        return _wrapped(np.multiply, *operands) if whole else None
    first, second = operands[0].astype(np.float64), operands[1].astype(np.float64)
    if not (np.isfinite(first).all() and np.isfinite(second).all() and first.all() and second.all()):
        return None
    dtype = operands[0].dtype
    gain, next_gain = (
        numbers if kind == "Mul" else 1 / numbers for numbers, kind in zip((first, second), kinds, strict=True)
    )
    if not _is_safe(np.abs(gain), np.abs(next_gain), dtype):
        return None
    number = first * second if kinds == ("Div", "Div") else gain * next_gain
    return np.asarray(number).astype(dtype) if is_normal(number, dtype) else None


def _is_safe(gain: Doubles, next_gain: Doubles, dtype: "np.dtype[np.generic]") -> bool:
    """Whether the first product neither overflows where both together do not, nor loses what the second shows."""
    largest = _LARGEST_HALF_GAIN if dtype == np.float16 else _LARGEST_GAIN
    overflows_in_between = (gain > 1) & (next_gain < 1)
    return not overflows_in_between.any() and bool((next_gain <= largest).all())


class MergeShifts(Rewrite):
    """(x + c) + d -> x + (c + d), for constants c and d that do not cancel; subtraction and integers too."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf, d: Leaf) -> Pattern:
        inner = op.one_of(("Add", "Sub"), x, op.constant(c)).named("h")
        return op.one_of(("Add", "Sub"), inner, op.constant(d)).named("y")

    def check(self, h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> Match:
        return Match.when(_shift(h, y, c, d) is not None, "rounding or size of the constant would differ")

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
        number = _shift(h, y, c, d)
        assert number is not None
        return op.Add(x, op.constant(number))


def _shift(h: ir.Value, y: ir.Value, c: ir.Value, d: ir.Value) -> Array | None:
    """The constant that is added in the place of both."""
    operands, kinds = _operands(c, d), _kinds(h, y)
    if operands is None:
        return None
    dtype = operands[0].dtype
    if dtype.kind in "iu":
        first, second = operands
        total = np.negative(first) if kinds[0] == "Sub" else first
        return _wrapped(np.add if kinds[1] == "Add" else np.subtract, np.asarray(total), second)
    if not is_float(c):
        return None
    first, second = (
        x.astype(np.float64) * (1 if kind == "Add" else -1) for x, kind in zip(operands, kinds, strict=True)
    )
    alike = (np.sign(first) == np.sign(second)) & (np.abs(first) <= _FAR * np.abs(second))
    if not (np.isfinite(first).all() and np.isfinite(second).all() and alike.all()):
        return None
    near = bool((np.abs(second) <= _FAR * np.abs(first)).all()) and first.all() and second.all()
    return np.asarray(first + second).astype(dtype) if near and is_normal(first + second, dtype) else None


def _wrapped(function: np.ufunc, first: Array, second: Array) -> Array:
    """An operation on integers that wraps around, as the runtime does."""
    with np.errstate(over="ignore"):
        result: Array = np.asarray(function(first, second))
    return result


class MergeNegation(Rewrite):
    """-(x * c) and (-x) * c -> x * -c, for a constant c of floats; division too."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf) -> Pattern:
        kinds = ("Mul", "Div")
        return op.either(
            op.Neg(op.one_of(kinds, x, op.constant(c)).named("h")),
            op.one_of(kinds, op.Neg(x), op.constant(c)).named("h"),
        )

    def check(self, c: ir.Value) -> Match:
        array = constant_value(c, _LIMIT)
        return Match.all(is_float(c), array is not None)

    def rewrite(self, op: Builder, x: ir.Value, c: ir.Value, h: ir.Value) -> ir.Value:
        array, node = constant_value(c), h.producer()
        assert array is not None and node is not None
        number = op.constant(np.asarray(-array.astype(np.float64)).astype(array.dtype))
        return op.Mul(x, number) if node.op_type == "Mul" else op.Div(x, number)


RULES: tuple[Rewrite, ...] = (MergeScales(), MergeShifts(), MergeNegation())
