"""DequantizeLinear and QuantizeLinear that undo each other, or stand around a product, where that is exact.

Quantizing rounds, so a QuantizeLinear followed by DequantizeLinear stays; the other way round nothing is lost.
"""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.queries import Array, constant_value, dim, element_count, rank
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_QUANTIZED = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})
_SMALLEST, _LARGEST = 2.0**-100, 2.0**100


class RemoveDequantizeQuantize(Rewrite):
    """QuantizeLinear(DequantizeLinear(x)) of one scale and zero point -> x."""

    def pattern(self, op: Ops, x: Leaf, s: Leaf, z: Leaf, t: Leaf, o: Leaf, axis: Leaf, block: Leaf) -> Pattern:
        same = {"axis": axis, "block_size": block}
        real = op.DequantizeLinear(x, s, op.optional(z), attributes=ANY, **same).keep()
        return op.QuantizeLinear(real, t, op.optional(o), attributes=ANY, **same)

    def check(
        self, x: ir.Value, s: ir.Value, t: ir.Value, z: ir.Value | None, o: ir.Value | None, axis: int | None
    ) -> Match:
        return Match.all(_is_exact(x, s), _same_parameters(s, z, t, o))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


def _is_exact(x: ir.Value, scale: ir.Value) -> bool:
    """Whether (q - z) * s / s rounds to q - z for all q: 16 bits at most, and a float32 scale far from its limits."""
    numbers = constant_value(scale)
    if numbers is None or numbers.size == 0 or scale.dtype != ir.DataType.FLOAT or x.dtype not in _QUANTIZED:
        return False
    size = np.abs(numbers.astype(np.float64))
    return bool(((size >= _SMALLEST) & (size <= _LARGEST)).all())


def _same_parameters(s: ir.Value, z: ir.Value | None, t: ir.Value, o: ir.Value | None) -> bool:
    return (s is t or _same_content(constant_value(s), constant_value(t))) and (z is o or _same_zero(z, o))


def _same_content(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return False
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _same_zero(z: ir.Value | None, o: ir.Value | None) -> bool:
    if z is not None and o is not None:
        return _same_content(constant_value(z), constant_value(o))
    given = constant_value(z if o is None else o)
    return given is not None and not given.any()


_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Expand", "Tile")
_ORDERED_SINCE = 12  # the opset from which MaxPool takes 8-bit integers


class MoveBetweenDequantizeQuantize(Rewrite):
    """QuantizeLinear(f(DequantizeLinear(x))) -> f(x), where f moves elements only, for one scale and zero point."""

    def pattern(self, op: Ops, x: Leaf, s: Leaf, z: Leaf, t: Leaf, o: Leaf, rest: Leaf) -> Pattern:
        real = op.DequantizeLinear(x, s, op.optional(z), attributes=ANY).keep()
        moved = op.one_of((*_MOVES, "MaxPool"), real, op.many(rest), attributes=ANY).named("h")
        return op.QuantizeLinear(moved, t, op.optional(o), attributes=ANY)

    def check(
        self, x: ir.Value, s: ir.Value, z: ir.Value | None, t: ir.Value, o: ir.Value | None, h: ir.Value, opset: int
    ) -> Match:
        return Match.all(_is_exact(x, s), rank(s) == 0, _same_parameters(s, z, t, o), _takes_integers(h, x, s, opset))

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, rest: tuple[ir.Value, ...]) -> ir.Value:
        return write_again(op, h, x, *rest)


def _takes_integers(h: ir.Value, x: ir.Value, scale: ir.Value, opset: int) -> bool:
    """Whether the node of `h` may work on the integers: MaxPool only on 8 bits, and where a larger one is larger."""
    node, numbers = h.producer(), constant_value(scale)
    if node is None or node.op_type != "MaxPool":
        return node is not None
    if len(node.outputs) > 1 or opset < _ORDERED_SINCE or numbers is None or float(numbers.reshape(-1)[0]) <= 0:
        return False
    return x.dtype in (ir.DataType.INT8, ir.DataType.UINT8)


_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_FLOAT_DIGITS = 2**24  # integers up to this are exact in float32
_LARGEST_SIGNED = 64  # two products of an 8-bit number with this fit in 16 bits


