"""Pad becomes part of the convolution or pooling that reads it, where their padding means the same."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import Attributes
from onnxgrad.engine.passes.fusions.signs import never_negative
from onnxgrad.engine.passes.queries import int_values, rank, scalar_value
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_PADS_ARE_INPUTS = 11


@dataclass(frozen=True)
class Padding:
    """What a Pad adds in the spatial dimensions, and none elsewhere: all the begins, then all the ends."""

    pads: tuple[int, ...]
    value: float


def padding_of(p: ir.Value, opset: int) -> Padding | None:
    """The constant padding, by nothing negative, that a Pad adds to spatial dimensions only."""
    node = p.producer()
    if node is None or node.inputs[0] is None:
        return None
    size, named = rank(node.inputs[0]), {name: attribute.value for name, attribute in node.attributes.items()}
    if named.get("mode", "constant") != "constant" or size is None or size < 3:
        return None
    if opset < _PADS_ARE_INPUTS:
        amounts, value = tuple(named.get("pads", ())), named.get("value", 0.0)
        axes: Sequence[int] | None = range(size)
    else:
        given, number, over = (*node.inputs[1:], None, None)[:3]
        amounts, value = int_values(given) or (), 0.0 if number is None else scalar_value(number)
        axes = range(size) if over is None else int_values(over)
    if axes is None or value is None or len(amounts) != 2 * len(axes) or min(amounts, default=-1) < 0:
        return None
    if any(not -size <= axis < size for axis in axes):
        return None
    begins, ends = [0] * size, [0] * size
    for index, axis in enumerate(axes):
        begins[axis] += amounts[index]
        ends[axis] += amounts[index + len(axes)]
    if any((*begins[:2], *ends[:2])):
        return None
    return Padding((*begins[2:], *ends[2:]), float(value))


def _own_pads(kept: Attributes, size: int) -> tuple[int, ...] | None:
    """The pads that a convolution or pooling has already; None where they depend on the size of its input."""
    if kept.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    pads = kept.get("pads")
    if pads is None or kept.get("auto_pad") == "VALID":
        return (0,) * size
    return tuple(pads) if isinstance(pads, list) and len(pads) == size else None


def _together(p: ir.Value, kept: Attributes, opset: int) -> list[int] | None:
    padding = padding_of(p, opset)
    own = None if padding is None else _own_pads(kept, len(padding.pads))
    return None if padding is None or own is None else [a + b for a, b in zip(padding.pads, own, strict=True)]


def _pad(op: Ops, x: Leaf, pads: Leaf, value: Leaf, axes: Leaf) -> Output:
    inputs = (op.optional(op.constant(leaf)) for leaf in (pads, value, axes))
    return op.Pad(x, *inputs, attributes=ANY).named("p")


class FoldPadIntoConv(Rewrite):
    """Conv(Pad(x), w, b) -> Conv(x, w, b, pads=...), for padding with zeros."""

    def pattern(self, op: Ops, x: Leaf, pads: Leaf, value: Leaf, axes: Leaf, w: Leaf, b: Leaf, kept: Leaf) -> Pattern:
        return op.Conv(_pad(op, x, pads, value, axes), w, op.optional(b), attributes=kept)

    def check(self, p: ir.Value, kept: Attributes, opset: int) -> Match:
        padding = padding_of(p, opset)
        if padding is None:
            return Match.no("it is no constant padding of spatial dimensions")
        return Match.all(padding.value == 0, _together(p, kept, opset) is not None)

    def rewrite(
        self, op: Builder, x: ir.Value, p: ir.Value, w: ir.Value, b: ir.Value | None, kept: Attributes
    ) -> ir.Value:
        return op.Conv(x, w, b, **{**kept, "auto_pad": None, "pads": _together(p, kept, op.opset)})


class FoldPadIntoAveragePool(Rewrite):
    """AveragePool(Pad(x)) -> AveragePool(x, pads=..., count_include_pad=1), for padding with zeros."""

    def pattern(self, op: Ops, x: Leaf, pads: Leaf, value: Leaf, axes: Leaf, kept: Leaf) -> Pattern:
        return op.AveragePool(_pad(op, x, pads, value, axes), attributes=kept)

    def check(self, p: ir.Value, kept: Attributes, opset: int) -> Match:
        padding, together = padding_of(p, opset), _together(p, kept, opset)
        if padding is None or together is None:
            return Match.no("it is no constant padding of spatial dimensions")
        adds_uncounted = any(_own_pads(kept, len(together)) or ()) and not kept.get("count_include_pad", 0)
        return Match.all(padding.value == 0, not adds_uncounted, _fits_window(together, kept))

    def rewrite(self, op: Builder, x: ir.Value, p: ir.Value, kept: Attributes) -> ir.Value:
        pads = _together(p, kept, op.opset)
        return op.AveragePool(x, **{**kept, "auto_pad": None, "pads": pads, "count_include_pad": 1})


class FoldPadIntoMaxPool(Rewrite):
    """MaxPool(Pad(x)) -> MaxPool(x, pads=...), for padding with -inf, or with at most 0 where x is never negative."""

    def pattern(self, op: Ops, x: Leaf, pads: Leaf, value: Leaf, axes: Leaf, kept: Leaf) -> Pattern:
        return op.MaxPool(_pad(op, x, pads, value, axes), attributes=kept).named("y")

    def check(self, p: ir.Value, x: ir.Value, y: ir.Value, kept: Attributes, opset: int) -> Match:
        padding, together, node = padding_of(p, opset), _together(p, kept, opset), y.producer()
        if padding is None or together is None or node is None:
            return Match.no("it is no constant padding of spatial dimensions")
        loses = padding.value == -math.inf or (padding.value <= 0 and never_negative(x))
        indices = node.outputs[1:]
        return Match.all(loses, _fits_window(together, kept), not any(v.uses() or v.is_graph_output() for v in indices))

    def rewrite(self, op: Builder, x: ir.Value, p: ir.Value, kept: Attributes) -> ir.Value:
        pads = _together(p, kept, op.opset)
        return op.MaxPool(x, **{**kept, "auto_pad": None, "storage_order": None, "pads": pads})


def _fits_window(pads: list[int], kept: Attributes) -> bool:
    """Whether each window covers an element of the input: none is in the padding alone."""
    window, dilations = kept.get("kernel_shape"), kept.get("dilations", [])
    if not isinstance(window, list) or 2 * len(window) != len(pads) or kept.get("ceil_mode", 0):
        return False
    is_dense = isinstance(dilations, list) and all(step == 1 for step in dilations)
    return is_dense and all(amount < size for amount, size in zip(pads, window * 2, strict=True))


RULES: tuple[Rewrite, ...] = (FoldPadIntoConv(), FoldPadIntoAveragePool(), FoldPadIntoMaxPool())
