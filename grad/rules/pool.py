"""Pooling: maxima, means and norms of windows."""

from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.engine.ir.scatter import scatter_add
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.windows import (
    Sizes,
    Window,
    crop,
    fold,
    frame,
    merge_axes,
    pad_spatial,
    spatial,
    spatial_of,
    tap_slice,
    window_of,
)

_MANY_TAPS = 36  # larger windows find their maximum once more, with its index


@gradient("MaxPool", note="the first maximum of a window takes the gradient")
def max_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value, _: ir.Value | None = None) -> Grads:
    """y = max over windows of x:  dx = for each window, dy at its first maximum"""
    (x,), y = node.inputs, node.outputs[0]
    assert x is not None
    window = window_of(node, x, node.attributes.get_ints("kernel_shape"))
    if window.kernel is not None and prod(window.kernel) > _MANY_TAPS:
        body = partial(_at_indices, ceil_mode=node.attributes.get_int("ceil_mode", 0), window=window)
        return op.call("MaxPoolGrad", body, x, dy)
    return op.call("MaxPoolGrad", partial(_at_first_maximum, window=window), x, y, dy)


def _at_first_maximum(op: Builder, x: ir.Value, y: ir.Value, dy: ir.Value, *, window: Window) -> ir.Value:
    """Compares what each kernel position sees with y; a window gives its dy away once."""
    assert window.kernel is not None
    begins, ends = frame(op, x, y, window)
    padded = pad_spatial(op, x, begins, ends, -np.inf)
    counts = spatial(y) or spatial_of(op, y)
    left, parts = dy, []
    for tap in window.taps():
        part = op.Where(op.Equal(tap_slice(op, padded, tap, window, counts), y), left, 0.0)
        left = op.Sub(left, part)
        parts.append(op.Unsqueeze(part, [2]))
    columns = merge_axes(op, op.Concat(*parts, axis=2), [[0], [1, 2], [axis + 1 for axis in window.axes]])
    folded = op.Col2Im(
        columns,
        spatial_of(op, padded),
        list(window.kernel),
        strides=window.strides,
        dilations=window.dilations,
        pads=[0] * 2 * len(window.axes),
    )
    return crop(op, folded, begins, x)


def _at_indices(op: Builder, x: ir.Value, dy: ir.Value, *, window: Window, ceil_mode: int) -> ir.Value:
    """Adds dy up at the flat indices of the maxima."""
    assert window.kernel is not None
    _, indices = op.node(
        "MaxPool",
        x,
        outputs=2,
        kernel_shape=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads if window.begins is not None else None,
        auto_pad=None if window.begins is not None else window.auto_pad,
        ceil_mode=ceil_mode,
    )
    shape = op.shape_of(x)
    zeros = op.Expand(op.constant_like(x, 0), op.ReduceProd(shape, [0], keepdims=1))
    flat = scatter_add(op, zeros, op.Reshape(indices, [-1]), op.Reshape(dy, [-1]))
    return op.Reshape(flat, shape, allowzero=1)


