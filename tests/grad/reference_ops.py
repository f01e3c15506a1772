"""Forward operators that onnx's reference evaluator computes wrongly or too slowly, mended for the checks."""

from itertools import product

import numpy as np
import onnx.reference.ops.op_conv_transpose as reference_conv_transpose


def conv_transpose(
    self,
    x,
    w,
    b=None,
    auto_pad=None,
    dilations=None,
    group=None,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    """Scatter x times w. The evaluator's own refuses output_shape without auto_pad, and is wrong about groups."""
    n = x.ndim - 2
    kernel, group = w.shape[2:], group or 1
    strides, dilations = strides or [1] * n, dilations or [1] * n
    extra = list(output_padding or [0] * n)[:n]
    full = [s * (i - 1) + (k - 1) * d + 1 for s, i, k, d in zip(strides, x.shape[2:], kernel, dilations, strict=True)]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = list(output_shape or [s * i for s, i in zip(strides, x.shape[2:], strict=True)])[-n:]
        totals = [max(f + e - o, 0) for f, e, o in zip(full, extra, sizes, strict=True)]
        begins = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in totals]
    else:
        pads = list(pads or [0] * 2 * n)
        begins = pads[:n]
        sizes = [f + e - a - z for f, e, a, z in zip(full, extra, begins, pads[n:], strict=True)]
    split = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    weights = w.reshape(group, -1, *w.shape[1:])
    room = [max(f, begin + size) for f, begin, size in zip(full, begins, sizes, strict=True)]
    y = np.zeros((x.shape[0], group, w.shape[1], *room), x.dtype)
    for tap in product(*map(range, kernel)):
        part = np.einsum("ngc...,gcm->ngm...", split, weights[(..., *tap)])
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        at = [slice(t, t + s * (i - 1) + 1, s) for t, s, i in zip(starts, strides, x.shape[2:], strict=True)]
        y[(..., *at)] += part
    y = y[(..., *(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)))]
    y = y.reshape(x.shape[0], -1, *sizes)
    return (y if b is None else y + b.reshape(-1, *[1] * n),)


reference_conv_transpose.ConvTranspose._run = conv_transpose  # type: ignore[method-assign]
