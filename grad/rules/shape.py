"""Operators that only move elements: reshaping, joining, cutting, padding, reversing."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.scatter import inverse, move_back, shaped_like


@gradient("Reshape", "Flatten")
def reshape(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y has the elements of x in the same order:  dx = dy in the shape of x"""
    x = node.inputs[0]
    assert x is not None
    return (shaped_like(op.Reshape(dy, op.shape_of(x), allowzero=1), x),)


@gradient("Squeeze")
def squeeze(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x without axes of size 1:  dx = dy with them"""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    return reshape(op, node, dy) if axes is None else (op.Unsqueeze(dy, axes),)


@gradient("Unsqueeze")
def unsqueeze(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x with more axes of size 1:  dx = dy without them"""
    return (op.Squeeze(dy, node.inputs[1]),)


@gradient("Transpose")
def transpose(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x with axes in the order perm (reversed by default):  dx = dy in the inverse order"""
    perm = node.attributes.get_ints("perm", None)
    return (op.Transpose(dy, perm=None if perm is None else inverse(perm)),)


@gradient("Expand", broadcasts=True)
def expand(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x broadcast:  dx = dy, summed back"""
    return (dy,)


@gradient("Tile")
def tile(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x repeated along each axis:  dx = dy summed over the repeats"""
    x, repeats = node.inputs
    assert x is not None and repeats is not None
    if rank(x) == 0:
        return (dy,)
    pairs = op.Concat(op.Unsqueeze(repeats, [1]), op.Unsqueeze(op.shape_of(x), [1]), axis=1)
    parts = op.Reshape(dy, op.Reshape(pairs, [2 * rank(x)]), allowzero=1)
    return (shaped_like(op.ReduceSum(parts, list(range(0, 2 * rank(x), 2)), keepdims=0), x),)


@gradient("Concat")
def concat(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the inputs side by side:  each gets its part of dy"""
    inputs = [x for x in node.inputs if x is not None]
    if len(inputs) == 1:
        return (dy,)
    axis = node.attributes.get_int("axis")
    axis = axis if axis >= 0 else axis + rank(dy)
    wanted = [k for k, x in enumerate(inputs) if op.wants(x)]
    if len(wanted) == 1 and (bounds := _bounds(inputs, wanted[0], axis)) is not None:
        part = op.Slice(dy, [bounds[0]], [bounds[1]], [axis])
        return [shaped_like(part, x) if k == wanted[0] else None for k, x in enumerate(inputs)]
    parts = op.node("Split", dy, _sizes(op, inputs, axis), outputs=len(inputs), axis=axis)
    return [shaped_like(part, x) for part, x in zip(parts, inputs, strict=True)]


def _bounds(inputs: Sequence[ir.Value], k: int, axis: int) -> tuple[int, int] | None:
    """Where the k-th of the joined values begins and ends; None if that is not known now."""
    dims = [None if x.shape is None else x.shape[axis] for x in inputs[: k + 1]]
    known = [dim for dim in dims if isinstance(dim, int)]
    return (sum(known[:k]), sum(known)) if len(known) == len(dims) else None


def _sizes(op: Builder, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """The sizes of `values` along `axis`, int64[len(values)]."""
    dims = [None if value.shape is None else value.shape[axis] for value in values]
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims):
        return op.constant(known)
    parts = [
        op.constant([dim]) if isinstance(dim, int) else op.Shape(value, start=axis, end=axis + 1)
        for dim, value in zip(dims, values, strict=True)
    ]
    return op.Concat(*parts, axis=0)


@gradient("Split")
def split(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """The outputs are parts of x:  dx = their gradients side by side, zeros for those that have none"""
    x = node.inputs[0]
    assert x is not None
    parts = [op.zeros_like(expose(op, node, k + 1)[k]) if dy is None else dy for k, dy in enumerate(dys)]
    if len(parts) == 1:
        return (parts[0],)
    return (shaped_like(op.Concat(*parts, axis=node.attributes.get_int("axis", 0)), x),)


@gradient("Slice")
def slice_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x[starts:ends:steps] along axes:  dx = dy at its places, zeros elsewhere"""
    x, starts, ends, axes, steps = [*node.inputs, None, None][:5]
    assert x is not None and starts is not None and ends is not None
    if not _all_ones(steps):
        return (move_back(op, "SliceGrad", _slice, dy, x, starts, ends, axes, steps),)
    padded = _static_pad(op, dy, x, starts, ends, axes)
    if padded is None:
        (padded,) = op.call("SliceGrad", _pad_slice, dy, op.shape_of(x), starts, axes)
    return (shaped_like(padded, x),)


def _slice(op: Builder, x: ir.Value, *given: ir.Value | None) -> ir.Value:
    return op.Slice(x, *given)


def _all_ones(steps: ir.Value | None) -> bool:
    known = None if steps is None else ir.convenience.get_const_tensor(steps)
    return steps is None or (known is not None and bool((known.numpy() == 1).all()))


def _static_pad(
    op: GradientBuilder, dy: ir.Value, x: ir.Value, starts: ir.Value, ends: ir.Value, axes: ir.Value | None
) -> ir.Value | None:
    """Zeros around dy, where the slice is known now; None if it is not."""
    known = [None if v is None else ir.convenience.get_const_tensor(v) for v in (starts, ends, axes)]
    if x.shape is None or known[0] is None or known[1] is None or (axes is not None and known[2] is None):
        return None
    first, last = known[0].numpy().tolist(), known[1].numpy().tolist()
    along = list(range(len(first))) if known[2] is None else [int(k) % rank(x) for k in known[2].numpy()]
    before, after = [0] * rank(x), [0] * rank(x)
    for axis, start, end in zip(along, first, last, strict=True):
        dim = x.shape[axis]
        if not isinstance(dim, int):
            return None
        begin, stop, _ = slice(start, end).indices(dim)
        before[axis], after[axis] = begin, dim - max(begin, stop)
    return op.Pad(dy, [*before, *after]) if any(before) or any(after) else dy


def _pad_slice(op: Builder, dy: ir.Value, shape: ir.Value, starts: ir.Value, axes: ir.Value | None) -> ir.Value:
    """Zeros around dy, for starts known at run time only: negative and too large ones count as Slice counts them."""
    if starts.dtype != ir.DataType.INT64:
        starts = op.Cast(starts, to=ir.DataType.INT64)
    if axes is not None and axes.dtype != ir.DataType.INT64:
        axes = op.Cast(axes, to=ir.DataType.INT64)
    if axes is None:
        axes = op.Range(0, op.Squeeze(op.Shape(starts), [0]), 1)
    dims, kept = op.Gather(shape, axes), op.Gather(op.Shape(dy), axes)
    begin = op.Where(op.Less(starts, 0), op.Add(starts, dims), starts)
    begin = op.Min(op.Max(begin, 0), dims)
    return op.Pad(dy, op.Concat(begin, op.Sub(op.Sub(dims, begin), kept), axis=0), None, axes)


@gradient("Pad")
def pad(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x with a border:  dx = dy without it; reflected, repeated and wrapped elements add to those they copy"""
    x, pads, value, axes = [*node.inputs, None, None][:4]
    assert x is not None and pads is not None
    mode = node.attributes.get_string("mode", "constant")
    if mode != "constant":

        def move(op: Builder, places: ir.Value, pads: ir.Value, axes: ir.Value | None) -> ir.Value:
            return op.Pad(places, pads, None, axes, mode=mode)

        return (move_back(op, "PadGrad", move, dy, x, pads, axes),)
    dvalue = None
    if op.wants(value):
        border = op.Pad(op.zeros_like(x), pads, op.constant_like(x, 1), axes)
        dvalue = op.Reshape(op.ReduceSum(op.Mul(dy, border), keepdims=0), op.shape_of(value))  # type: ignore[arg-type]
    return _cropped(op, dy, x, pads, axes) if op.wants(x) else None, None, dvalue, None


def _cropped(op: GradientBuilder, dy: ir.Value, x: ir.Value, pads: ir.Value, axes: ir.Value | None) -> ir.Value:
    """dy without the border; zeros where the border was negative."""
    known = ir.convenience.get_const_tensor(pads)
    axes = op.constant(list(range(rank(x)))) if axes is None else axes
    if known is not None:
        border = known.numpy().astype(np.int64)
        first, last = np.split(border, 2)
        if (border > 0).any():
            dy = op.Slice(dy, np.maximum(first, 0), np.where(last > 0, -last, np.iinfo(np.int64).max), axes)
        if (border < 0).any():
            dy = op.Pad(dy, np.maximum(-border, 0), None, axes)
        return shaped_like(dy, x)
    before, after = op.node("Split", pads, outputs=2, num_outputs=2)
    ends = op.Sub(op.Gather(op.Shape(dy), axes), op.Max(after, 0))
    inside = op.Slice(dy, op.Max(before, 0), ends, axes)
    return shaped_like(op.Pad(inside, op.Max(op.Neg(pads), 0), None, axes), x)


@gradient("CenterCropPad")
def center_crop_pad(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x cut or padded with zeros around its centre:  dx = dy padded or cut back"""
    x = node.inputs[0]
    assert x is not None
    axes = node.attributes.get_ints("axes", None)
    shape = op.shape_of(x) if axes is None else op.Gather(op.shape_of(x), [axis % rank(x) for axis in axes])
    return (shaped_like(op.CenterCropPad(dy, shape, axes=axes), x),)


@gradient("DepthToSpace")
def depth_to_space(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = blocks of channels laid out in space:  dx = the blocks of dy laid out in channels"""
    x, size = node.inputs[0], node.attributes.get_int("blocksize")
    assert x is not None
    return (shaped_like(_to_depth(op, dy, x, size, node.attributes.get_string("mode", "DCR")), x),)


def _to_depth(op: GradientBuilder, dy: ir.Value, x: ir.Value, size: int, mode: str) -> ir.Value:
    if mode == "DCR":
        return op.SpaceToDepth(dy, blocksize=size)
    shape = op.shape_of(x)
    blocks = op.Concat([0, 0], op.Slice(shape, [2], [3]), [size], op.Slice(shape, [3], [4]), [size], axis=0)
    return op.Reshape(op.Transpose(op.Reshape(dy, blocks), perm=[0, 1, 3, 5, 2, 4]), shape, allowzero=1)


@gradient("SpaceToDepth")
def space_to_depth(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = blocks of space laid out in channels:  dx = the channels of dy laid out in space"""
    x, size = node.inputs[0], node.attributes.get_int("blocksize")
    assert x is not None
    mode = node.attributes.get_string("mode", "DCR")
    return (shaped_like(op.DepthToSpace(dy, blocksize=size, mode=mode), x),)


@gradient("Trilu")
def trilu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a triangle of x, zeros elsewhere:  dx = the same triangle of dy"""
    return (op.Trilu(dy, *node.inputs[1:], upper=node.attributes.get_int("upper", 1)),)


@gradient("ReverseSequence")
def reverse_sequence(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x with the first sequence_lens steps reversed:  dx = dy reversed again"""
    attributes = node.attributes
    return (
        op.ReverseSequence(
            dy,
            node.inputs[1],
            batch_axis=attributes.get_int("batch_axis", 1),
            time_axis=attributes.get_int("time_axis", 0),
        ),
    )
