"""ConvTranspose on the host: onnx's own is wrong about groups and refuses an output_shape without auto_pad."""

from collections.abc import Sequence
from itertools import product
from types import EllipsisType

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgrad.engine.runtime.values import Array

Index = tuple[EllipsisType | slice | int, ...]


class ConvTranspose(OpRun):
    """y[strides i + dilations k - pads] += x[i] w[k], for each group of channels."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Array]:
        n = x.ndim - 2
        steps, spread = list(strides or [1] * n), list(dilations or [1] * n)
        extra = list(output_padding or [0] * n)[:n]
        axes = zip(steps, x.shape[2:], w.shape[2:], spread, strict=True)
        full = [s * (i - 1) + (k - 1) * d + 1 for s, i, k, d in axes]
        if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            sizes = list(output_shape or [s * i for s, i in zip(steps, x.shape[2:], strict=True)])[-n:]
            totals = [max(f + e - o, 0) for f, e, o in zip(full, extra, sizes, strict=True)]
            begins = [total // 2 if auto_pad == "SAME_UPPER" else total - total // 2 for total in totals]
        else:
            margins = list(pads or [0] * 2 * n)
            begins = margins[:n]
            sizes = [f + e - a - z for f, e, a, z in zip(full, extra, begins, margins[n:], strict=True)]
        room = [max(f, begin + size) for f, begin, size in zip(full, begins, sizes, strict=True)]
        y = _scattered(x, w, group or 1, steps, spread, room)
        inside: Index = (..., *(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)))
        y = y[inside].reshape(x.shape[0], -1, *sizes)
        return (y if b is None else y + b.reshape(-1, *[1] * n),)


def _scattered(
    x: Array, w: Array, group: int, strides: Sequence[int], dilations: Sequence[int], room: Sequence[int]
) -> Array:
    """[batch, group, channels, *room]: x times each tap of w, added where the tap lies."""
    split = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    weights = w.reshape(group, -1, *w.shape[1:])
    y: Array = np.zeros((x.shape[0], group, w.shape[1], *room), x.dtype)
    for tap in product(*map(range, w.shape[2:])):
        own: Index = (..., *tap)
        part = np.einsum("ngc...,gcm->ngm...", split, weights[own], optimize=True)
        places = zip(tap, dilations, strides, x.shape[2:], strict=True)
        at: Index = (..., *(slice(k * d, k * d + s * (i - 1) + 1, s) for k, d, s, i in places))
        y[at] += part
    return y
