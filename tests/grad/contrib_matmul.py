"""Products of com.microsoft for onnx's reference evaluator."""

import numpy as np
from onnx.reference.op_run import OpRun


def _arranged(x, across, across_batch):
    if across_batch:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if across and x.ndim > 1 else x


class FusedMatMul(OpRun):
    op_domain = "com.microsoft"

    def _run(self, a, b, alpha=None, transA=None, transB=None, transBatchA=None, transBatchB=None):
        y = _arranged(a, transA, transBatchA) @ _arranged(b, transB, transBatchB)
        return (np.asarray(y * a.dtype.type(1 if alpha is None else alpha)),)


class FusedGemm(OpRun):
    op_domain = "com.microsoft"

    def _run(
        self, a, b, c=None, activation=None, activation_alpha=None, alpha=None, beta=None, transA=None, transB=None
    ):
        y = _arranged(a, transA, False) @ _arranged(b, transB, False) * a.dtype.type(1 if alpha is None else alpha)
        y = y if c is None else y + c * a.dtype.type(1 if beta is None else beta)
        slope = 0.0 if activation_alpha is None else activation_alpha
        return (np.where(y > 0, y, y.dtype.type(slope) * y) if activation else y,)  # Relu or LeakyRelu


class MatMulNBits(OpRun):
    op_domain = "com.microsoft"

    def _run(self, a, packed, scales, zeros=None, order=None, bias=None, K=None, N=None, bits=None, block_size=None):
        blocks = -(-K // block_size)
        split = lambda v: (v[..., None] >> np.arange(0, 8, bits, dtype="u1") & 2**bits - 1).reshape(*v.shape[:-1], -1)  # noqa: E731
        values = split(packed.reshape(N, blocks, -1))[..., :block_size].astype(a.dtype)
        if zeros is None:
            zero = a.dtype.type(2 ** (bits - 1))
        else:
            zero = split(zeros.reshape(N, -1))[:, :blocks, None].astype(a.dtype) if zeros.dtype == np.uint8 else zeros
            zero = zero.reshape(N, blocks, 1)
        place = np.arange(blocks * block_size).reshape(blocks, block_size) // block_size
        if order is not None:
            place = np.pad(order[:K], (0, blocks * block_size - K)).reshape(blocks, block_size)
        zero, scale = np.broadcast_to(zero, (N, blocks, 1))[..., 0], scales.reshape(N, blocks)
        weight = ((values - zero[:, place]) * scale[:, place]).reshape(N, -1)[:, :K]
        y = a @ weight.T
        return (y if bias is None else y + bias,)


class DynamicQuantizeMatMul(OpRun):
    """Without the rounding of a: what its gradient is the gradient of."""

    op_domain = "com.microsoft"

    def _run(self, a, integers, scale, zero=None, bias=None):
        weight = integers.astype(a.dtype) - (0 if zero is None else zero.astype(a.dtype))
        y = a @ (weight * scale)
        return (y if bias is None else y + bias,)


PRODUCTS = [FusedMatMul, FusedGemm, MatMulNBits, DynamicQuantizeMatMul]
