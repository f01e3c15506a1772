"""Transposes that follow each other, that a reduction can do without, and that move no element."""

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.queries import dims, from_front, ints_of, rank, static_shape
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_ALLOWS_ZERO = 14  # the opset from which Reshape can ask for a dimension of 0


def order_of(perm: Sequence[int] | None, x: ir.Value) -> list[int] | None:
    """The permutation of a Transpose of `x`: as given, or all axes reversed."""
    size = rank(x)
    if perm is None:
        return None if size is None else list(range(size))[::-1]
    return list(perm) if size in (None, len(perm)) and sorted(perm) == list(range(len(perm))) else None


class MergeTransposes(Rewrite):
    """Transpose(Transpose(x)) -> one Transpose(x), or x where every axis is back in its place."""

    def pattern(self, op: Ops, x: Leaf, inner: Leaf, outer: Leaf) -> Pattern:
        return op.Transpose(op.Transpose(x, perm=inner).named("h").keep(), perm=outer)

    def check(self, x: ir.Value, h: ir.Value, inner: list[int] | None, outer: list[int] | None) -> Match:
        first, second = order_of(inner, x), order_of(outer, h)
        return Match.when(
            first is not None and second is not None and len(first) == len(second), "the rank is not known"
        )

    def rewrite(
        self, op: Builder, x: ir.Value, h: ir.Value, inner: list[int] | None, outer: list[int] | None
    ) -> ir.Value:
        first, second = order_of(inner, x), order_of(outer, h)
        assert first is not None and second is not None
        merged = [first[axis] for axis in second]
        return x if merged == sorted(merged) else op.Transpose(x, perm=merged)


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)


class FoldTransposeIntoReduce(Rewrite):
    """ReduceX(Transpose(x), axes) -> ReduceX(x, other axes), where the axes that stay keep their order."""

    def pattern(self, op: Ops, x: Leaf, perm: Leaf, axes: Leaf, kept: Leaf, keepdims: Leaf) -> Pattern:
        turned = op.Transpose(x, perm=perm)
        return op.one_of(_REDUCTIONS, turned, op.optional(axes), keepdims=keepdims, attributes=kept).named("y")

    def check(self, x: ir.Value, y: ir.Value, perm: list[int] | None, keepdims: int, kept: dict[str, int]) -> Match:
        order = order_of(perm, x)
        reduced = None if order is None else _reduced(y, len(order))
        if order is None or reduced is None:
            return Match.no("the axes are not known")
        if kept.get("noop_with_empty_axes", 0) and not ints_of(y, 1, "axes"):
            return Match.no("nothing is reduced")
        left = [order[axis] for axis in range(len(order)) if axis not in reduced]
        in_place = all(order[axis] == axis for axis in range(len(order)) if axis not in reduced)
        return Match.when(in_place if keepdims else left == sorted(left), "the axes that stay change their order")

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value, perm: list[int] | None) -> ir.Value:
        order = order_of(perm, x)
        assert order is not None
        return write_again(op, y, x, sorted(order[axis] for axis in _reduced(y, len(order)) or ()), axes=None)


def _reduced(y: ir.Value, size: int) -> tuple[int, ...] | None:
    """The axes that the node of `y` reduces: all of them where it names none."""
    axes = ints_of(y, 1, "axes")
    found = None if axes is None else from_front(axes, size)
    return tuple(range(size)) if found == () else found


class TransposeToReshape(Rewrite):
    """Transpose(x) -> Reshape(x), where only axes of dimension 1 change their place."""

    def pattern(self, op: Ops, x: Leaf, perm: Leaf) -> Pattern:
        return op.Transpose(x, perm=perm)

    def check(self, x: ir.Value, perm: list[int] | None, opset: int) -> Match:
        order, own = order_of(perm, x), dims(x)
        if order is None or own is None:
            return Match.no("the shape is not known")
        long = [axis for axis in order if own[axis] != 1]
        target = _shape_after(x, order)
        writable = target is not None and (0 not in target or opset >= _ALLOWS_ZERO)
        return Match.all(long == sorted(long), order != sorted(order), writable)

    def rewrite(self, op: Builder, x: ir.Value, perm: list[int] | None) -> ir.Value:
        target = _shape_after(x, order_of(perm, x) or [])
        assert target is not None
        return op.Reshape(x, target, allowzero=1 if 0 in target else None)


def _shape_after(x: ir.Value, order: Sequence[int]) -> list[int] | None:
    """The shape as Reshape wants it; one dimension that is no number becomes -1."""
    own = dims(x) or ()
    target = [size if isinstance(size, int) else -1 for size in (own[axis] for axis in order)]
    if static_shape(x) is None and (target.count(-1) > 1 or 0 in target):
        return None
    return target


class FoldTransposeIntoMatMul(Rewrite):
    """Transpose(MatMul(Transpose(a), Transpose(b))) -> MatMul(b, a), where all swap the last two axes."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, p: Leaf, q: Leaf, r: Leaf) -> Pattern:
        product = op.MatMul(op.Transpose(a, perm=p).keep(), op.Transpose(b, perm=q).keep())
        return op.Transpose(product.named("h"), perm=r)

    def check(
        self,
        a: ir.Value,
        b: ir.Value,
        h: ir.Value,
        p: list[int] | None,
        q: list[int] | None,
        r: list[int] | None,
    ) -> Match:
        return Match.all(_swaps_last_two(p, a), _swaps_last_two(q, b), _swaps_last_two(r, h))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value) -> ir.Value:
        return op.MatMul(b, a)


def _swaps_last_two(perm: Sequence[int] | None, x: ir.Value) -> bool:
    order = order_of(perm, x)
    if order is None or len(order) < 2:
        return False
    size = len(order)
    return order == [*range(size - 2), size - 1, size - 2]


class MoveTransposeOutOfIndexOps(Rewrite):
    """Transpose(ArgMax(Transpose(x))) -> ArgMax(x), and ArgMin: the axis moves, where the transposes cancel."""

    def pattern(self, op: Ops, x: Leaf, p: Leaf, r: Leaf, axis: Leaf) -> Pattern:
        turned = op.Transpose(x, perm=p).keep()
        found = op.one_of(("ArgMax", "ArgMin"), turned, axis=axis, keepdims=1, attributes=ANY).named("h")
        return op.Transpose(found, perm=r)

    def check(self, x: ir.Value, h: ir.Value, p: list[int] | None, r: list[int] | None) -> Match:
        first, second = order_of(p, x), order_of(r, h)
        if first is None or second is None or len(first) != len(second):
            return Match.no("the rank is not known")
        return Match.when([first[axis] for axis in second] == list(range(len(first))), "the axes stay moved")

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, p: list[int] | None, axis: int) -> ir.Value:
        order = order_of(p, x)
        assert order is not None
        return write_again(op, h, x, axis=order[axis])


RULES: tuple[Rewrite, ...] = (
    MergeTransposes(),
    FoldTransposeIntoReduce(),
    FoldTransposeIntoMatMul(),
    MoveTransposeOutOfIndexOps(),
)
LATE_RULES: tuple[Rewrite, ...] = (TransposeToReshape(),)
"""To run after `move_transposes`, which looks for transposes."""
