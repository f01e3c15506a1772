"""Activation functions that exporters write out, as the operators that they are.

Softplus and Elu are left as they are written: onnxruntime's kernels for them are slower than the parts (measured).
"""

import math

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.queries import keeps_rank, scalar_value
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

# onnxruntime has no kernels for HardSigmoid, HardSwish and Softsign of other types.
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
_WIDE_FLOATS = _FLOATS | {ir.DataType.DOUBLE}
_SIXTH = 1 / 6


def _attribute(x: ir.Value, constant: ir.Value | None) -> float | None:
    """The number in a constant, where an attribute (float32) holds it exactly enough for the dtype of `x`."""
    number = scalar_value(constant)
    if number is None or not math.isfinite(number):
        return None
    exact = float(np.float32(number)) == float(number)
    return float(number) if exact or x.dtype != ir.DataType.DOUBLE else None


def _clip(op: Ops, x: Pattern, low: float, high: float) -> Pattern:
    return op.either(op.Clip(x, low, high), op.Clip(x, min=low, max=high))


def _divided(op: Ops, x: Pattern, number: float) -> tuple[Pattern, Pattern]:
    return op.Div(x, number).named("y"), op.Mul(x, 1 / number).named("y")


class ClipToHardSigmoid(Rewrite):
    """Clip(x * a + b, 0, 1) -> HardSigmoid(x, a, b)."""

    since = 6

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf) -> Pattern:
        line = op.Add(op.Mul(x, op.constant(a)), op.constant(b))
        return op.either(op.Clip(line, 0.0, 1.0).named("y"), op.Clip(line, min=0.0, max=1.0).named("y"))

    def check(self, x: ir.Value, y: ir.Value, a: ir.Value, b: ir.Value) -> Match:
        return Match.all(
            x.dtype in _FLOATS, _attribute(x, a) not in (None, 0.0), _attribute(x, b) is not None, keeps_rank(y, x)
        )

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return op.HardSigmoid(x, alpha=_attribute(x, a), beta=_attribute(x, b))


