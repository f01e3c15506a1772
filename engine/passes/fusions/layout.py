"""Pixels and channels: DepthToSpace and SpaceToDepth written as Reshape and Transpose; pools and Resize that do
nothing; reductions of nothing."""

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.passes.queries import (
    Dim,
    all_equal,
    constant_value,
    dim,
    dims,
    from_front,
    int_values,
    ints_of,
    rank,
    same_dim,
)
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_KERNEL_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})
_CRD_SINCE = 11
_MODES: dict[tuple[int, ...], str] = {(0, 3, 4, 1, 5, 2): "DCR", (0, 1, 4, 2, 5, 3): "CRD"}


def _same_dims(own: Sequence[Dim] | None, wanted: Sequence[Dim | None]) -> bool:
    if own is None or len(own) != len(wanted):
        return False
    return all(b is not None and same_dim(a, b) for a, b in zip(own, wanted, strict=True))


def _times(size: Dim, factor: int) -> Dim | None:
    return None if not isinstance(size, int) and size.value is None else size * factor


def _proven(y: ir.Value, shape: ir.Value | None) -> Sequence[Dim] | None:
    """The dimensions of a Reshape; what a graph output declares proves nothing, the target in the node does."""
    if not y.is_graph_output():
        return dims(y)
    sizes = int_values(shape)
    return None if sizes is None or min(sizes, default=1) < 1 else sizes


