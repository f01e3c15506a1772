"""Slice, Gather, Pad, Expand and Tile: those that follow each other, and those that change nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.queries import (
    broadcasts_into,
    constant_value,
    dim,
    from_front,
    int_values,
    ints_of,
    rank,
    scalar_value,
)
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

ENDLESS = 2**31 - 1  # ends from here on mean the end, whatever the dimension
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Cut:
    """What a Slice takes of one axis: x[start:end:step]."""

    start: int
    end: int
    step: int

    def then(self, other: "Cut", size: int | None) -> "Cut | None":
        """This cut of a dimension of `size` (None: not known), and another one of what is left."""
        if size is not None:
            return _from_range(self.within(size)[other.start : other.end : other.step])
        if self.step < 1 or other.step < 1 or self.start < 0 or other.start < 0:
            return None
        start = self.start + other.start * self.step
        if other.end >= ENDLESS:
            end = self.end
        elif other.end >= 0 and self.end >= 0:
            end = min(self.end, self.start + other.end * self.step)
        elif other.end < 0 and self.end >= ENDLESS and self.step == 1:
            end = other.end
        else:
            return None
        step = self.step * other.step
        return Cut(start, end, step) if max(start, step) < ENDLESS else None

    def within(self, size: int) -> range:
        """The indices taken of a dimension of `size`."""
        return range(size)[self.start : self.end : self.step]


def _from_range(taken: range) -> Cut:
    if len(taken) == 0:
        return Cut(0, 0, 1)
    if len(taken) == 1:
        return Cut(taken[0], taken[0] + 1, 1)
    end = taken[-1] + (1 if taken.step > 0 else -1)
    return Cut(taken[0], end if end >= 0 else -_INT64_MAX, taken.step)


def cuts_of(y: ir.Value) -> dict[int, Cut] | None:
    """axis -> what the Slice that makes `y` takes of it; None where that is not known."""
    node = y.producer()
    x = None if node is None or node.op_type != "Slice" or node.domain else node.inputs[0]
    if node is None or x is None:
        return None
    starts, ends = ints_of(y, 1, "starts"), ints_of(y, 2, "ends")
    axes, steps = ints_of(y, 3, "axes"), ints_of(y, 4, "steps")
    if starts is None or ends is None or axes is None or steps is None or len(starts) != len(ends):
        return None
    over = from_front(axes or range(len(starts)), rank(x))
    if over is None or len(over) != len(starts) or len(steps) not in (0, len(starts)) or 0 in steps:
        return None
    numbers = zip(starts, ends, steps or [1] * len(starts), strict=True)
    return {axis: Cut(*found) for axis, found in zip(over, numbers, strict=True)}


def write_slice(op: Builder, x: ir.Value, cuts: dict[int, Cut]) -> ir.Value:
    """Slice(x) by these cuts."""
    axes = sorted(cuts)
    starts, ends, steps = ([getattr(cuts[axis], name) for axis in axes] for name in ("start", "end", "step"))
    return op.Slice(x, starts, ends, axes, steps if set(steps) != {1} else None)


_STEPS_SINCE = 10


class MergeSlices(Rewrite):
    """Slice(Slice(x)) -> one Slice(x), of the same or of other axes."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf) -> Pattern:
        inner = op.Slice(x, op.many(a), attributes=ANY).named("h").keep()
        return op.Slice(inner, op.many(b), attributes=ANY).named("y")

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value, opset: int) -> Match:
        merged = _merged(x, h, y)
        return Match.all(
            merged is not None,
            merged is None or opset >= _STEPS_SINCE or all(cut.step == 1 for cut in merged.values()),
        )

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value) -> ir.Value:
        merged = _merged(x, h, y)
        assert merged is not None
        return write_slice(op, x, merged)


def _merged(x: ir.Value, h: ir.Value, y: ir.Value) -> dict[int, Cut] | None:
    inner, outer = cuts_of(h), cuts_of(y)
    if not inner or not outer:
        return None
    merged = dict(inner)
    for axis, cut in outer.items():
        both = inner[axis].then(cut, dim(x, axis)) if axis in inner else cut
        if both is None:
            return None
        merged[axis] = both
    return merged