class MatMulToQLinearMatMul(Rewrite):
    """QuantizeLinear(MatMul(DequantizeLinear(a), DequantizeLinear(b))) -> QLinearMatMul(a, b), where it is exact.

    That is for scales that are powers of two and sums below 2^24; otherwise what is half-way between two steps could
    be rounded the other way. Signed weights are at most 64: processors without VNNI add two products in 16 bits.
    """

    since = 10

    def pattern(
        self, op: Ops, a: Leaf, b: Leaf, s: Leaf, z: Leaf, t: Leaf, o: Leaf, u: Leaf, p: Leaf, axis: Leaf, block: Leaf
    ) -> Pattern:
        left = op.DequantizeLinear(a, op.constant(s), op.optional(z), attributes=ANY, block_size=block).keep()
        options = {"axis": axis, "block_size": block}
        right = op.DequantizeLinear(b, op.constant(t), op.optional(o), attributes=ANY, **options).keep()
        return op.QuantizeLinear(op.MatMul(left, right), op.constant(u), op.optional(p), attributes=ANY).named("y")

    def check(
        self,
        a: ir.Value,
        b: ir.Value,
        s: ir.Value,
        z: ir.Value | None,
        t: ir.Value,
        o: ir.Value | None,
        u: ir.Value,
        p: ir.Value | None,
        axis: int | None,
        block: int | None,
        y: ir.Value,
    ) -> Match:
        per_column = axis in (1, -1) and rank(t) == 1 and element_count(t) == dim(b, 1)
        return Match.all(
            _has_kernel(a, b, y) and not block,
            element_count(s) == 1 and element_count(u) == 1 and (element_count(t) == 1 or per_column),
            Match.when(all(map(_is_power_of_two, (s, t, u))), "a scale is no power of two"),
            Match.when(_stays_exact(a, z, b, o), "the weights are no constants, or too large"),
            p is None or constant_value(p) is not None,
        )

    def rewrite(
        self,
        op: Builder,
        a: ir.Value,
        b: ir.Value,
        s: ir.Value,
        z: ir.Value | None,
        t: ir.Value,
        o: ir.Value | None,
        u: ir.Value,
        p: ir.Value | None,
        y: ir.Value,
    ) -> ir.Value:
        zeros = [_zero(op, *pair) for pair in ((z, a, s), (o, b, t), (p, y, u))]
        return op.QLinearMatMul(a, s, zeros[0], b, t, zeros[1], u, zeros[2])


def _has_kernel(a: ir.Value, b: ir.Value, y: ir.Value) -> bool:
    """Whether onnxruntime multiplies these: unsigned with any, signed with signed, to what the left one is."""
    sizes = rank(a), rank(b)
    is_known = sizes[0] is not None and sizes[0] >= 2 and sizes[1] == 2 and a.dtype in _BYTES and b.dtype in _BYTES
    return is_known and y.dtype == a.dtype and (a.dtype == ir.DataType.UINT8 or b.dtype == ir.DataType.INT8)


def _is_power_of_two(scale: ir.Value) -> bool:
    numbers = constant_value(scale)
    if numbers is None or scale.dtype != ir.DataType.FLOAT:
        return False
    digits, exponents = np.frexp(numbers.astype(np.float64))
    return bool(((digits == 0.5) & (np.abs(exponents) <= 30)).all())


def _stays_exact(a: ir.Value, z: ir.Value | None, b: ir.Value, o: ir.Value | None) -> bool:
    """Whether sums of products are exact in float32, and those of pairs fit in 16 bits."""
    weights, zeros = constant_value(b), [np.zeros(1) if zero is None else constant_value(zero) for zero in (z, o)]
    first, second = zeros
    if weights is None or weights.size == 0 or first is None or second is None:
        return False
    numbers = weights.astype(np.int64)
    limits = (0, 255) if a.dtype == ir.DataType.UINT8 else (-128, 127)
    widest = max(abs(limit - int(first.reshape(-1)[0])) for limit in limits)
    if weights.dtype == np.int8 and int(np.abs(numbers).max()) > _LARGEST_SIGNED:
        return False
    return int(np.abs(numbers - second.astype(np.int64)).sum(axis=0).max()) * widest < _FLOAT_DIGITS


def _zero(op: Builder, given: ir.Value | None, x: ir.Value, scale: ir.Value) -> ir.Value:
    """The zero point of `x`, with the shape of its scale, where none is given."""
    if given is not None:
        return given
    numbers = constant_value(scale)
    assert x.dtype is not None and numbers is not None
    return op.constant(np.zeros(numbers.shape, x.dtype.numpy()))


RULES: tuple[Rewrite, ...] = (RemoveDequantizeQuantize(), MoveBetweenDequantizeQuantize(), MatMulToQLinearMatMul())
