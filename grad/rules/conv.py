"""Convolutions. Which formula is used where was measured on the CPU provider: benchmarks/conv_gradients.py."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.windows import (
    Window,
    fit_spatial,
    pad_spatial,
    same_pads_at_run_time,
    spatial,
    spatial_of,
    tap_slice,
    window_of,
)

_FEW_POSITIONS = 16  # with fewer positions per image, one matrix product over all images beats one per image
_ROWS = 32  # kernel positions are put together until a matrix product has this many rows
_MOST_TAPS = 128  # a slice each; with more, a convolution is shorter


@gradient("Conv", note="auto_pad, groups, and run-time spatial sizes included")
def conv(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = W * x + b:  dx = transposed convolution of dy by W;  dW = correlation of x with dy;  db = sum of dy"""
    return _conv_gradients(op, node, dy)


@gradient("FusedConv", domain="com.microsoft", note="Clip passes between its bounds only")
def fused_conv(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = activation(W * x + b + z):  dz = dy times the slope, told from y; the others as those of Conv for dz"""
    dz = _before_activation(op, node, node.outputs[0], dy)
    return (*_conv_gradients(op, node, dz), dz)


def _before_activation(op: Builder, node: ir.Node, y: ir.Value, dy: ir.Value) -> ir.Value:
    name = node.attributes.get_string("activation", "")
    numbers = node.attributes.get_floats("activation_params", [])
    zero = op.constant_like(y, 0)
    if name == "Relu":
        return op.Where(op.Greater(y, 0.0), dy, zero)
    if name == "LeakyRelu":
        return op.Where(op.Greater(y, 0.0), dy, op.Mul(dy, numbers[0]))
    if name == "Tanh":
        return op.Mul(dy, op.Sub(op.constant_like(y, 1), op.Mul(y, y)))
    if name == "Sigmoid":
        return op.Mul(dy, op.Mul(y, op.Sub(op.constant_like(y, 1), y)))
    if name in ("Clip", "HardSigmoid"):
        low, high = numbers if name == "Clip" else (0.0, 1.0)
        slope = dy if name == "Clip" else op.Mul(dy, numbers[0])
        return op.Where(op.And(op.Greater(y, low), op.Less(y, high)), slope, zero)
    if name:
        raise GradientError(
            f"the gradient of the activation {name!r} is not known",
            where=describe(node),
            fix="take the fusion apart: start from the model before it was optimized",
        )
    return dy


def _conv_gradients(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> tuple[ir.Value | None, ...]:
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    group = node.attributes.get_int("group", 1)
    window = window_of(node, x, _kernel(node, w))
    if window.begins is not None:
        dx = _data_gradient(op, dy, w, x, window, group) if op.wants(x) else None
        dw = _weight_gradient(op, x, dy, w, window, group) if op.wants(w) else None
    else:
        begins, ends = same_pads_at_run_time(op, x, spatial_of(op, w), window)
        padded = pad_spatial(op, x, begins, ends)
        dx = _data_gradient(op, dy, w, padded, window.valid(), group)
        dx = op.Slice(dx, begins, op.Add(begins, spatial_of(op, x)), window.axes)
        dw = _weight_gradient(op, padded, dy, w, window.valid(), group)
    return dx, dw, _bias_gradient(op, dy)


@gradient("ConvTranspose", note="output_padding, output_shape, auto_pad and groups included")
def conv_transpose(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = W^T * x + b:  dx = convolution of dy by W;  dW = correlation of dy with x;  db = sum of dy"""
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    group = node.attributes.get_int("group", 1)
    window, padded, exact = _transposed_window(op, node, x, w, dy)
    dx = op.Conv(padded, w, pads=window.pads, strides=window.strides, dilations=window.dilations, group=group)
    dx = dx if exact else fit_spatial(op, dx, x)
    dw = _weight_gradient(op, padded, x, w, window, group) if op.wants(w) else None
    return dx, dw, _bias_gradient(op, dy)


def _transposed_window(
    op: Builder, node: ir.Node, x: ir.Value, w: ir.Value, dy: ir.Value
) -> tuple[Window, ir.Value, bool]:
    """The window over dy; dy, padded if pads are known at run time only; whether there is a window per element of x."""
    window = replace(window_of(node, x, _kernel(node, w)), begins=None, ends=None)
    n = len(window.strides)
    extra = node.attributes.get_ints("output_padding", [0] * n)
    output_shape = list(node.attributes.get_ints("output_shape", []))[-n:]
    if not output_shape and window.auto_pad in ("NOTSET", "VALID"):
        pads = node.attributes.get_ints("pads", [0] * 2 * n) if window.auto_pad == "NOTSET" else [0] * 2 * n
        window = replace(window, begins=tuple(pads[:n]), ends=tuple(pads[n:]))
        return window, dy, all(a < b for a, b in zip(extra, window.strides, strict=True))
    kernel, sizes = window.kernel, spatial(x)
    if kernel is None or (output_shape and sizes is None):
        total = _total_padding(op, spatial_of(op, x), spatial_of(op, w), window, extra, output_shape)
        small = op.Div(total, [2])
        large = op.Sub(total, small)
        begins, ends = (small, large) if window.auto_pad == "SAME_UPPER" else (large, small)
        return window.valid(), pad_spatial(op, dy, begins, ends), False
    rest = [-stride for stride in window.strides]
    if output_shape and sizes is not None:
        rest = [
            stride * (size - 1) - out for stride, size, out in zip(window.strides, sizes, output_shape, strict=True)
        ]
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, window.dilations, strict=True)]
    totals = [max(extent + more + a, 0) for extent, more, a in zip(extents, extra, rest, strict=True)]
    smalls, larges = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    upper = window.auto_pad == "SAME_UPPER"
    return replace(window, begins=smalls if upper else larges, ends=larges if upper else smalls), dy, False


