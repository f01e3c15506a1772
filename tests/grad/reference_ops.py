"""Forward operators that onnx's reference evaluator computes wrongly or too slowly, mended for the checks."""

from collections.abc import Callable
from itertools import product
from types import EllipsisType

import numpy as np
import onnx.reference.ops.op_conv_transpose as reference_conv_transpose
import onnx.reference.ops.op_grid_sample as reference_grid_sample
import onnx.reference.ops.op_lp_pool as reference_lp_pool
import onnx.reference.ops.op_max_pool as reference_max_pool
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import _conv_implementation

from onnxgrad.engine.runtime.host_conv import ConvTranspose

Index = tuple[EllipsisType | slice, ...]


reference_conv_transpose.ConvTranspose._run = ConvTranspose._run  # type: ignore[assignment, method-assign]


def _windows(x, kernel, auto_pad, ceil_mode, dilations, pads, strides, filler):
    """What each kernel position sees, [positions, N, C, windows...], and the flat index of each element seen."""
    n = x.ndim - 2
    strides, dilations, pads = strides or [1] * n, dilations or [1] * n, list(pads or [0] * 2 * n)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = x.shape[2:]
        totals = [max((-(-i // s) - 1) * s + e - i, 0) for i, s, e in zip(sizes, strides, extents, strict=True)]
        first = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in totals]
        pads = first + [t - f for t, f in zip(totals, first, strict=True)]
    counts = []
    for i, s, e, a, z in zip(x.shape[2:], strides, extents, pads[:n], pads[n:], strict=True):
        count = (-(-(i + a + z - e) // s) if ceil_mode else (i + a + z - e) // s) + 1
        counts.append(count - (ceil_mode and (count - 1) * s >= i + a))
    room = [(c - 1) * s + e for c, s, e in zip(counts, strides, extents, strict=True)]
    beyond = [max(r - i - a, 0) for r, i, a in zip(room, x.shape[2:], pads[:n], strict=True)]
    margins = [(0, 0), (0, 0), *zip(pads[:n], beyond, strict=True)]
    padded = np.pad(x, margins, constant_values=filler)
    indices = np.pad(np.arange(x.size).reshape(x.shape), margins)
    seen = []
    for tap in product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        steps = zip(starts, strides, counts, strict=True)
        at: Index = (..., *(slice(t, t + s * (c - 1) + 1, s) for t, s, c in steps))
        seen.append((padded[at], indices[at]))
    return np.stack([values for values, _ in seen]), np.stack([where for _, where in seen])


class MaxPool(OpRun):
    """Also 3-D with uneven pads and SAME_LOWER; indices count over the whole tensor, as in onnxruntime."""

    def _run(
        self,
        x,
        auto_pad=None,
        ceil_mode=None,
        dilations=None,
        kernel_shape=None,
        pads=None,
        storage_order=None,
        strides=None,
    ):
        values, where = _windows(x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides, -np.inf)
        first = values.argmax(axis=0)[None]
        y = np.take_along_axis(values, first, 0)[0]
        return (y, np.take_along_axis(where, first, 0)[0])[: len(self.onnx_node.output)]


class LpPool(OpRun):
    """Also ceil_mode with windows that reach over the end."""

    def _run(
        self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, p=None, pads=None, strides=None
    ):
        values, _ = _windows(x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides, 0)
        return ((np.abs(values) ** p).sum(axis=0) ** (1 / p),)


class GlobalLpPool(OpRun):
    """Missing in the evaluator."""

    def _run(self, x, p=None):
        return ((np.abs(x) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),)


class AffineGrid(OpRun):
    """In the dtype of theta: the evaluator's own gives float32."""

    def _run(self, theta, sizes, align_corners=None):
        lengths = [int(length) for length in sizes[2:]]
        n = len(lengths)
        axes = [np.linspace(-1, 1, k) if align_corners else (2 * np.arange(k) + 1) / k - 1 for k in lengths]
        at = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(lengths)], axis=-1)
        return (np.einsum("nij,...j->n...i", theta, at.astype(theta.dtype)).reshape(-1, *lengths, n),)


class MaxRoiPool(OpRun):
    """Missing in the evaluator."""

    def _run(self, x, rois, pooled_shape=None, spatial_scale=None):
        y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
        for r, (batch, *corners) in enumerate(rois):
            left, top, right, bottom = (int(np.floor(corner * spatial_scale + 0.5)) for corner in corners)
            rows = _bins(top, bottom, x.shape[2], pooled_shape[0])
            columns = _bins(left, right, x.shape[3], pooled_shape[1])
            for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
                part = x[int(batch), :, row, column]
                if part.size:
                    y[r, :, i, j] = part.max(axis=(1, 2))
        return (y,)


def _bins(first, last, length, count):
    step = max(last - first + 1, 1) / count
    starts = [int(np.floor(k * step)) + first for k in range(count)]
    ends = [int(np.ceil((k + 1) * step)) + first for k in range(count)]
    return [slice(min(max(a, 0), length), min(max(b, 0), length)) for a, b in zip(starts, ends, strict=True)]


_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "Relu": lambda y: np.maximum(y, 0),
    "Tanh": np.tanh,
    "Sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "LeakyRelu": lambda y, slope: np.where(y > 0, y, slope * y),
    "Clip": np.clip,
    "HardSigmoid": lambda y, slope, shift: np.clip(slope * y + shift, 0, 1),
}


class FusedConv(OpRun):
    """Conv, a sum and an activation in one."""

    op_domain = "com.microsoft"

    def _run(
        self,
        x,
        w,
        b=None,
        z=None,
        activation=None,
        activation_params=None,
        auto_pad=None,
        dilations=None,
        group=None,
        kernel_shape=None,
        pads=None,
        strides=None,
    ):
        y = _conv_implementation(x, w, b, auto_pad or "NOTSET", dilations, group or 1, w.shape[2:], pads, strides)
        y = y if z is None else y + z
        return ((_ACTIVATIONS[activation](y, *(activation_params or ())) if activation else y).astype(x.dtype),)


OPERATORS = [GlobalLpPool, AffineGrid, MaxRoiPool, FusedConv]
# inside functions too, where the evaluator ignores operators that it is given
reference_max_pool.MaxPool._run = MaxPool._run  # type: ignore[method-assign, assignment]
reference_lp_pool.LpPool._run = LpPool._run  # type: ignore[method-assign, assignment]


def denormalize(self, n, dims, align_corners):
    """In float64: the evaluator's own rounds positions to float32, too coarse for differences."""
    return np.array([self._gs_denormalize(v, dim, align_corners) for v, dim in zip(n, dims, strict=True)], np.float64)


reference_grid_sample.GridSample._gs_denormalize_coordinates = denormalize  # type: ignore[method-assign]