class ReshapeTransposeToDepthToSpace(Rewrite):
    """Reshape(Transpose(Reshape(x))) -> DepthToSpace(x), in both modes."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf, perm: Leaf) -> Pattern:
        split = op.Reshape(x, a, attributes=ANY).named("h")
        return op.Reshape(op.Transpose(split, perm=perm), b, attributes=ANY).named("y")

    def check(
        self, x: ir.Value, h: ir.Value, y: ir.Value, b: ir.Value | None, perm: list[int] | None, opset: int
    ) -> Match:
        mode = _MODES.get(tuple(perm or ()), "")
        block, own = _block(h, mode), dims(x)
        if block is None or own is None or len(own) != 4 or x.dtype not in _KERNEL_TYPES:
            return Match.no("no block of pixels is moved")
        n, c, height, width = own
        if not isinstance(c, int) or c % block**2:
            return Match.no("the channels do not split")
        depth = c // block**2
        inner = [block, block, depth] if mode == "DCR" else [depth, block, block]
        return Match.all(
            mode == "DCR" or opset >= _CRD_SINCE,
            _same_dims(dims(h), [n, *inner, height, width]),
            _same_dims(_proven(y, b), [n, depth, _times(height, block), _times(width, block)]),
        )

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, perm: list[int]) -> ir.Value:
        mode = _MODES[tuple(perm)]
        return op.DepthToSpace(x, blocksize=_block(h, mode), mode="CRD" if mode == "CRD" else None)


def _block(h: ir.Value, mode: str) -> int | None:
    return dim(h, 1 if mode == "DCR" else 2) if mode and rank(h) == 6 else None


class ReshapeTransposeToSpaceToDepth(Rewrite):
    """Reshape(Transpose(Reshape(x), perm=[0, 3, 5, 1, 2, 4])) -> SpaceToDepth(x)."""

    def pattern(self, op: Ops, x: Leaf, a: Leaf, b: Leaf) -> Pattern:
        split = op.Reshape(x, a, attributes=ANY).named("h")
        return op.Reshape(op.Transpose(split, perm=[0, 3, 5, 1, 2, 4]), b, attributes=ANY).named("y")

    def check(self, x: ir.Value, h: ir.Value, y: ir.Value, b: ir.Value | None) -> Match:
        own, block, split = dims(x), dim(h, 5), dims(h)
        if own is None or len(own) != 4 or block is None or split is None or x.dtype not in _KERNEL_TYPES:
            return Match.no("no block of pixels is moved")
        n, c, height, width = own
        rows, columns = (_over(size, block) for size in (height, width))
        channels = _times(c, block**2)
        return Match.all(
            rows is not None,
            columns is not None,
            _same_dims(split, [n, c, rows, block, columns, block]),
            _same_dims(_proven(y, b), [n, channels, rows, columns]),
        )

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value) -> ir.Value:
        return op.SpaceToDepth(x, blocksize=dim(h, 5))


def _over(size: Dim, block: int) -> int | None:
    return size // block if isinstance(size, int) and block > 0 and size % block == 0 else None


class RemovePool(Rewrite):
    """MaxPool and AveragePool by a kernel of one element -> x."""

    def pattern(self, op: Ops, x: Leaf, kernel: Leaf, strides: Leaf, pads: Leaf, auto: Leaf) -> Pattern:
        kinds = ("MaxPool", "AveragePool")
        return op.one_of(kinds, x, attributes=ANY, kernel_shape=kernel, strides=strides, pads=pads, auto_pad=auto)

    def check(self, kernel: list[int], strides: list[int] | None, pads: list[int] | None, auto: str) -> Match:
        padded = auto == "NOTSET" and any(pads or ())
        return Match.all(set(kernel) <= {1}, set(strides or ()) <= {1}, not padded)

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


_EXACT_MODES = frozenset({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"})


class RemoveResize(Rewrite):
    """Resize and Upsample by scales of 1, or to the size that x has -> x."""

    def pattern(self, op: Ops, x: Leaf, rest: Leaf) -> Pattern:
        return op.either(
            op.Resize(x, op.optional(rest), op.optional(_SCALES), op.optional(_SIZES), attributes=ANY).named("y"),
            op.Upsample(x, op.optional(rest), attributes=ANY).named("y"),
        )

    def check(self, x: ir.Value, y: ir.Value, opset: int) -> Match:
        node = y.producer()
        if node is None:
            return Match.no("it has no node")
        mode = node.attributes.get("coordinate_transformation_mode")
        exact = mode is None or (not mode.is_ref() and mode.value in _EXACT_MODES)
        return Match.all(exact, _keeps_size(x, node, opset))

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return x


_SCALES, _SIZES = Leaf("scales"), Leaf("sizes")
_ROI_SINCE = 11  # the opset from which Resize has a region, scales and sizes


def _keeps_size(x: ir.Value, node: ir.Node, opset: int) -> bool:
    if "scales" in node.attributes:
        return set(node.attributes["scales"].as_floats()) == {1.0}
    position = 2 if node.op_type == "Resize" and opset >= _ROI_SINCE else 1
    scales = node.inputs[position] if position < len(node.inputs) else None
    if all_equal(scales, 1.0):
        return True
    sizes = int_values(node.inputs[3]) if len(node.inputs) > 3 else None
    own = dims(x)
    axes = node.attributes["axes"].as_ints() if "axes" in node.attributes else range(len(own or ()))
    over = None if own is None else from_front(axes, len(own))
    if own is None or sizes is None or over is None or len(sizes) != len(over) or constant_value(scales) is not None:
        return False
    return all(own[axis] == size for axis, size in zip(over, sizes, strict=True))


class RemoveReduce(Rewrite):
    """ReduceX(x) of no axes -> x; ReduceMax, ReduceMin, ReduceProd of axes of dimension 1 -> x, or a Squeeze."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, keepdims: Leaf, noop: Leaf) -> Pattern:
        kinds = ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceMean")
        return op.one_of(
            kinds, x, op.optional(axes), attributes=ANY, keepdims=keepdims, noop_with_empty_axes=noop
        ).named("y")

    def check(self, x: ir.Value, y: ir.Value, noop: int | None) -> Match:
        axes = ints_of(y, 1, "axes")
        if axes == () and noop:
            return Match(True)
        node, over = y.producer(), from_front(axes, rank(x)) if axes else None
        takes_one = node is not None and node.op_type in ("ReduceMax", "ReduceMin", "ReduceProd")
        return Match.all(takes_one, over is not None, all(dim(x, axis) == 1 for axis in over or ()))

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value, keepdims: int) -> ir.Value:
        axes = ints_of(y, 1, "axes")
        return x if keepdims or not axes else op.Squeeze(x, list(from_front(axes, rank(x)) or ()))


RULES: tuple[Rewrite, ...] = (
    ReshapeTransposeToDepthToSpace(),
    ReshapeTransposeToSpaceToDepth(),
    RemovePool(),
    RemoveResize(),
    RemoveReduce(),
)