def _total_padding(
    op: Builder, sizes: ir.Value, kernel: ir.Value, window: Window, extra: Sequence[int], output_shape: Sequence[int]
) -> ir.Value:
    """int64[n]: stride (i - 1) + output_padding + extent - output size, at least 0."""
    strides = list(window.strides)
    outputs = op.constant(list(output_shape)) if output_shape else op.Mul(sizes, strides)
    extents = op.Add(op.Mul(op.Sub(kernel, [1]), list(window.dilations)), [more + 1 for more in extra])
    return op.Max(op.Sub(op.Add(op.Mul(op.Sub(sizes, [1]), strides), extents), outputs), [0])


def _kernel(node: ir.Node, w: ir.Value) -> list[int] | None:
    known = spatial(w)
    return known if known is not None else list(node.attributes.get_ints("kernel_shape", [])) or None


def _bias_gradient(op: Builder, dy: ir.Value) -> ir.Value:
    return op.ReduceSum(dy, [0, *range(2, rank(dy))], keepdims=0)


def _data_gradient(op: Builder, dy: ir.Value, w: ir.Value, x: ir.Value, window: Window, group: int) -> ir.Value:
    """The gradient of a convolution's input, of the spatial size of x."""
    if _is_matrix_product(w, dy, window, group) and spatial(x) == spatial(dy):
        return _pointwise_data_gradient(op, dy, w)
    transposed = partial(op.ConvTranspose, dy, w, strides=window.strides, dilations=window.dilations, group=group)
    sizes, counts = spatial(x), spatial(dy)
    if all(stride == 1 for stride in window.strides):
        return transposed(pads=window.pads)
    if sizes is None or counts is None or window.kernel is None:
        # the end is left uncropped: how far x goes there is known at run time only
        return fit_spatial(op, transposed(pads=[*(window.begins or ()), *[0] * len(window.axes)]), x)
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(window.kernel, window.dilations, strict=True)]
    pads = [a + b for a, b in zip(window.begins or (), window.ends or (), strict=True)]
    rest = [
        length + pad - extent - stride * (count - 1)
        for length, pad, extent, stride, count in zip(sizes, pads, extents, window.strides, counts, strict=True)
    ]
    return transposed(pads=window.pads, output_padding=rest if any(rest) else None)