class Relu6ToHardSigmoid(Rewrite):
    """Clip(x + 3, 0, 6) / 6 -> HardSigmoid(x, 1/6, 1/2)."""

    since = 6

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.either(*_divided(op, _clip(op, op.Add(x, 3.0), 0.0, 6.0), 6.0))

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(x.dtype in _FLOATS, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.HardSigmoid(x, alpha=_SIXTH, beta=0.5)


class Relu6ToHardSwish(Rewrite):
    """x * Clip(x + 3, 0, 6) / 6 -> HardSwish(x); x * HardSigmoid(x, 1/6, 1/2) before opset 14."""

    since = 6

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.either(*_divided(op, op.Mul(x, _clip(op, op.Add(x, 3.0), 0.0, 6.0)), 6.0))

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(x.dtype in _FLOATS, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        if op.opset < HardSigmoidToHardSwish.since:
            return op.Mul(x, op.HardSigmoid(x, alpha=_SIXTH, beta=0.5))
        return op.HardSwish(x)


class HardSigmoidToHardSwish(Rewrite):
    """x * HardSigmoid(x, 1/6, 1/2) -> HardSwish(x)."""

    since = 14

    def pattern(self, op: Ops, x: Leaf, alpha: Leaf) -> Pattern:
        return op.Mul(x, op.HardSigmoid(x, alpha=alpha, beta=0.5))

    def check(self, x: ir.Value, alpha: float) -> Match:
        return Match.all(x.dtype in _FLOATS, math.isclose(alpha, _SIXTH, rel_tol=1e-6))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.HardSwish(x)


def _half(op: Ops, x: Pattern) -> Pattern:
    return op.either(op.Mul(x, 0.5), op.Div(x, 2.0))


def _half_product(op: Ops, x: Leaf, factor: Pattern) -> tuple[Pattern, ...]:
    """0.5 * x * factor, in every order."""
    return (
        op.Mul(_half(op, x), factor).named("y"),
        op.Mul(x, _half(op, factor)).named("y"),
        op.Mul(op.Mul(x, factor), 0.5).named("y"),
        op.Div(op.Mul(x, factor), 2.0).named("y"),
    )


class ErfToGelu(Rewrite):
    """0.5 * x * (1 + Erf(x / sqrt(2))) -> Gelu(x), in every order of the factors."""

    since = 20

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        erf = op.Erf(op.either(op.Div(x, math.sqrt(2)), op.Mul(x, math.sqrt(0.5))))
        distribution = op.Add(op.Mul(erf, 0.5), 0.5)
        return op.either(*_half_product(op, x, op.Add(erf, 1.0)), op.Mul(x, distribution).named("y"))

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Gelu(x)


class TanhToGelu(Rewrite):
    """0.5 * x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) -> Gelu(x, approximate=tanh), in every order."""

    since = 20

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        scale, cubic = math.sqrt(2 / math.pi), 0.044715
        square = op.either(op.Mul(x, x), op.Pow(x, 2.0))
        cube = op.either(op.Pow(x, 3.0), op.Mul(x, square))
        scaled_square = op.either(op.Mul(square, cubic), op.Mul(x, op.Mul(x, cubic)))
        inner = op.Add(x, op.either(op.Mul(cube, cubic), op.Mul(x, scaled_square), op.Mul(op.Mul(x, cubic), square)))
        factored = op.Add(scaled_square, 1.0)
        argument = op.either(
            op.Mul(inner, scale),
            op.Mul(op.Mul(x, scale), factored),
            op.Mul(x, op.Mul(factored, scale)),
            op.Mul(op.Mul(x, factored), scale),
        )
        tanh = op.Tanh(argument)
        distribution = op.Add(op.Mul(tanh, 0.5), 0.5)
        return op.either(*_half_product(op, x, op.Add(tanh, 1.0)), op.Mul(x, distribution).named("y"))

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Gelu(x, approximate="tanh")


class SigmoidToSwish(Rewrite):
    """x * Sigmoid(a * x) -> Swish(x, a)."""

    since = 24

    def pattern(self, op: Ops, x: Leaf, a: Leaf) -> Pattern:
        return op.either(
            op.Mul(x, op.Sigmoid(x)).named("y"),
            op.Mul(x, op.Sigmoid(op.Mul(x, op.constant(a)))).named("y"),
        )

    def check(self, x: ir.Value, y: ir.Value, a: ir.Value | None) -> Match:
        return Match.all(a is None or _attribute(x, a) is not None, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value | None) -> ir.Value:
        return op.Swish(x, alpha=None if a is None else _attribute(x, a))


class TanhToMish(Rewrite):
    """x * Tanh(Softplus(x)) -> Mish(x)."""

    since = 18

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Mul(x, op.Tanh(op.Softplus(x)))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Mish(x)


class ExpToSigmoid(Rewrite):
    """1 / (1 + Exp(-x)) -> Sigmoid(x)."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        denominator = op.Add(op.Exp(op.Neg(x)), 1.0)
        return op.either(op.Div(1.0, denominator).named("y"), op.Reciprocal(denominator).named("y"))

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(x.dtype in _WIDE_FLOATS, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Sigmoid(x)


class AbsToSoftsign(Rewrite):
    """x / (1 + |x|) -> Softsign(x)."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Div(x, op.Add(op.Abs(x), 1.0)).named("y")

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(x.dtype in _FLOATS, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Softsign(x)


class MaxToLeakyRelu(Rewrite):
    """Max(x, a * x) -> LeakyRelu(x, a), for 0 < a <= 1."""

    since = 6

    def pattern(self, op: Ops, x: Leaf, a: Leaf) -> Pattern:
        return op.Max(x, op.Mul(x, op.constant(a))).named("y")

    def check(self, x: ir.Value, y: ir.Value, a: ir.Value) -> Match:
        slope = _attribute(x, a)
        return Match.all(x.dtype in _WIDE_FLOATS, slope is not None, 0 < (slope or 0.0) <= 1, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value) -> ir.Value:
        return op.LeakyRelu(x, alpha=_attribute(x, a))


class WhereToLeakyRelu(Rewrite):
    """Where(x > 0, x, a * x) -> LeakyRelu(x, a), for 0 < a, and with the other comparisons."""

    since = 9

    def pattern(self, op: Ops, x: Leaf, a: Leaf) -> Pattern:
        scaled = op.Mul(x, op.constant(a))
        return op.either(
            op.Where(op.one_of(("Greater", "GreaterOrEqual"), x, 0.0), x, scaled).named("y"),
            op.Where(op.one_of(("Less", "LessOrEqual"), x, 0.0), scaled, x).named("y"),
        )

    def check(self, x: ir.Value, y: ir.Value, a: ir.Value) -> Match:
        slope = _attribute(x, a)
        return Match.all(x.dtype in _WIDE_FLOATS, slope is not None, (slope or 0.0) > 0, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value) -> ir.Value:
        return op.LeakyRelu(x, alpha=_attribute(x, a))


class PReluToLeakyRelu(Rewrite):
    """PRelu(x, a) -> LeakyRelu(x, a), for one constant slope."""

    since = 7

    def pattern(self, op: Ops, x: Leaf, a: Leaf) -> Pattern:
        return op.PRelu(x, op.constant(a)).named("y")

    def check(self, x: ir.Value, y: ir.Value, a: ir.Value) -> Match:
        return Match.all(x.dtype in _WIDE_FLOATS, _attribute(x, a) is not None, keeps_rank(y, x))

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value) -> ir.Value:
        return op.LeakyRelu(x, alpha=_attribute(x, a))


RULES: tuple[Rewrite, ...] = (
    ClipToHardSigmoid(),
    Relu6ToHardSigmoid(),
    Relu6ToHardSwish(),
    HardSigmoidToHardSwish(),
    ErfToGelu(),
    TanhToGelu(),
    SigmoidToSwish(),
    TanhToMish(),
    ExpToSigmoid(),
    AbsToSoftsign(),
    MaxToLeakyRelu(),
    WhereToLeakyRelu(),
    PReluToLeakyRelu(),
)
