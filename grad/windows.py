"""Sliding windows over the spatial axes of [N, C, spatial...] tensors: what convolutions and poolings share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

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
