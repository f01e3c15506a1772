"""Concat: of what is a Concat itself, of constants, and of the pieces of one value."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.slicing import ENDLESS, Cut, cuts_of, is_whole, write_slice
from onnxgrad.engine.passes.queries import constant_value, dim, from_front, producer, rank, single_reader
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_SMALL = 1024  # elements: constants up to this size are joined, whoever else reads them

Values = tuple[ir.Value, ...]


def _axis_of(node: ir.Node, size: int | None, default: int) -> int | None:
    """The attribute `axis`, counted from the front where the rank is known."""
    attribute = node.attributes.get("axis")
    if attribute is not None and attribute.is_ref():
        return None
    axis = default if attribute is None else attribute.as_int()
    found = from_front([axis], size) if size is not None else (axis,)
    return None if found is None else found[0]


class MergeConcats(Rewrite):
    """Concat(a, Concat(b, c)) on one axis -> Concat(a, b, c)."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis).named("y")

    def check(self, xs: Values, y: ir.Value, axis: int) -> Match:
        return Match.when(len(_flat(xs, y, axis)) != len(xs), "no operand is a Concat on this axis, read only here")

    def rewrite(self, op: Builder, xs: Values, y: ir.Value, axis: int) -> ir.Value:
        return op.Concat(*_flat(xs, y, axis), axis=axis)


def _flat(xs: Values, y: ir.Value, axis: int) -> list[ir.Value]:
    found: list[ir.Value] = []
    node = y.producer()
    for x in xs:
        inner = producer(x, "Concat")
        if inner is None or node is None or inner.graph is not node.graph or not single_reader(x):
            found.append(x)
            continue
        own, wanted = _axis_of(inner, rank(x), 1), axis + (rank(x) or 0) if axis < 0 else axis
        parts = [value for value in inner.inputs if value is not None]
        found.extend(parts if own == wanted and rank(x) is not None and len(parts) > 1 else [x])
    return found


