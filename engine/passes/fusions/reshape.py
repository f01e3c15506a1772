"""Nodes that only change the shape: those that follow each other, or stand around a node that does not mind."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.again import write_again
from onnxgrad.engine.passes.queries import (
    Dim,
    constant_value,
    dims,
    element_count,
    from_front,
    int_values,
    ints_of,
    rank,
    same_dim,
    same_shape,
)
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_ALLOWS_ZERO = 14  # the opset from which Reshape can ask for a dimension of 0
_TARGET_IS_INPUT = 5


@dataclass(frozen=True)
class Target:
    """What stands in the second input of a Reshape."""

    sizes: tuple[int, ...]
    allowzero: bool = False

    def write(self, op: Builder, x: ir.Value) -> ir.Value:
        """Reshape(x) to this."""
        return op.Reshape(x, list(self.sizes), allowzero=1 if self.allowzero else None)


def target_of(x: ir.Value, y: ir.Value, opset: int) -> Target | None:
    """What reshapes `x` as the node of `y` shapes its output, whatever is between them; None where it is not known."""
    if opset < _TARGET_IS_INPUT:
        return None
    given = _literal(y)
    if given is not None:
        return given
    if y.is_graph_output() or (shape := dims(y)) is None:
        return None  # a declared shape proves nothing
    if all(isinstance(size, int) for size in shape):
        sizes = tuple(size for size in shape if isinstance(size, int))
        if 0 not in sizes:
            return Target(sizes)
        return Target(sizes, allowzero=True) if opset >= _ALLOWS_ZERO else None
    return _with_free(shape, dims(x) or (), allows_both=_mixes_copy_and_free(y))


def _literal(y: ir.Value) -> Target | None:
    """The target of a Reshape that does not depend on what it reshapes."""
    node = y.producer()
    sizes = None if node is None or node.op_type != "Reshape" else int_values(node.inputs[1])
    if node is None or sizes is None:
        return None
    allowzero = "allowzero" in node.attributes and node.attributes["allowzero"].value != 0
    return Target(sizes, allowzero and 0 in sizes) if allowzero or 0 not in sizes else None


def _mixes_copy_and_free(y: ir.Value) -> bool:
    node = y.producer()
    sizes = None if node is None or node.op_type != "Reshape" else int_values(node.inputs[1])
    return sizes is not None and 0 in sizes and -1 in sizes


def _with_free(shape: tuple[Dim, ...], own: tuple[Dim, ...], *, allows_both: bool) -> Target | None:
    """Numbers, 0 where a dimension of the operand is copied, and -1 for one that is neither.

    -1 and 0 together fail for an operand without elements: only where they stood together before.
    """
    if 0 in shape:
        return None
    free = [index for index, size in enumerate(shape) if not isinstance(size, int)]
    if len(free) == 1:
        return Target(tuple(size if isinstance(size, int) else -1 for size in shape))
    copied = [index for index in free if index < len(own) and same_dim(shape[index], own[index])]
    left = [index for index in free if index not in copied]
    if len(left) > 1 or (left and not allows_both):
        return None
    return Target(
        tuple(size if isinstance(size, int) else 0 if index in copied else -1 for index, size in enumerate(shape))
    )


class MergeReshapes(Rewrite):
    """Reshape, Flatten, Squeeze, Unsqueeze after one of these -> one Reshape, or x where its shape is back."""

    def pattern(self, op: Ops, x: Leaf, inner: Leaf, outer: Leaf) -> Pattern:
        first = op.one_of(RESHAPES, x, op.optional(inner), attributes=ANY).named("h").keep()
        return op.one_of(RESHAPES, first, op.optional(outer), attributes=ANY).named("y")

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value, opset: int) -> Match:
        merges = (
            _restores(x, h, y)
            or _merged_axes(h, y, "Squeeze") is not None
            or _merged_axes(h, y, "Unsqueeze") is not None
        )
        return Match.when(merges or target_of(x, y, opset) is not None, "the target cannot be written")

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, opset: int) -> ir.Value:
        if _restores(x, h, y):
            return x
        for kind in ("Squeeze", "Unsqueeze"):
            axes = _merged_axes(h, y, kind)
            if axes is not None:
                return op.node(kind, x, axes)[0]
        target = target_of(x, y, opset)
        assert target is not None
        return target.write(op, x)


def _axes(y: ir.Value, kind: str) -> tuple[int, ...] | None:
    """The axes of a Squeeze or Unsqueeze, counted from the front; None where they are not given."""
    node = y.producer()
    if node is None or node.op_type != kind:
        return None
    axes, longer = ints_of(y, 1, "axes"), y if kind == "Unsqueeze" else node.inputs[0]
    size = None if longer is None or longer.is_graph_output() else rank(longer)
    return from_front(axes, size) if axes else None


def _restores(x: ir.Value, h: ir.Value, y: ir.Value) -> bool:
    """Whether y has the shape of x."""
    if not y.is_graph_output() and same_shape(x, y):
        return True
    for first, second in (("Squeeze", "Unsqueeze"), ("Unsqueeze", "Squeeze")):
        removed, added = _axes(h, first), _axes(y, second)
        if removed is not None and added is not None and sorted(removed) == sorted(added):
            return True
    return False


def _merged_axes(h: ir.Value, y: ir.Value, kind: str) -> list[int] | None:
    """The axes of one Squeeze or Unsqueeze in the place of two."""
    first, second = _axes(h, kind), _axes(y, kind)
    if first is None or second is None:
        return None
    inner, outer = (first, second) if kind == "Unsqueeze" else (second, first)
    total = len(inner) + len(outer) + max((*inner, *outer))
    free = [axis for axis in range(total + 1) if axis not in outer]
    return sorted([*outer, *(free[axis] for axis in inner)])


_UNARY = (
    *("Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
    *("Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign"),
    *("Sqrt", "Swish", "Tan", "Tanh", "Cast", "Clip", "Identity"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max")


class MoveReshapeOverElementwise(Rewrite):
    """Reshape(f(Reshape(x))) -> Reshape(f(x)), or f(x): elementwise f of one value, and maybe of a number."""

    def pattern(self, op: Ops, x: Leaf, s: Leaf, rest: Leaf, t: Leaf) -> Pattern:
        inner = op.one_of(RESHAPES, x, op.optional(s), attributes=ANY)
        left = op.one_of((*_UNARY, *_BINARY), inner, op.many(rest), attributes=ANY).named("h")
        right = op.one_of(_BINARY, rest, inner, attributes=ANY).named("k")
        outer = op.either(
            op.one_of(RESHAPES, left, op.optional(t), attributes=ANY).named("y"),
            op.one_of(RESHAPES, right, op.optional(t), attributes=ANY).named("y"),
        )
        return outer

    def check(self, x: ir.Value, rest: ir.Value | tuple[ir.Value, ...], y: ir.Value, opset: int) -> Match:
        others = (rest,) if isinstance(rest, ir.Value) else rest
        size = rank(x)
        keeps_rank = all(
            element_count(value) == 1 and size is not None and (rank(value) or 0) <= size for value in others
        )
        back = not y.is_graph_output() and same_shape(x, y)
        return Match.all(keeps_rank, back or target_of(x, y, opset) is not None)

    def rewrite(
        self,
        op: Builder,
        x: ir.Value,
        rest: ir.Value | tuple[ir.Value, ...],
        h: ir.Value | None,
        k: ir.Value | None,
        y: ir.Value,
        opset: int,
    ) -> ir.Value:
        operands = (x, *rest) if isinstance(rest, tuple) else (rest, x)
        result = write_again(op, k if h is None else h, *operands)
        if not y.is_graph_output() and same_shape(x, y):
            return result
        target = target_of(x, y, opset)
        assert target is not None
        return target.write(op, result)


class FoldSqueezeIntoReduce(Rewrite):
    """Squeeze(ReduceX(x, axes, keepdims=1), axes) -> ReduceX(x, axes, keepdims=0)."""

    _KINDS = (
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
        *("ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin"),
    )

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, removed: Leaf) -> Pattern:
        reduced = op.one_of(self._KINDS, x, op.optional(axes), keepdims=1, attributes=ANY).named("h")
        return op.Squeeze(reduced, op.optional(removed), attributes=ANY).named("y")

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value) -> Match:
        reduced, removed = _reduced_axes(h), _axes(y, "Squeeze")
        return Match.when(
            reduced is not None and removed is not None and sorted(reduced) == sorted(removed),
            "other axes are removed than reduced",
        )

    def rewrite(self, op: Builder, x: ir.Value, axes: ir.Value | None, h: ir.Value) -> ir.Value:
        return write_again(op, h, x, axes, keepdims=0)


class MoveBiasInFrontOfSqueeze(Rewrite):
    """Add(Squeeze(Conv(x, w)), c) -> Squeeze(Add(Conv(x, w), c)), where the convolution has no bias yet."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, axes: Leaf, c: Leaf) -> Pattern:
        h = op.one_of(("Conv", "ConvTranspose"), x, w, attributes=ANY).named("h")
        return op.Add(op.Squeeze(h, op.optional(axes), attributes=ANY).named("s"), op.constant(c))

    def check(self, h: ir.Value, s: ir.Value, c: ir.Value) -> Match:
        removed, size, own = _axes(s, "Squeeze"), rank(s), rank(c)
        return Match.all(removed is not None, size is not None and own is not None and own <= size, rank(h) is not None)

    def rewrite(self, op: Builder, h: ir.Value, s: ir.Value, c: ir.Value) -> ir.Value:
        removed, array = list(_axes(s, "Squeeze") or ()), constant_value(c)
        assert array is not None
        wide = array.reshape((1,) * ((rank(s) or 0) - array.ndim) + array.shape)
        return op.Squeeze(op.Add(h, op.constant(np.expand_dims(wide, tuple(removed)))), removed)


def _reduced_axes(h: ir.Value) -> tuple[int, ...] | None:
    node = h.producer()
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return None
    if node.op_type in ("ArgMax", "ArgMin"):
        axes: tuple[int, ...] | None = (node.attributes["axis"].as_int() if "axis" in node.attributes else 0,)
    else:
        axes = ints_of(h, 1, "axes")
    return from_front(axes, rank(x)) if axes else None


RULES: tuple[Rewrite, ...] = (
    MergeReshapes(),
    MoveReshapeOverElementwise(),
    FoldSqueezeIntoReduce(),
    MoveBiasInFrontOfSqueeze(),
)
