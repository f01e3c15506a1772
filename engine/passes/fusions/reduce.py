"""Reductions that take up what is done after them.

ReduceSum(x * x), ReduceSum(|x|) and the ReduceMean of planes stay: onnxruntime's ReduceSumSquare, ReduceL1 and
GlobalAveragePool are slower (measured).
"""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Emit
from onnxgrad.engine.passes.elements import ShapeValues
from onnxgrad.engine.passes.queries import Dim, dims, int_values, is_float, rank, reduction, same_dim
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

Attributes = dict[str, int | list[int]]

_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
)


def _again(op: Builder, reduced: ir.Value, kept: Attributes, *, op_type: str = "", **changed: int) -> ir.Value:
    """The node that makes `reduced` once more, with another operator or attributes."""
    node = reduced.producer()
    assert node is not None
    emit: Emit = getattr(op, op_type or node.op_type)
    return emit(*node.inputs, **{**kept, **changed})


def _axes_of(node_output: ir.Value, given: ir.Value | None, size: int | None) -> tuple[int, ...] | None:
    """The axes of a Squeeze or Unsqueeze, sorted and counted from 0; `size`: the rank that they count in."""
    node = node_output.producer()
    if node is None or size is None:
        return None
    attribute = node.attributes.get("axes")
    axes = int_values(given) if given is not None else tuple(attribute.as_ints()) if attribute is not None else None
    return None if axes is None else tuple(sorted(axis % size if size else axis for axis in axes))


class UnsqueezeIntoReduction(Rewrite):
    """Unsqueeze of the axes that a reduction has dropped -> the reduction with keepdims=1."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, unsqueezed: Leaf, kept: Leaf) -> Pattern:
        reduced = op.one_of(_REDUCTIONS, x, op.optional(axes), attributes=kept).named("reduced")
        return op.Unsqueeze(reduced, op.optional(unsqueezed), attributes=ANY).named("y")

    def check(self, x: ir.Value, y: ir.Value, reduced: ir.Value, unsqueezed: ir.Value | None) -> Match:
        found = reduction(reduced)
        wanted = _axes_of(y, unsqueezed, rank(x))
        return Match.all(found is not None, found == (wanted, False))

    def rewrite(self, op: Builder, reduced: ir.Value, kept: Attributes) -> ir.Value:
        return _again(op, reduced, kept, keepdims=1)


class SqueezeIntoReduction(Rewrite):
    """Squeeze of the axes that a reduction has kept -> the reduction with keepdims=0."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, squeezed: Leaf, kept: Leaf) -> Pattern:
        reduced = op.one_of(_REDUCTIONS, x, op.optional(axes), attributes=kept).named("reduced")
        return op.Squeeze(reduced, op.optional(squeezed), attributes=ANY).named("y")

    def check(self, x: ir.Value, y: ir.Value, reduced: ir.Value, squeezed: ir.Value | None) -> Match:
        found = reduction(reduced)
        wanted = _axes_of(y, squeezed, rank(x))
        return Match.all(found is not None, found == (wanted, True))

    def rewrite(self, op: Builder, reduced: ir.Value, kept: Attributes) -> ir.Value:
        return _again(op, reduced, kept, keepdims=0)


class ReshapeIntoReduction(Rewrite):
    """Reshape that gives back the axes that a reduction has dropped, or drops what it has kept -> the reduction."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, shape: Leaf, kept: Leaf) -> Pattern:
        reduced = op.one_of(_REDUCTIONS, x, op.optional(axes), attributes=kept).named("reduced")
        return op.Reshape(reduced, shape, attributes=ANY)

    def check(self, x: ir.Value, reduced: ir.Value, shape: ir.Value) -> Match:
        found, own, target = reduction(reduced), dims(x), ShapeValues().of(shape)
        if found is None or own is None or target is None:
            return Match.no("the axes or the shape are not known")
        return Match.when(_is_same(target, _reduced_dims(own, found[0], not found[1])), "the shape is another one")

    def rewrite(self, op: Builder, reduced: ir.Value, kept: Attributes) -> ir.Value:
        _, keeps = reduction(reduced) or ((), True)
        return _again(op, reduced, kept, keepdims=int(not keeps))


def _reduced_dims(own: tuple[Dim, ...], axes: tuple[int, ...], keeps: bool) -> list[Dim]:
    return [1 if axis in axes else size for axis, size in enumerate(own) if keeps or axis not in axes]


def _is_same(target: tuple[Dim | None, ...], wanted: list[Dim]) -> bool:
    """Whether a Reshape to `target` gives `wanted`: equal dimensions, but for one that is -1."""
    if len(target) != len(wanted):
        return False
    same = [a is not None and a != 0 and same_dim(a, b) for a, b in zip(target, wanted, strict=True)]
    return all(same) or (same.count(False) == 1 and target[same.index(False)] == -1)


class SqrtIntoReduceSumSquare(Rewrite):
    """Sqrt(ReduceSumSquare(x)) -> ReduceL2(x)."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, kept: Leaf) -> Pattern:
        return op.Sqrt(op.ReduceSumSquare(x, op.optional(axes), attributes=kept).named("squares"))

    def check(self, x: ir.Value, squares: ir.Value) -> Match:
        return Match.all(is_float(x), reduction(squares) is not None)

    def rewrite(self, op: Builder, squares: ir.Value, kept: Attributes) -> ir.Value:
        return _again(op, squares, kept, op_type="ReduceL2")


RULES: tuple[Rewrite, ...] = (
    UnsqueezeIntoReduction(),
    SqueezeIntoReduction(),
    ReshapeIntoReduction(),
    SqrtIntoReduceSumSquare(),
)
