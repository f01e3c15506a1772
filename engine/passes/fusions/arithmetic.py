"""Arithmetic with constants, signs and conditions: only what IEEE 754 allows.

x * 0 is NaN for x = NaN, x + 0.0 is +0.0 for x = -0.0, and (x + c) - c rounds x: none of these goes away.
"""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import is_normal
from onnxgrad.engine.passes.fusions.signs import never_negative
from onnxgrad.engine.passes.queries import all_equal, broadcasts_into, constant_value, is_float, rank
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_LIMIT = 1 << 16  # elements of constants that are worked on
_INTEGERS = frozenset(
    {
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)
# operators that give the same for 0.0 and -0.0
_BLIND_TO_ZERO_SIGN = frozenset(
    {
        *("Abs", "Exp", "Log", "Sigmoid", "Softmax", "LogSoftmax", "Cos", "Cosh", "Equal", "Less", "LessOrEqual"),
        *("Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Shape", "Size"),
    }
)


def keeps_shape(c: ir.Value, x: ir.Value) -> bool:
    """Whether x has the shape that it has after it met c."""
    return rank(c) == 0 or broadcasts_into(c, x)


class RemoveNeutral(Rewrite):
    """x * 1, x / 1, x ** 1, x - 0.0, x + -0.0, and x + 0 of integers -> x; true and false of And, Or, Xor too.

    x + 0.0 goes where x is never -0.0, or nobody who reads it can tell.
    """

    def pattern(self, op: Ops, x: Leaf, c: Leaf) -> Pattern:
        return op.one_of(("Mul", "Div", "Pow", "Add", "Sub", "And", "Or", "Xor"), x, op.constant(c)).named("y")

    def check(self, x: ir.Value, c: ir.Value, y: ir.Value) -> Match:
        return Match.all(_is_neutral(c, x, y), keeps_shape(c, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


def _is_neutral(c: ir.Value, x: ir.Value, y: ir.Value) -> bool:
    node = y.producer()
    kind = "" if node is None else node.op_type
    if kind in ("Mul", "Div", "Pow", "And"):
        return all_equal(c, 1)
    if kind != "Add":
        return all_equal(c, 0.0)
    if not is_float(c):
        return all_equal(c, 0)
    return all_equal(c, -0.0) or (all_equal(c, 0.0) and (never_negative(x, plain=True) or _is_zero_sign_lost(y)))


def _is_zero_sign_lost(y: ir.Value) -> bool:
    kinds = {(user.domain, user.op_type) for user, _ in y.uses()}
    return not y.is_graph_output() and all(not domain and kind in _BLIND_TO_ZERO_SIGN for domain, kind in kinds)


class PowToSqrt(Rewrite):
    """x ** 0.5 -> Sqrt(x), for x that is never negative nor -0.0."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf) -> Pattern:
        return op.Pow(x, op.constant(c))

    def check(self, x: ir.Value, c: ir.Value) -> Match:
        return Match.all(all_equal(c, 0.5), is_float(x), keeps_shape(c, x), never_negative(x, plain=True))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Sqrt(x)


class PowToMul(Rewrite):
    """x ** 2 -> x * x, of floats."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf) -> Pattern:
        return op.Pow(x, op.constant(c))

    def check(self, x: ir.Value, c: ir.Value) -> Match:
        return Match.all(all_equal(c, 2), is_float(x), keeps_shape(c, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Mul(x, x)


class AddNegative(Rewrite):
    """x + -z -> x - z, and x - -z -> x + z."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf) -> Pattern:
        return op.one_of(("Add", "Sub"), x, op.Neg(z)).named("y")

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value, y: ir.Value) -> ir.Value:
        node = y.producer()
        return op.Sub(x, z) if node is not None and node.op_type == "Add" else op.Add(x, z)


class SumToAdd(Rewrite):
    """Sum(x, z) -> x + z."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf) -> Pattern:
        return op.Sum(x, z)

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value) -> ir.Value:
        return op.Add(x, z)


class MulReciprocalToDiv(Rewrite):
    """x * Reciprocal(z) -> x / z, and x * (1 / z), of float32 and float64."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf, one: Leaf) -> Pattern:
        inverse = op.either(op.Reciprocal(z), op.Div(op.constant(one), z))
        return op.Mul(x, inverse)

    def check(self, x: ir.Value, z: ir.Value, one: ir.Value | None) -> Match:
        return Match.all(
            x.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE),
            one is None or (all_equal(one, 1) and keeps_shape(one, z)),
        )

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value) -> ir.Value:
        return op.Div(x, z)


class LogSoftmax(Rewrite):
    """Log(Softmax(x)) -> LogSoftmax(x), which stays finite where the probability is too small for its dtype."""

    def pattern(self, op: Ops, x: Leaf, kept: Leaf) -> Pattern:
        return op.Log(op.Softmax(x, attributes=kept))

    def rewrite(self, op: Builder, x: ir.Value, kept: dict[str, int]) -> ir.Value:
        return op.LogSoftmax(x, **kept)


class RemoveRepeated(Rewrite):
    """Ceil, Floor or Round of one of them -> the inner one; Abs(Abs(x)) and Sign(Sign(x)) too."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        rounding = ("Ceil", "Floor", "Round")
        return op.either(
            op.one_of(rounding, op.one_of(rounding, x).named("h").keep()),
            op.Abs(op.Abs(x).named("h").keep()),
            op.Sign(op.Sign(x).named("h").keep()),
        )

    def rewrite(self, op: Builder, h: ir.Value) -> ir.Value:
        return h


class RemoveAbs(Rewrite):
    """Abs(x) -> x, for x that is never negative nor -0.0."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Abs(x)

    def check(self, x: ir.Value) -> Match:
        return Match.all(never_negative(x, plain=True))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class AbsOfNegative(Rewrite):
    """Abs(-x) -> Abs(x)."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Abs(op.Neg(x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Abs(x)


class WhereNot(Rewrite):
    """Where(Not(c), x, z) -> Where(c, z, x)."""

    def pattern(self, op: Ops, c: Leaf, x: Leaf, z: Leaf) -> Pattern:
        return op.Where(op.Not(c).keep(), x, z)

    def rewrite(self, op: Builder, c: ir.Value, x: ir.Value, z: ir.Value) -> ir.Value:
        return op.Where(c, z, x)


class RemoveWhere(Rewrite):
    """Where(true, x, z) -> x, Where(false, x, z) -> z, and Where(c, x, x) -> x, where the shape stays."""

    def pattern(self, op: Ops, c: Leaf, x: Leaf, z: Leaf) -> Pattern:
        return op.Where(c, x, z)

    def check(self, c: ir.Value, x: ir.Value, z: ir.Value) -> Match:
        chosen = _chosen(c, x, z)
        return Match.when(
            chosen is not None and all(keeps_shape(other, chosen) for other in (c, x, z) if other is not chosen),
            "the condition varies, or the shape",
        )

    def rewrite(self, op: Builder, c: ir.Value, x: ir.Value, z: ir.Value) -> ir.Value:
        chosen = _chosen(c, x, z)
        assert chosen is not None
        return chosen


def _chosen(c: ir.Value, x: ir.Value, z: ir.Value) -> ir.Value | None:
    if x is z or all_equal(c, True):
        return x
    return z if all_equal(c, False) else None


_OPPOSITES = {"Less": "GreaterOrEqual", "Greater": "LessOrEqual", "LessOrEqual": "Greater", "GreaterOrEqual": "Less"}


class NotComparison(Rewrite):
    """Not(x < z) -> x >= z, and the like, of integers (NaN is neither)."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf) -> Pattern:
        return op.Not(op.one_of(tuple(_OPPOSITES), x, z).named("h"))

    def check(self, x: ir.Value, opset: int) -> Match:
        return Match.all(x.dtype in _INTEGERS, opset >= 12)

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value, h: ir.Value) -> ir.Value:
        node = h.producer()
        assert node is not None
        y: ir.Value = getattr(op, _OPPOSITES[node.op_type])(x, z)
        return y


class DivToMul(Rewrite):
    """x / c -> x * (1 / c), for constant powers of two."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf) -> Pattern:
        return op.Div(x, op.constant(c))

    def check(self, c: ir.Value) -> Match:
        return Match.when(_inverse(c) is not None, "1 / c is not exact")

    def rewrite(self, op: Builder, x: ir.Value, c: ir.Value) -> ir.Value:
        inverse = _inverse(c)
        assert inverse is not None
        return op.Mul(x, op.constant(inverse))


def _inverse(c: ir.Value) -> np.typing.NDArray[np.generic] | None:
    """1 / c, where each element of c is a power of two and the result is no subnormal number."""
    tensor = constant_value(c, _LIMIT)
    if tensor is None or not is_float(c):
        return None
    numbers = tensor.astype(np.float64)
    if not np.isfinite(numbers).all() or (np.abs(np.frexp(numbers)[0]) != 0.5).any():
        return None
    inverse = np.asarray(1 / numbers)
    return inverse.astype(tensor.dtype) if is_normal(inverse, tensor.dtype) else None


RULES: tuple[Rewrite, ...] = (
    RemoveNeutral(),
    AddNegative(),
    SumToAdd(),
    LogSoftmax(),
    RemoveRepeated(),
    RemoveAbs(),
    AbsOfNegative(),
    WhereNot(),
    RemoveWhere(),
    NotComparison(),
)
LATE_RULES: tuple[Rewrite, ...] = (PowToSqrt(), PowToMul(), MulReciprocalToDiv(), DivToMul())
"""What other fusions look for goes away here: to be applied after them."""