def _is_matrix_product(w: ir.Value, dy: ir.Value, window: Window, group: int) -> bool:
    """Whether the convolution is pointwise and has few positions per image."""
    counts = spatial(dy)
    few = counts is not None and 0 < prod(counts) < _FEW_POSITIONS
    plain = group == 1 and not any(window.pads) and all(stride == 1 for stride in window.strides)
    return few and plain and spatial(w) == [1] * len(window.strides) and w.shape is not None and w.shape.is_static()


def _pointwise_data_gradient(op: Builder, dy: ir.Value, w: ir.Value) -> ir.Value:
    assert w.shape is not None and dy.shape is not None
    columns, rows = int(w.shape[0]), int(w.shape[1])  # type: ignore[arg-type]
    last = rank(dy) - 1
    positions = op.Reshape(op.Transpose(dy, perm=[0, *range(2, last + 1), 1]), [-1, columns])
    product = op.MatMul(positions, op.Reshape(w, [columns, rows]))
    shape = op.Concat(op.Shape(dy, start=0, end=1), [*(spatial(dy) or ()), rows], axis=0)
    return op.Transpose(op.Reshape(product, shape), perm=[0, last, *range(1, last)])


def _weight_gradient(op: Builder, x: ir.Value, dy: ir.Value, w: ir.Value, window: Window, group: int) -> ir.Value:
    """dW[m, c, tap] = sum over images and positions of dy[m] x[c, stride position + dilation tap], as a function."""
    if w.shape is None or not w.shape.is_static() or prod(spatial(w) or ()) > _MOST_TAPS:
        (result,) = op.call("ConvWeightGrad", partial(_by_convolution, window=window, group=group), x, dy, w)
        return result
    shape = [int(dim) for dim in w.shape]  # type: ignore[arg-type]
    body: Callable[..., ir.Value]
    if group > 1 and shape[1] == 1 and shape[0] == group:
        body = _depthwise
    elif group == 1 and _prefers_channels_last(x, dy, shape):
        body = _by_slices_channels_last
    else:
        body = partial(_by_slices, group=group)
    window = replace(window, kernel=tuple(shape[2:]))
    (result,) = op.call("ConvWeightGrad", partial(body, shape=shape, window=window), x, dy)
    return result


def _prefers_channels_last(x: ir.Value, dy: ir.Value, shape: list[int]) -> bool:
    """Whether transposing x and dy costs less than to sum one weight gradient per image."""
    sizes, counts = spatial(x), spatial(dy)
    if sizes is None or counts is None:
        return False
    return prod(shape) > shape[1] * prod(sizes) + shape[0] * prod(counts)


