"""Reading regions of images: RoiAlign, MaxRoiPool, and convolutions whose positions move."""

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.decompose import through_call
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.sampling import (
    Tap,
    array_like,
    counting,
    inside,
    length_like,
    linear_taps,
    read,
    rows_of,
    size,
    total,
    vector,
)
from onnxgrad.grad.windows import Window, window_of


@gradient("RoiAlign", note="of x and rois; the number of samples in a bin counts as constant")
def roi_align(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y[r, c, bin] = mean or maximum of x[batch of r, c] read at points of the bin"""
    default = "half_pixel" if op.opset >= 16 else "output_half_pixel"
    settings = _RoiSettings(
        shape=(node.attributes.get_int("output_height", 1), node.attributes.get_int("output_width", 1)),
        samples=node.attributes.get_int("sampling_ratio", 0),
        scale=node.attributes.get_float("spatial_scale", 1.0),
        half_pixel=node.attributes.get_string("coordinate_transformation_mode", default) == "half_pixel",
        largest=node.attributes.get_string("mode", "avg") == "max",
    )
    return through_call(op, "RoiAlignGrad", node, [dy], partial(_roi_align, settings=settings))


@dataclass(frozen=True)
class _RoiSettings:
    shape: tuple[int, int]
    samples: int
    scale: float
    half_pixel: bool
    largest: bool


@dataclass(frozen=True)
class _Samples:
    """Points along one axis of each region.

    taps: their neighbours, [R, bins * points]; count: points in each bin, [R, 1]; points: their largest number
    (int64[1]); used: whether a point is one of the region's own, None if all are.
    """

    taps: list[Tap]
    count: ir.Value
    points: ir.Value
    used: ir.Value | None


def _roi_align(op: Builder, x: ir.Value, rois: ir.Value, batch: ir.Value, *, settings: _RoiSettings) -> ir.Value:
    left, top, right, bottom = op.node("Split", rois, outputs=4, axis=1, num_outputs=4)
    rows = _samples(op, top, bottom, length_like(op, x, 2, rois), settings.shape[0], settings)
    columns = _samples(op, left, right, length_like(op, x, 3, rois), settings.shape[1], settings)
    sizes = [size(op, x, 2), size(op, x, 3)]
    batch = batch if batch.dtype == ir.DataType.INT64 else op.Cast(batch, to=ir.DataType.INT64)
    first = op.Unsqueeze(op.Mul(batch, op.Mul(*sizes)), [1, 2])
    taps = [_unsqueezed(op, rows.taps, 2), _unsqueezed(op, columns.taps, 1)]
    corners = read(op, rows_of(op, x), first, sizes, taps)  # each [R, bins * points, bins * points, C]
    bins = [op.constant([k]) for k in settings.shape]
    parted = op.Concat([-1], bins[0], rows.points, bins[1], columns.points, vector(op, (x, 1)), axis=0)
    if settings.largest:
        values = op.Reshape(op.Max(*corners), parted)
        y = _largest(op, values, rows, columns, parted)
    else:
        summed = op.ReduceSum(op.Reshape(total(op, corners), parted), [2, 4], keepdims=0)
        count = op.Max(op.Mul(rows.count, columns.count), op.constant_like(rois, 1))
        y = op.Div(summed, op.Unsqueeze(count, [2, 3]))
    return op.Transpose(y, perm=[0, 3, 1, 2])


def _unsqueezed(op: Builder, taps: list[Tap], axis: int) -> list[Tap]:
    return [Tap(op.Unsqueeze(tap.index, [axis]), tap.weight and op.Unsqueeze(tap.weight, [axis])) for tap in taps]


def _samples(
    op: Builder, low: ir.Value, high: ir.Value, length: ir.Value, bins: int, settings: _RoiSettings
) -> _Samples:
    """Points at equal distances in each of `bins` parts of [low, high]; low, high: [R, 1]."""
    start = op.Mul(low, settings.scale)
    extent = op.Sub(op.Mul(high, settings.scale), start)
    if settings.half_pixel:
        start = op.Sub(start, 0.5)
    else:
        extent = op.Max(extent, op.constant_like(extent, 1))
    step = op.Div(extent, float(bins))
    used = None
    if settings.samples > 0:
        count, points = op.constant_like(step, settings.samples), op.constant([settings.samples])
        shares = np.arange(bins)[:, None] + (np.arange(settings.samples) + 0.5) / settings.samples
        at = op.Add(start, op.Mul(step, array_like(op, shares.reshape(1, -1), step)))
        count = op.Expand(count, vector(op, (step, 0), 1))
    else:
        count = op.Max(op.Ceil(step), op.constant_like(step, 0))
        one = array_like(op, np.ones(1), step)  # at least one point, also where there are no regions
        most = op.ReduceMax(op.Concat(op.Reshape(count, [-1]), one, axis=0), keepdims=0)
        most = op.Cast(most, to=ir.DataType.INT64)
        points, numbers = op.Unsqueeze(most, [0]), counting(op, most, step)
        share = op.Div(op.Add(numbers, 0.5), op.Max(count, op.constant_like(step, 1)))  # [R, points]
        places = op.Add(op.Unsqueeze(share, [1]), array_like(op, np.arange(bins)[None, :, None], step))
        flat = op.Concat([-1], op.Mul(points, [bins]), axis=0)
        at = op.Add(start, op.Mul(step, op.Reshape(places, flat)))
        used = op.Reshape(
            op.Expand(op.Unsqueeze(op.Less(numbers, count), [1]), op.Concat([1, bins], [1], axis=0)), flat
        )
    return _Samples(_clamped_taps(op, at, length, used), count, points, used)


def _clamped_taps(op: Builder, at: ir.Value, length: ir.Value, used: ir.Value | None) -> list[Tap]:
    """Neighbours of points in an image whose border reaches one element further; beyond it they weigh nothing."""
    last = op.Sub(length, 1.0)
    within = op.And(op.GreaterOrEqual(at, -1.0), op.LessOrEqual(at, length))
    within = within if used is None else op.And(within, used)
    clamped = op.Clip(at, op.constant_like(at, 0), last)
    low = op.Floor(clamped)
    share = op.Sub(clamped, low)
    zero = op.constant_like(at, 0)
    near = op.Where(within, op.Sub(op.constant_like(at, 1), share), zero)
    return [Tap(low, near), Tap(op.Min(op.Add(low, 1.0), last), op.Where(within, share, zero))]


def _largest(op: Builder, values: ir.Value, rows: _Samples, columns: _Samples, parted: ir.Value) -> ir.Value:
    """The maximum over the points of each bin, 0 where there are none."""
    if rows.used is None or columns.used is None:
        return op.ReduceMax(values, [2, 4], keepdims=0)
    used = op.And(op.Unsqueeze(rows.used, [2]), op.Unsqueeze(columns.used, [1]))
    shape = op.Concat(op.Slice(parted, [0], [5]), [1], axis=0)
    values = op.Where(op.Reshape(used, shape), values, op.constant_like(values, -np.inf))
    found = op.ReduceMax(values, [2, 4], keepdims=0)
    some = op.Greater(op.Mul(rows.count, columns.count), 0.0)
    return op.Where(op.Unsqueeze(some, [2, 3]), found, op.constant_like(values, 0))


@gradient("MaxRoiPool", note="of x; elements that tie share equally")
def max_roi_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y[r, c, bin] = maximum of x[batch of r, c] over the elements of the bin"""
    shape = node.attributes.get_ints("pooled_shape")
    scale = node.attributes.get_float("spatial_scale", 1.0)
    return through_call(op, "MaxRoiPoolGrad", node, [dy], partial(_max_roi_pool, bins=tuple(shape), scale=scale))


def _max_roi_pool(op: Builder, x: ir.Value, rois: ir.Value, *, bins: tuple[int, ...], scale: float) -> ir.Value:
    batch, left, top, right, bottom = op.node("Split", rois, outputs=5, axis=1, num_outputs=5)
    images = op.Gather(x, op.Squeeze(op.Cast(batch, to=ir.DataType.INT64), [1]), axis=0)
    lowest = op.constant_like(x, -np.inf)
    rows = _members(op, top, bottom, size(op, x, 2), bins[0], scale)
    columns = _members(op, left, right, size(op, x, 3), bins[1], scale)
    spread = op.Where(op.Unsqueeze(columns, [1, 2]), op.Unsqueeze(images, [3]), lowest)  # [R, C, H, bins, W]
    reduced = op.ReduceMax(spread, [4], keepdims=0)
    spread = op.Where(op.Unsqueeze(rows, [1, 4]), op.Unsqueeze(reduced, [2]), lowest)  # [R, C, bins, H, bins]
    reduced = op.ReduceMax(spread, [3], keepdims=0)
    return op.Where(op.Equal(reduced, lowest), op.constant_like(x, 0), reduced)


def _members(op: Builder, low: ir.Value, high: ir.Value, length: ir.Value, bins: int, scale: float) -> ir.Value:
    """Which elements of an axis are in which bin of each region: bool[R, bins, length]."""
    start, end = (op.Floor(op.Add(op.Mul(value, scale), 0.5)) for value in (low, high))
    step = op.Div(op.Max(op.Add(op.Sub(end, start), 1.0), op.constant_like(low, 1)), float(bins))
    numbers = array_like(op, np.arange(bins)[None], low)
    first = op.Add(op.Floor(op.Mul(step, numbers)), start)
    beyond = op.Add(op.Ceil(op.Mul(step, op.Add(numbers, 1.0))), start)
    at = counting(op, length, low)
    return op.And(op.GreaterOrEqual(at, op.Unsqueeze(first, [2])), op.Less(at, op.Unsqueeze(beyond, [2])))


@gradient("DeformConv", note="of all inputs; positions on element boundaries take the slope to their right")
def deform_conv(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = W applied to x read at moved kernel positions, each times its mask, plus b"""
    return through_call(op, "DeformConvGrad", node, [dy], partial(_deform_conv, node=node))


def _deform_conv(
    op: Builder,
    x: ir.Value,
    w: ir.Value,
    offset: ir.Value,
    b: ir.Value | None = None,
    mask: ir.Value | None = None,
    *,
    node: ir.Node,
) -> ir.Value:
    group, parts = node.attributes.get_int("group", 1), node.attributes.get_int("offset_group", 1)
    kernel = node.attributes.get_ints("kernel_shape", None) or _static_kernel(node, w)
    n, count = len(kernel), int(np.prod(kernel))
    window = window_of(node, x, kernel)
    outputs = [(offset, axis) for axis in range(2, 2 + n)]
    moves = op.Reshape(offset, vector(op, (offset, 0), parts, count, n, *outputs))
    taps = []
    for axis in range(n):
        at = op.Add(_kernel_positions(op, offset, window.taps(), axis, window), op.Gather(moves, axis, axis=3))
        length = length_like(op, x, 2 + axis, offset)
        at = op.Clip(at, op.constant_like(at, -4), op.Add(length, 4.0))  # the index must stay a number
        taps.append([inside(op, tap, length) for tap in linear_taps(op, at)])
    sizes = [size(op, x, 2 + axis) for axis in range(n)]
    images = op.Range(0, op.Mul(size(op, x, 0), parts), 1)
    first = op.Reshape(op.Mul(images, reduce(op.Mul, sizes)), [-1, parts, *[1] * (1 + n)])
    columns = total(op, read(op, rows_of(op, x, parts), first, sizes, taps))  # [N, parts, taps, outputs.., C / parts]
    if mask is not None:
        columns = op.Mul(columns, op.Reshape(mask, vector(op, (mask, 0), parts, count, *outputs, 1)))
    moved = op.Transpose(columns, perm=[0, 1, 3 + n, 2, *range(3, 3 + n)])
    per_group = op.Concat(vector(op, (x, 0), group), op.Mul(vector(op, (w, 1)), [count]), [-1], axis=0)
    filters = op.Reshape(w, op.Concat([group, -1], op.Mul(vector(op, (w, 1)), [count]), axis=0))
    y = op.Reshape(op.MatMul(filters, op.Reshape(moved, per_group)), vector(op, (x, 0), (w, 0), *outputs))
    return y if b is None else op.Add(y, op.Reshape(b, [1, -1, *[1] * n]))


def _static_kernel(node: ir.Node, w: ir.Value) -> list[int]:
    dims = [dim for dim in list(w.shape or ())[2:] if isinstance(dim, int)]
    if len(dims) != rank(w) - 2:
        raise GradientError(
            "the gradient of DeformConv needs to know the size of the kernel",
            where=describe(node),
            fix="give the node the attribute kernel_shape, or its weight a fixed shape",
        )
    return dims


def _kernel_positions(
    op: Builder, offset: ir.Value, taps: list[tuple[int, ...]], axis: int, window: Window
) -> ir.Value:
    """Where kernel positions lie along one axis when nothing moves them: [taps, 1.., outputs, ..1]."""
    assert window.begins is not None
    n = len(window.strides)
    behind = [1] * (n - 1 - axis)
    inner = array_like(op, np.array([tap[axis] * window.dilations[axis] for tap in taps]), offset)
    starts = op.Mul(counting(op, size(op, offset, 2 + axis), offset), float(window.strides[axis]))
    starts = op.Sub(starts, float(window.begins[axis]))
    return op.Add(op.Reshape(inner, [-1, *[1] * n]), op.Reshape(starts, [-1, *behind]))
