"""Nodes that give back what they are given."""

import onnx_ir as ir

from onnxgrad.engine.passes.elements import ShapeValues
from onnxgrad.engine.passes.purity import is_training
from onnxgrad.engine.passes.queries import dim, dims, int_values, rank, same_dim, same_shape
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite


class RemoveIdentity(Rewrite):
    """Identity(x) -> x; it stays where it makes a graph output out of an input, a constant or another output."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Identity(x)

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemoveDropout(Rewrite):
    """Dropout(x) -> x, outside training mode and where nobody reads the mask."""

    def pattern(self, op: Ops, x: Leaf, ratio: Leaf, training: Leaf) -> Pattern:
        return op.Dropout(x, op.optional(ratio), op.optional(training), attributes=ANY).named("y")

    def check(self, y: ir.Value) -> Match:
        node = y.producer()
        return Match.when(node is not None and not is_training(node), "it is in training mode, or may be")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemoveCast(Rewrite):
    """Cast(x) -> x, to the dtype that x has."""

    def pattern(self, op: Ops, x: Leaf, to: Leaf) -> Pattern:
        return op.Cast(x, to=to, attributes=ANY)

    def check(self, x: ir.Value, to: int) -> Match:
        return Match.all(x.dtype == ir.DataType(to))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemoveCastLike(Rewrite):
    """CastLike(x, y) -> x of the same dtype, and Cast(x) otherwise."""

    def pattern(self, op: Ops, x: Leaf, y: Leaf, kept: Leaf) -> Pattern:
        return op.CastLike(x, y, attributes=kept)

    def check(self, x: ir.Value, y: ir.Value) -> Match:
        return Match.all(x.dtype is not None, y.dtype is not None)

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value, kept: dict[str, int]) -> ir.Value:
        assert y.dtype is not None
        return x if x.dtype == y.dtype else op.Cast(x, to=int(y.dtype), **kept)


class RemoveTranspose(Rewrite):
    """Transpose(x) -> x, where every axis stays in its place."""

    def pattern(self, op: Ops, x: Leaf, perm: Leaf) -> Pattern:
        return op.Transpose(x, perm=perm)

    def check(self, x: ir.Value, perm: list[int] | None) -> Match:
        if perm is None:
            return Match.when(rank(x) in (0, 1), "the axes are reversed")
        return Match.when(perm == sorted(perm), "axes move")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemoveReshape(Rewrite):
    """Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile of x -> x, where the shape stays as it is."""

    def pattern(self, op: Ops, x: Leaf, shape: Leaf) -> Pattern:
        kinds = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")
        return op.one_of(kinds, x, op.optional(shape), attributes=ANY).named("y")

    def check(self, x: ir.Value, y: ir.Value, shape: ir.Value | None) -> Match:
        same = not y.is_graph_output() and same_shape(x, y)  # a declared shape proves nothing
        return Match.when(same or _keeps_shape(x, y, shape), "the shape changes, or may")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


def _keeps_shape(x: ir.Value, y: ir.Value, shape: ir.Value | None) -> bool:
    own, target, node = dims(x), ShapeValues().of(shape), y.producer()
    if own is None or target is None or node is None:
        return False
    if node.op_type == "Tile":
        return all(element == 1 for element in target)
    if node.op_type == "Expand":
        return len(target) <= len(own) and all(
            element == 1 or (element is not None and same_dim(element, size))
            for element, size in zip(reversed(target), reversed(own), strict=False)
        )
    if node.op_type != "Reshape" or len(own) != len(target):
        return False
    allows_zero = "allowzero" in node.attributes and node.attributes["allowzero"].value != 0
    same = [
        element is not None and (same_dim(element, size) or (element == 0 and not allows_zero))
        for element, size in zip(target, own, strict=True)
    ]
    return all(same) or (same.count(False) == 1 and target[same.index(False)] == -1)


class RemoveSlice(Rewrite):
    """Slice(x) -> x, where each axis is taken whole, forwards."""

    def pattern(self, op: Ops, x: Leaf, starts: Leaf, ends: Leaf, axes: Leaf, steps: Leaf) -> Pattern:
        return op.Slice(x, starts, ends, op.optional(axes), op.optional(steps))

    def check(
        self, x: ir.Value, starts: ir.Value, ends: ir.Value, axes: ir.Value | None, steps: ir.Value | None
    ) -> Match:
        begins, stops, size = int_values(starts), ShapeValues().of(ends), rank(x)
        if (
            begins is None
            or stops is None
            or size is None
            or (steps is not None and set(int_values(steps) or ()) != {1})
        ):
            return Match.no("starts, ends or steps are not known")
        over = range(len(begins)) if axes is None else int_values(axes)
        if over is None or len(over) != len(begins) or len(stops) != len(begins) or (steps is not None and not begins):
            return Match.no("the axes are not known")
        whole = (_is_whole(x, axis, begin, stop) for axis, begin, stop in zip(over, begins, stops, strict=True))
        return Match.when(all(whole), "an axis is cut, or may be")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


_ENDLESS = 2**31 - 1


def _is_whole(x: ir.Value, axis: int, begin: int, stop: object) -> bool:
    size, own = dim(x, axis), dims(x)
    starts_at_0 = begin == 0 or (size is not None and begin <= -size)
    if not starts_at_0 or stop is None or own is None or not -len(own) <= axis < len(own):
        return False
    if isinstance(stop, int):
        return stop >= _ENDLESS or (size is not None and stop >= size)
    return isinstance(stop, ir.SymbolicDim) and same_dim(stop, own[axis])


class RemoveConcat(Rewrite):
    """Concat of one value -> that value; values without elements are left out where the others say the shape."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis)

    def check(self, xs: tuple[ir.Value, ...], axis: int | None) -> Match:
        if len(xs) == 1:
            return Match(True)
        kept = _with_elements(xs, axis)
        return Match.when(axis is not None and 0 < len(kept) < len(xs), "every operand has, or may have, elements")

    def rewrite(self, op: Builder, xs: tuple[ir.Value, ...], axis: int) -> ir.Value:
        kept = xs if len(xs) == 1 else _with_elements(xs, axis)
        return kept[0] if len(kept) == 1 else op.Concat(*kept, axis=axis)


def _with_elements(xs: tuple[ir.Value, ...], axis: int | None) -> tuple[ir.Value, ...]:
    return tuple(x for x in xs if axis is None or dim(x, axis) != 0)


class RemoveSum(Rewrite):
    """Sum, Max, Min, Mean of one value -> that value."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.one_of(("Sum", "Max", "Min", "Mean"), x)

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemovePad(Rewrite):
    """Pad(x) by nothing -> x."""

    def pattern(self, op: Ops, x: Leaf, pads: Leaf, value: Leaf, axes: Leaf) -> Pattern:
        return op.Pad(x, pads, op.optional(value), op.optional(axes), attributes=ANY)

    def check(self, pads: ir.Value) -> Match:
        amounts = int_values(pads)
        return Match.when(amounts is not None and not any(amounts), "something is padded, or may be")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


class RemoveDoubleNegation(Rewrite):
    """Neg(Neg(x)) and Not(Not(x)) -> x."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.either(op.Neg(op.Neg(x).keep()), op.Not(op.Not(x).keep()))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


RULES: tuple[Rewrite, ...] = (
    RemoveIdentity(),
    RemoveDropout(),
    RemoveCast(),
    RemoveCastLike(),
    RemoveTranspose(),
    RemoveReshape(),
    RemoveSlice(),
    RemoveConcat(),
    RemoveSum(),
    RemovePad(),
    RemoveDoubleNegation(),
)