@gradient("AveragePool")
def average_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = mean over windows of x:  dx = sum over the windows that hold x of dy / size of the window"""
    (x,) = node.inputs
    assert x is not None
    window = window_of(node, x, node.attributes.get_ints("kernel_shape"))
    include_pad = bool(node.attributes.get_int("count_include_pad", 0))
    return (fold(op, op.Div(dy, _window_sizes(op, x, dy, window, include_pad)), x, window),)


def _window_sizes(op: Builder, x: ir.Value, dy: ir.Value, window: Window, include_pad: bool) -> ir.Value:
    """How many elements each window averages, a tensor that broadcasts with dy; with `include_pad`, padding counts."""
    assert window.kernel is not None and dy.dtype is not None
    sizes, counts = spatial(x), spatial(dy)
    if window.begins is None or window.ends is None or sizes is None or counts is None:
        return op.Cast(_window_sizes_at_run_time(op, x, dy, window, include_pad), to=dy.dtype)
    total = np.ones([1] * rank(x), dy.dtype.numpy())
    for k, axis in enumerate(window.axes):
        starts = np.arange(counts[k]) * window.strides[k] - window.begins[k]
        at = starts[:, None] + np.arange(window.kernel[k]) * window.dilations[k]
        low, high = (-window.begins[k], sizes[k] + window.ends[k]) if include_pad else (0, sizes[k])
        inside = ((at >= low) & (at < high)).sum(axis=1)
        inside = inside[:1] if inside.size and (inside == inside[0]).all() else inside
        total = total * inside.reshape([-1 if i == axis else 1 for i in range(rank(x))]).astype(total.dtype)
    return op.constant(total)


def _window_sizes_at_run_time(op: Builder, x: ir.Value, dy: ir.Value, window: Window, include_pad: bool) -> ir.Value:
    assert window.kernel is not None
    begins, ends = frame(op, x, dy, window)
    ends = list(window.ends) if window.ends is not None else ends
    total = op.constant([1])
    for k, axis in enumerate(window.axes):
        begin, end = (_at(op, value, k) for value in (begins, ends))
        size = op.Shape(x, start=axis, end=axis + 1)
        count = op.Squeeze(op.Shape(dy, start=axis, end=axis + 1), [0])
        starts = op.Sub(op.Mul(op.Range(0, count, 1), window.strides[k]), begin)
        offsets = [i * window.dilations[k] for i in range(window.kernel[k])]
        at = op.Add(op.Unsqueeze(starts, [1]), offsets)
        low, high = (op.Neg(begin), op.Add(size, end)) if include_pad else (op.constant([0]), size)
        inside = op.And(op.GreaterOrEqual(at, low), op.Less(at, high))
        found = op.ReduceSum(op.Cast(inside, to=ir.DataType.INT64), [1], keepdims=0)
        total = op.Mul(total, op.Reshape(found, [-1 if i == axis else 1 for i in range(1, rank(x))]))
    return total


def _at(op: Builder, sizes: Sizes, position: int) -> ir.Value:
    return op.constant([sizes[position]]) if isinstance(sizes, list) else op.Slice(sizes, [position], [position + 1])


@gradient("GlobalAveragePool")
def global_average_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = mean over the spatial axes:  dx = dy / number of positions"""
    (x,) = node.inputs
    assert x is not None
    dims = spatial(x)
    if dims is not None:
        count = op.constant_like(x, prod(dims))
    else:
        count = op.Cast(op.ReduceProd(spatial_of(op, x), [0], keepdims=0), to=dy.dtype)
    return (op.Expand(op.Div(dy, count), op.shape_of(x)),)


@gradient("GlobalMaxPool", note="elements that tie share equally")
def global_max_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = max over the spatial axes:  dx = dy where x = y, divided among ties"""
    (x,), (y,) = node.inputs, node.outputs
    assert x is not None
    hits = op.Cast(op.Equal(x, y), to=x.dtype)
    return (op.Mul(hits, op.Div(dy, op.ReduceSum(hits, list(range(2, rank(x))), keepdims=1))),)


@gradient("LpPool", note="0 where all of a window is 0")
def lp_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (sum over windows of |x|^p)^(1/p):  dx = sign(x) |x|^(p-1) times the sum over windows of dy y^(1-p)"""
    (x,), (y,) = node.inputs, node.outputs
    assert x is not None
    p = node.attributes.get_int("p", 2)
    window = window_of(node, x, node.attributes.get_ints("kernel_shape"))
    return (op.Mul(_signed_power(op, x, p), fold(op, _over_power(op, dy, y, p), x, window)),)


@gradient("GlobalLpPool", note="0 where all of a channel is 0")
def global_lp_pool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (sum of |x|^p)^(1/p):  dx = dy sign(x) |x|^(p-1) y^(1-p)"""
    (x,), (y,) = node.inputs, node.outputs
    assert x is not None
    p = node.attributes.get_int("p", 2)
    return (op.Mul(_signed_power(op, x, p), _over_power(op, dy, y, p)),)


def _signed_power(op: Builder, x: ir.Value, p: int) -> ir.Value:
    """sign(x) |x|^(p-1)"""
    if p <= 2:
        return op.Sign(x) if p == 1 else x
    return op.Pow(x, float(p - 1)) if p % 2 == 0 else op.Mul(x, op.Pow(op.Abs(x), float(p - 2)))


def _over_power(op: Builder, dy: ir.Value, y: ir.Value, p: int) -> ir.Value:
    """dy y^(1-p), finite at y = 0."""
    if p == 1:
        return dy
    safe = op.Where(op.Equal(y, 0.0), op.constant_like(y, 1), y)
    return op.Div(dy, safe if p == 2 else op.Pow(safe, float(p - 1)))


@gradient("MaxUnpool", note="indices count in the whole output; of equal indices each takes the gradient")
def max_unpool(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y[indices] = x, 0 elsewhere:  dx = dy[indices]"""
    return (op.Gather(op.Reshape(dy, [-1]), node.inputs[1]),)
