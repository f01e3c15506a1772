"""DequantizeLinear and QuantizeLinear that undo each other, exactly.

Quantizing rounds, so a QuantizeLinear followed by DequantizeLinear stays; the other way round nothing is lost.
"""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.queries import Array, constant_value, rank
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


RULES: tuple[Rewrite, ...] = (RemoveDequantizeQuantize(), MoveBetweenDequantizeQuantize())