class RemoveSliceByAttributes(Rewrite):
    """Slice(x) -> x, where each axis is taken whole, in opsets where the bounds are attributes."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Slice(x, attributes=ANY).named("y")

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        cuts = cuts_of(y)
        if not cuts:
            return Match.no("the bounds are not known")
        return Match.when(all(is_whole(cut, dim(x, axis)) for axis, cut in cuts.items()), "an axis is cut, or may be")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


def is_whole(cut: Cut, size: int | None) -> bool:
    """Whether a cut certainly takes all of a dimension, in order."""
    if size is None:
        return cut.start == 0 and cut.end >= ENDLESS and cut.step == 1
    return cut.within(size) == range(size)


class SliceSqueezeToGather(Rewrite):
    """Squeeze(Slice(x)) of one element -> Gather(x, index)."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, axes: Leaf) -> Pattern:
        piece = op.Slice(x, op.many(a), attributes=ANY).named("h")
        return op.Squeeze(piece, op.optional(axes), attributes=ANY).named("y")

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value) -> Match:
        cuts, removed = cuts_of(h), ints_of(y, 1, "axes")
        axes = from_front(removed, rank(x)) if removed else None
        if not cuts or axes is None or len(axes) != 1 or list(cuts) != list(axes):
            return Match.no("another axis is cut than removed, or several")
        return Match.when(_index(cuts[axes[0]], dim(x, axes[0])) is not None, "more than one element is taken")

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value) -> ir.Value:
        ((axis, cut),) = (cuts_of(h) or {}).items()
        index = _index(cut, dim(x, axis))
        assert index is not None
        return op.Gather(x, index, axis=axis)


def _index(cut: Cut, size: int | None) -> int | None:
    """The only element that a cut takes. What is out of range stays an error."""
    if size is not None:
        taken = cut.within(size)
        return taken[0] if len(taken) == 1 else None
    return cut.start if cut.start >= 0 and cut.end == cut.start + 1 and cut.step >= 1 else None


class RemoveGather(Rewrite):
    """Gather(x, [0, 1, ..., n - 1]) -> x."""

    def pattern(self, op: Ops, x: Leaf, indices: Leaf, axis: Leaf) -> Pattern:
        return op.Gather(x, op.constant(indices), axis=axis)

    def check(self, x: ir.Value, indices: ir.Value, axis: int) -> Match:
        size, given = dim(x, axis), int_values(indices)
        return Match.all(rank(indices) == 1, size is not None, given is not None and given == tuple(range(size or 0)))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


_MOST_INDICES = 4096