def _by_slices(op: Builder, x: ir.Value, dy: ir.Value, *, shape: list[int], window: Window, group: int) -> ir.Value:
    """One batched product per some kernel positions: [N, (g,) taps c, P] [N, (g,) P, m], summed over the images."""
    m, c = shape[0] // group, shape[1]
    padded = pad_spatial(op, x, window.begins or (), window.ends or ())
    where = spatial(dy) or spatial_of(op, dy)
    lead = [group] if group > 1 else []
    rows = partial(_flat, op, counts=spatial(dy), like=dy)
    right = op.Transpose(rows(dy, [*lead, m]), perm=[0, 2, 1] if group == 1 else [0, 1, 3, 2])
    together = max(1, _ROWS // c)
    taps = window.taps()
    products = []
    for first in range(0, len(taps), together):
        parts = [tap_slice(op, padded, tap, window, where) for tap in taps[first : first + together]]
        if len(parts) > 1 and group > 1:
            parts = [rows(part, [group, c]) for part in parts]
        left = op.Concat(*parts, axis=1 + len(lead)) if len(parts) > 1 else parts[0]
        left = rows(left, [*lead, len(parts) * c])
        products.append(op.ReduceSum(op.MatMul(left, right), [0], keepdims=0))
    total = op.Concat(*products, axis=len(lead)) if len(products) > 1 else products[0]
    total = op.Reshape(total, [group, len(taps), c, m])
    return op.Reshape(op.Transpose(total, perm=[0, 3, 2, 1]), shape)


def _flat(op: Builder, value: ir.Value, channels: list[int], *, counts: list[int] | None, like: ir.Value) -> ir.Value:
    """`value` as [N, channels..., positions]."""
    if counts is not None and 0 not in counts:
        return op.Reshape(value, [0, *channels, prod(counts)])
    positions = op.ReduceProd(spatial_of(op, like), [0], keepdims=1)
    return op.Reshape(value, op.Concat(op.Shape(value, start=0, end=1), channels, positions, axis=0), allowzero=1)


def _by_slices_channels_last(op: Builder, x: ir.Value, dy: ir.Value, *, shape: list[int], window: Window) -> ir.Value:
    """One product per kernel position over images and positions at once: [m, N P] [N P, c]."""
    m, c = shape[:2]
    xs, rows = _padded_channels_last(op, x, window), op.Reshape(_channels_last(op, dy), [-1, m])
    counts = spatial(dy)
    assert counts is not None
    parts = []
    for tap in window.taps():
        seen = op.Reshape(tap_slice(op, xs, tap, window, counts, first=1), [-1, c])
        parts.append(op.Gemm(rows, seen, transA=1))
    if len(parts) == 1:
        return op.Reshape(parts[0], shape)
    total = op.Concat(*[op.Unsqueeze(part, [0]) for part in parts], axis=0)
    return op.Reshape(op.Transpose(total, perm=[1, 2, 0]), shape)


def _depthwise(op: Builder, x: ir.Value, dy: ir.Value, *, shape: list[int], window: Window) -> ir.Value:
    """Each channel by itself: elementwise products, summed over images and positions."""
    counts = spatial(dy) or spatial_of(op, dy)
    if shape[0] >= _ROWS:
        first, padded, rows = 1, _padded_channels_last(op, x, window), _channels_last(op, dy)
    else:
        first, padded, rows = 2, pad_spatial(op, x, window.begins or (), window.ends or ()), dy
    axes = [0, *range(first, first + len(window.strides))]
    sums = [
        op.ReduceSum(op.Mul(tap_slice(op, padded, tap, window, counts, first), rows), axes, keepdims=0)
        for tap in window.taps()
    ]
    total = op.Concat(*[op.Unsqueeze(part, [1]) for part in sums], axis=1)
    return op.Reshape(total, shape)


def _channels_last(op: Builder, value: ir.Value) -> ir.Value:
    return op.Transpose(value, perm=[0, *range(2, rank(value)), 1])


def _padded_channels_last(op: Builder, x: ir.Value, window: Window) -> ir.Value:
    xs = _channels_last(op, x)
    if not any(window.pads):
        return xs
    return op.Pad(xs, [0, *(window.begins or ()), 0, 0, *(window.ends or ()), 0])


def _by_convolution(op: Builder, x: ir.Value, dy: ir.Value, w: ir.Value, *, window: Window, group: int) -> ir.Value:
    """For a kernel of run-time size or a large one: a convolution, images for channels, strides for dilations."""
    n = rank(x)
    shape = op.Shape(x)
    split = op.Concat(op.Slice(shape, [0], [1]), [group, -1], op.Slice(shape, [2], [n]), axis=0)
    swapped = op.Transpose(op.Reshape(x, split), perm=[2, 1, 0, *range(3, n + 1)])
    merged = op.Concat(op.Shape(swapped, start=0, end=1), [-1], op.Slice(shape, [2], [n]), axis=0)
    swapped = op.Reshape(swapped, merged)
    kernel = op.Transpose(dy, perm=[1, 0, *range(2, n)])
    result = op.Conv(swapped, kernel, pads=window.pads, strides=window.dilations, dilations=window.strides, group=group)
    cut = op.Slice(result, [0] * (n - 2), op.Shape(w, start=2), list(range(2, n)))
    return op.Transpose(cut, perm=[1, 0, *range(2, n)])
