"""Sliding windows over the spatial axes of [N, C, spatial...] tensors: what convolutions and poolings share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank


@dataclass(frozen=True)
class Window:
    """How windows lie on n spatial axes. kernel: None where it is known at run time only.

    begins, ends: padding per axis; None for auto_pad SAME_UPPER or SAME_LOWER where it depends on run-time dimensions.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    kernel: tuple[int, ...] | None
    begins: tuple[int, ...] | None
    ends: tuple[int, ...] | None
    auto_pad: str = "NOTSET"

    @property
    def axes(self) -> list[int]:
        """The spatial axes of the tensor."""
        return list(range(2, 2 + len(self.strides)))

    @property
    def pads(self) -> list[int]:
        """The `pads` attribute: all begins, then all ends."""
        assert self.begins is not None and self.ends is not None
        return [*self.begins, *self.ends]

    def taps(self) -> list[tuple[int, ...]]:
        """The positions inside the kernel, in row-major order."""
        assert self.kernel is not None
        return list(product(*(range(size) for size in self.kernel)))

    def valid(self) -> "Window":
        """The same windows without padding."""
        zeros = (0,) * len(self.strides)
        return replace(self, begins=zeros, ends=zeros, auto_pad="NOTSET")


def window_of(node: ir.Node, x: ir.Value, kernel: Sequence[int] | None) -> Window:
    """The window of a convolution or pooling node over `x`; `kernel`: its spatial size, where it is known."""
    n = rank(x) - 2
    strides = tuple(node.attributes.get_ints("strides", [1] * n))
    dilations = tuple(node.attributes.get_ints("dilations", [1] * n))
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET")
    pads = list(node.attributes.get_ints("pads", [0] * 2 * n)) if auto_pad == "NOTSET" else [0] * 2 * n
    kept = None if kernel is None else tuple(kernel)
    window = Window(strides, dilations, kept, tuple(pads[:n]), tuple(pads[n:]), auto_pad)
    return _same(window, x) if auto_pad in ("SAME_UPPER", "SAME_LOWER") else window