class WhereOfConcat(Rewrite):
    """Where(c, k, Concat(a, b)) -> Concat(a, k1), for constants c = (false, true) and k, and single numbers a and b."""

    def pattern(self, op: Ops, c: Leaf, k: Leaf, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Where(c, k, op.Concat(op.many(xs), axis=axis).named("h"))

    def check(self, c: ir.Value, k: ir.Value, xs: Values, h: ir.Value) -> Match:
        choice, numbers = constant_value(c, _SMALL), constant_value(k, _SMALL)
        return Match.all(
            rank(h) == 1,
            choice is not None and choice.shape == (len(xs),),
            numbers is not None and numbers.shape in ((), (1,), (len(xs),)),
            all(dim(x, 0) == 1 for x in xs),
        )

    def rewrite(self, op: Builder, c: ir.Value, k: ir.Value, xs: Values) -> ir.Value:
        choice, numbers = constant_value(c), constant_value(k)
        assert choice is not None and numbers is not None
        spread = np.broadcast_to(numbers, choice.shape)
        parts = [op.constant(spread[i : i + 1]) if choice[i] else x for i, x in enumerate(xs)]
        return op.Concat(*parts, axis=0)


class JoinConstantsInConcat(Rewrite):
    """Concat(x, c, d) -> Concat(x, e), for constants c and d."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis)

    def check(self, xs: Values, axis: int) -> Match:
        return Match.when(any(len(run) > 1 for run in _runs(xs, _joins)), "no constants stand side by side")

    def rewrite(self, op: Builder, xs: Values, axis: int) -> ir.Value:
        parts = [run[0] if len(run) == 1 else _joined(op, run, axis) for run in _runs(xs, _joins)]
        return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _joins(x: ir.Value, y: ir.Value) -> bool:
    return _is_joinable(x) and _is_joinable(y)


def _is_joinable(x: ir.Value) -> bool:
    array = constant_value(x) if x.dtype != ir.DataType.STRING else None
    return array is not None and array.ndim > 0 and (array.size <= _SMALL or single_reader(x))


def _joined(op: Builder, run: Sequence[ir.Value], axis: int) -> ir.Value:
    arrays = [array for x in run if (array := constant_value(x)) is not None]
    return op.constant(np.concatenate(arrays, axis=axis))


def _runs(xs: Values, belong: Callable[[ir.Value, ir.Value], bool]) -> Iterator[list[ir.Value]]:
    """Neighbours that belong together."""
    run: list[ir.Value] = []
    for x in xs:
        if run and belong(run[-1], x):
            run.append(x)
            continue
        if run:
            yield run
        run = [x]
    if run:
        yield run


class RemoveSplitBeforeConcat(Rewrite):
    """Concat(Split(x)) of all pieces in order, on one axis -> x."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis)

    def check(self, xs: Values, axis: int) -> Match:
        return Match.when(len(_unsplit(xs, axis)) != len(xs), "not all pieces of a Split stand side by side")

    def rewrite(self, op: Builder, xs: Values, axis: int) -> ir.Value:
        parts = _unsplit(xs, axis)
        return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _unsplit(xs: Values, axis: int) -> list[ir.Value]:
    found: list[ir.Value] = []
    rest = list(xs)
    while rest:
        node = producer(rest[0], "Split")
        pieces = [] if node is None else list(node.outputs)
        x = None if node is None else node.inputs[0]
        if node is not None and x is not None and rest[: len(pieces)] == pieces and _same_axis(node, x, axis):
            found.append(x)
            rest = rest[len(pieces) :]
        else:
            found.append(rest.pop(0))
    return found


def _same_axis(node: ir.Node, x: ir.Value, axis: int) -> bool:
    size = rank(x)
    wanted = from_front([axis], size) if size is not None else (axis,)
    return wanted is not None and _axis_of(node, size, 0) == wanted[0]


class MergeSlicesInConcat(Rewrite):
    """Concat(x[a:b], x[b:c]) on the axis that is cut -> x[a:c], or x."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis)

    def check(self, xs: Values, axis: int) -> Match:
        return Match.when(any(len(run) > 1 for run in _cut_runs(xs, axis)), "no slices that touch stand side by side")

    def rewrite(self, op: Builder, xs: Values, axis: int) -> ir.Value:
        parts = [_uncut(op, run, axis) for run in _cut_runs(xs, axis)]
        return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _cut_runs(xs: Values, axis: int) -> list[list[ir.Value]]:
    """Slices that touch, where merging them adds no node: nobody else reads them, or they are the whole value."""
    found: list[list[ir.Value]] = []
    for run in _runs(xs, lambda x, y: _touch(x, y, axis)):
        merged = _bounds(run[0], run[-1], axis)
        if len(run) > 1 and merged is not None and (all(map(single_reader, run)) or is_whole(*merged)):
            found.append(run)
        else:
            found.extend([x] for x in run)
    return found


def _cut_along(x: ir.Value, axis: int) -> tuple[ir.Value, int, Cut] | None:
    """(source, axis, cut) of a Slice of this axis only, by bounds from the front that a dimension not known keeps."""
    node, cuts = producer(x, "Slice"), cuts_of(x)
    source = None if node is None else node.inputs[0]
    if source is None or not cuts or len(cuts) != 1:
        return None
    ((own, cut),) = cuts.items()
    wanted = from_front([axis], rank(source)) if axis < 0 else (axis,)
    size = dim(source, own)
    if wanted is None or wanted[0] != own or cut.step != 1:
        return None
    if size is not None:
        taken = cut.within(size)
        return source, own, Cut(taken.start, max(taken.stop, taken.start), 1)
    return (source, own, cut) if 0 <= cut.start <= cut.end else None


def _touch(x: ir.Value, y: ir.Value, axis: int) -> bool:
    left, right = _cut_along(x, axis), _cut_along(y, axis)
    if left is None or right is None or left[0] is not right[0]:
        return False
    return left[2].end == right[2].start and left[2].end < ENDLESS


def _bounds(first: ir.Value, last: ir.Value, axis: int) -> tuple[Cut, int | None] | None:
    left, right = _cut_along(first, axis), _cut_along(last, axis)
    if left is None or right is None:
        return None
    return Cut(left[2].start, right[2].end, 1), dim(left[0], left[1])


def _uncut(op: Builder, run: list[ir.Value], axis: int) -> ir.Value:
    found, bounds = _cut_along(run[0], axis), _bounds(run[0], run[-1], axis)
    if len(run) == 1 or found is None or bounds is None:
        return run[0]
    source, own, _ = found
    cut, size = bounds
    return source if is_whole(cut, size) else write_slice(op, source, {own: cut})


class RemoveSplit(Rewrite):
    """Split(x) into one piece -> x."""

    def pattern(self, op: Ops, x: Leaf, sizes: Leaf, kept: Leaf) -> Pattern:
        return op.Split(x, op.optional(sizes), attributes=kept).named("y")

    def check(self, y: ir.Value) -> Match:
        node = y.producer()
        return Match.when(node is not None and len(node.outputs) == 1, "there are several pieces")

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


RULES: tuple[Rewrite, ...] = (
    WhereOfConcat(),
    MergeConcats(),
    JoinConstantsInConcat(),
    RemoveSplitBeforeConcat(),
    MergeSlicesInConcat(),
    RemoveSplit(),
)