class MergeGathers(Rewrite):
    """Gather(Gather(x, [a...]), b) on one axis -> Gather(x, a[b]), for constant indices."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf, axis: Leaf) -> Pattern:
        inner = op.Gather(x, op.constant(a), axis=axis).keep()
        return op.Gather(inner, op.constant(b), axis=axis)

    def check(self, x: ir.Value, a: ir.Value, b: ir.Value, axis: int) -> Match:
        first, second = int_values(a, _MOST_INDICES), int_values(b, _MOST_INDICES)
        if first is None or not second or rank(a) != 1:
            return Match.no("the indices are no short list")
        return Match.when(-len(first) <= min(second) and max(second) < len(first), "an index is out of range")

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value, b: ir.Value, axis: int) -> ir.Value:
        first, second = constant_value(a), constant_value(b)
        assert first is not None and second is not None
        return op.Gather(x, op.constant(np.asarray(first[second.astype(np.int64)])), axis=axis)


class MergePads(Rewrite):
    """Pad(Pad(x)) -> one Pad(x), of the same constant; no negative amounts."""

    def pattern(self, op: Ops, x: Leaf, p: Leaf, v: Leaf, q: Leaf, w: Leaf, value: Leaf) -> Pattern:
        constant = {"mode": "constant", "value": value}
        inner = op.Pad(x, op.optional(p), op.optional(v), attributes=ANY, **constant).named("h")
        return op.Pad(inner, op.optional(q), op.optional(w), attributes=ANY, **constant).named("y")

    def check(self, h: ir.Value, y: ir.Value, v: ir.Value | None, w: ir.Value | None) -> Match:
        first, second = ints_of(h, 1, "pads"), ints_of(y, 1, "pads")
        if not first or not second or len(first) != len(second) or min(*first, *second) < 0:
            return Match.no("the amounts are not known, or negative")
        return Match.when(v is w or _filling(v) == _filling(w), "they pad with other values")

    def rewrite(
        self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, v: ir.Value | None, w: ir.Value | None, value: object
    ) -> ir.Value:
        pads = np.add(ints_of(h, 1, "pads") or (), ints_of(y, 1, "pads") or ()).tolist()
        if value is None:
            return op.Pad(x, pads, v if w is None else w, mode="constant")
        assert isinstance(value, float)
        return op.Pad(x, pads, mode="constant", value=value)


def _filling(value: ir.Value | None) -> object:
    """What a Pad fills with, as it reads; nothing that equals anything where it is not known."""
    number = 0 if value is None else scalar_value(value)
    return object() if number is None else (number, str(number).startswith("-"))


class MergeExpands(Rewrite):
    """Expand(Expand(x)) -> one Expand(x), for constant shapes."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf) -> Pattern:
        return op.Expand(op.Expand(x, op.constant(a)).keep(), op.constant(b))

    def check(self, a: ir.Value, b: ir.Value) -> Match:
        return Match.when(_broadcast_both(int_values(a), int_values(b)) is not None, "the shapes are not known")

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        shape = _broadcast_both(int_values(a), int_values(b))
        assert shape is not None
        return op.Expand(x, shape)


def _broadcast_both(a: Sequence[int] | None, b: Sequence[int] | None) -> list[int] | None:
    if a is None or b is None:
        return None
    size = max(len(a), len(b))
    pairs = zip([1] * (size - len(a)) + list(a), [1] * (size - len(b)) + list(b), strict=True)
    merged = [left if right == 1 else right if left in (1, right) else None for left, right in pairs]
    sizes = [length for length in merged if length is not None]
    return sizes if len(sizes) == size else None


class MergeTiles(Rewrite):
    """Tile(Tile(x, a), b) -> Tile(x, a * b)."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf) -> Pattern:
        return op.Tile(op.Tile(x, op.constant(a)).keep(), op.constant(b))

    def check(self, a: ir.Value, b: ir.Value) -> Match:
        first, second = int_values(a), int_values(b)
        return Match.all(first is not None, second is not None, len(first or ()) == len(second or ()))

    def rewrite(self, op: Builder, x: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return op.Tile(x, np.multiply(int_values(a) or (), int_values(b) or ()).astype(np.int64))


_BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less"),
    *("LessOrEqual", "Mod", "Min", "Max", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
_BROADCASTS_SINCE = 8  # the opset from which Min, Max and the rest all do


class RemoveExpandBeforeElementwise(Rewrite):
    """f(Expand(x), y) -> f(x, y), where y has the whole shape already."""

    def pattern(self, op: Ops, x: Leaf, shape: Leaf, z: Leaf) -> Pattern:
        wide = op.Expand(x, shape).named("h").keep()
        return op.either(
            op.one_of(_BROADCASTING, wide, z, attributes=ANY).named("left"),
            op.one_of(_BROADCASTING, z, wide, attributes=ANY).named("right"),
        )

    def check(self, h: ir.Value, z: ir.Value, opset: int) -> Match:
        declared = h.is_graph_output() or z.is_graph_output()
        return Match.all(opset >= _BROADCASTS_SINCE, not declared, broadcasts_into(h, z))

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value, left: ir.Value | None, right: ir.Value | None) -> ir.Value:
        return write_again(op, right, z, x) if left is None else write_again(op, left, x, z)


RULES: tuple[Rewrite, ...] = (
    MergeSlices(),
    RemoveSliceByAttributes(),
    SliceSqueezeToGather(),
    RemoveGather(),
    MergeGathers(),
    MergePads(),
    MergeExpands(),
    MergeTiles(),
    RemoveExpandBeforeElementwise(),
)