def _same(window: Window, x: ir.Value) -> Window:
    """SAME padding, where it does not depend on run-time dimensions."""
    assert x.shape is not None
    begins, ends = [], []
    sizes = window.kernel if window.kernel is not None else (None,) * len(window.strides)
    for dim, size, stride, dilation in zip(list(x.shape)[2:], sizes, window.strides, window.dilations, strict=True):
        if size is None or (stride > 1 and not isinstance(dim, int)):
            return replace(window, begins=None, ends=None)
        extent = (size - 1) * dilation + 1
        length = dim if isinstance(dim, int) else 1
        total = max((-(-length // stride) - 1) * stride + extent - length, 0) if stride > 1 else extent - 1
        small, large = total // 2, total - total // 2
        begins.append(small if window.auto_pad == "SAME_UPPER" else large)
        ends.append(large if window.auto_pad == "SAME_UPPER" else small)
    return replace(window, begins=tuple(begins), ends=tuple(ends))


def spatial(value: ir.Value) -> list[int] | None:
    """The spatial dimensions of `value` if all are static."""
    assert value.shape is not None
    dims = list(value.shape)[2:]
    known = [dim for dim in dims if isinstance(dim, int)]
    return known if len(known) == len(dims) else None


def spatial_of(op: Builder, value: ir.Value) -> ir.Value:
    """The spatial dimensions of `value` as int64[n]: a constant where they are static."""
    known = spatial(value)
    return op.Shape(value, start=2) if known is None else op.constant(known)


def same_pads_at_run_time(op: Builder, x: ir.Value, kernel: ir.Value, window: Window) -> tuple[ir.Value, ir.Value]:
    """(begins, ends), int64[n], of SAME padding; `kernel`: int64[n]."""
    dims, strides = spatial_of(op, x), list(window.strides)
    extent = op.Add(op.Mul(op.Sub(kernel, [1]), list(window.dilations)), [1])
    steps = op.Div(op.Add(dims, [stride - 1 for stride in strides]), strides)
    total = op.Max(op.Sub(op.Add(op.Mul(op.Sub(steps, [1]), strides), extent), dims), [0])
    small = op.Div(total, [2])
    large = op.Sub(total, small)
    return (small, large) if window.auto_pad == "SAME_UPPER" else (large, small)


def pad_spatial(
    op: Builder, x: ir.Value, begins: ir.Value | Sequence[int], ends: ir.Value | Sequence[int], value: float = 0.0
) -> ir.Value:
    """`x` padded with `value` along its spatial axes; begins, ends: int64[n] or lists."""
    filler = None if value == 0.0 else op.constant_like(x, value)
    if isinstance(begins, ir.Value) or isinstance(ends, ir.Value):
        return op.Pad(x, op.Concat([0, 0], _vector(op, begins), [0, 0], _vector(op, ends), axis=0), filler)
    if not any(begins) and not any(ends):
        return x
    return op.Pad(x, [0, 0, *begins, 0, 0, *ends], filler)


def _vector(op: Builder, sizes: ir.Value | Sequence[int]) -> ir.Value:
    return sizes if isinstance(sizes, ir.Value) else op.constant(list(sizes))


def fit_spatial(op: Builder, value: ir.Value, like: ir.Value) -> ir.Value:
    """`value` cut or padded with zeros at the ends of its spatial axes to the spatial size of `like`."""
    want, got = spatial(like), spatial(value)
    if want is not None and want == got:
        return value
    axes = list(range(2, rank(value)))
    zeros = [0] * len(axes)
    if want is not None and got is not None:
        if any(a < b for a, b in zip(want, got, strict=True)):
            value = op.Slice(value, zeros, want, axes)
        return pad_spatial(op, value, zeros, [max(a - b, 0) for a, b in zip(want, got, strict=True)])
    cut = op.Slice(value, zeros, spatial_of(op, like), axes)
    return pad_spatial(op, cut, zeros, op.Sub(spatial_of(op, like), op.Shape(cut, start=2)))


def tap_slice(
    op: Builder, padded: ir.Value, tap: Sequence[int], window: Window, counts: Sequence[int] | ir.Value, first: int = 2
) -> ir.Value:
    """What the kernel position `tap` sees in `padded`: one element for each window.

    counts: windows per axis (int64[n]). first: the first spatial axis of `padded`.
    """
    axes = list(range(first, first + len(tap)))
    starts = [i * dilation for i, dilation in zip(tap, window.dilations, strict=True)]
    steps = None if all(stride == 1 for stride in window.strides) else list(window.strides)
    if isinstance(counts, ir.Value):
        beyond = [start - stride + 1 for start, stride in zip(starts, window.strides, strict=True)]
        ends = op.Add(op.Mul(counts, list(window.strides)) if steps else counts, beyond)
        return op.Slice(padded, starts, ends, axes, steps)
    last = [start + (n - 1) * stride + 1 for start, n, stride in zip(starts, counts, window.strides, strict=True)]
    assert padded.shape is not None
    if steps is None and not any(starts) and last == [padded.shape[axis] for axis in axes]:
        return padded
    return op.Slice(padded, starts, last, axes, steps)


Sizes = list[int] | ir.Value
"""One number per spatial axis: known, or int64[n] at run time."""


def frame(op: Builder, x: ir.Value, y: ir.Value, window: Window) -> tuple[Sizes, Sizes]:
    """The padding (begins, ends) of x that the windows of y reach into; less than `pads` where the last ones do not."""
    assert window.kernel is not None
    sizes, counts = spatial(x), spatial(y)
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(window.kernel, window.dilations, strict=True)]
    if window.begins is not None and sizes is not None and counts is not None:
        reach = [(n - 1) * stride + extent for n, stride, extent in zip(counts, window.strides, extents, strict=True)]
        ends = [max(r - i - begin, 0) for r, i, begin in zip(reach, sizes, window.begins, strict=True)]
        return list(window.begins), ends
    begins: Sizes
    if window.begins is None:
        begins, _ = same_pads_at_run_time(op, x, op.constant(list(window.kernel)), window)
    else:
        begins = list(window.begins)
    beyond = [extent - stride for extent, stride in zip(extents, window.strides, strict=True)]
    needed = op.Add(op.Mul(spatial_of(op, y), list(window.strides)), beyond)
    return begins, op.Max(op.Sub(op.Sub(needed, spatial_of(op, x)), begins), [0])


def crop(op: Builder, padded: ir.Value, begins: Sizes, x: ir.Value) -> ir.Value:
    """The part of `padded` that lies on x; zeros where it ends before x does."""
    axes = list(range(2, rank(padded)))
    if isinstance(begins, list) and not any(begins):
        return fit_spatial(op, padded, x)
    return fit_spatial(op, op.Slice(padded, begins, [2**62] * len(axes), axes), x)


def merge_axes(op: Builder, value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """`value` reshaped: each group of neighbouring axes becomes one axis; an empty group an axis of size 1."""
    assert value.shape is not None
    shape: list[int | None] = []
    for group in groups:
        dims = [value.shape[axis] for axis in group]
        known = [dim for dim in dims if isinstance(dim, int)]
        shape.append(prod(known) if len(known) == len(dims) else None)
    if (
        0 not in shape
        and shape.count(None) <= 1
        and all(len(g) == 1 and g[0] == i for i, g in enumerate(groups) if shape[i] is None)
    ):
        return op.Reshape(value, [0 if size is None else size for size in shape])
    parts = []
    for group, size in zip(groups, shape, strict=True):
        if size is not None:
            parts.append(op.constant([size]))
            continue
        dims_of = op.Shape(value, start=group[0], end=group[-1] + 1)
        parts.append(dims_of if len(group) == 1 else op.ReduceProd(dims_of, [0], keepdims=1))
    return op.Reshape(value, op.Concat(*parts, axis=0), allowzero=1)


def fold(op: Builder, y: ir.Value, x: ir.Value, window: Window) -> ir.Value:
    """Each element of y added to all elements of x in its window: [N, C, spatial of y] -> [N, C, spatial of x]."""
    assert window.kernel is not None and y.dtype is not None
    begins, _ = frame(op, x, y, window)
    spots = [[axis] for axis in window.axes]
    ones = op.constant(np.ones((1, 1, *window.kernel), y.dtype.numpy()))
    pads = [*begins, *[0] * len(begins)] if isinstance(begins, list) else None
    flat = merge_axes(op, y, [[0, 1], [], *spots])
    full = op.ConvTranspose(flat, ones, strides=window.strides, dilations=window.dilations, pads=pads)
    full = crop(op, full, [0] * len(begins) if isinstance(begins, list) else begins, x)
    return op.Reshape(full, op.shape_of(x), allowzero=1)
