"""Products of matrices in com.microsoft: transposed, scaled, activated, quantized."""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

CONTRIB = "com.microsoft"


@gradient("FusedMatMul", domain=CONTRIB)
def fused_matmul(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = alpha a b, each maybe transposed in its matrices, or with the first of its batch axes moved to the rows"""
    known = node.attributes
    alpha = known.get_float("alpha", 1.0)

    def arranged(x: ir.Value, side: str) -> ir.Value:
        size, order = rank(x), list(range(rank(x)))
        if size < 2:
            return x
        if known.get_int(f"transBatch{side}", 0):
            order = [*order[1:-1], order[0], order[-1]]
        if known.get_int(f"trans{side}", 0):
            order = [*order[:-2], order[-1], order[-2]]
        return op.Transpose(x, perm=order) if order != sorted(order) else x

    def forward(op: Builder, a: ir.Value, b: ir.Value) -> ir.Value:
        y = op.MatMul(arranged(a, "A"), arranged(b, "B"))
        return y if alpha == 1 else op.Mul(y, op.constant_like(y, alpha))

    return through(op, node, [dy], forward)


@gradient("FusedGemm", domain=CONTRIB)
def fused_gemm(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = activation(alpha a b + beta c)"""
    known = node.attributes
    activation = known.get_string("activation", "")
    parameters = [known.get_float(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]

    def forward(op: Builder, a: ir.Value, b: ir.Value, c: ir.Value | None = None) -> ir.Value:
        shapes = {name: known.get_int(name, 0) for name in ("transA", "transB")}
        factors = {name: known.get_float(name, 1.0) for name in ("alpha", "beta")}
        y = op.Gemm(a, b, c, **shapes, **factors)
        if not activation:
            return y
        alpha, beta, gamma = parameters
        return op.node(activation, y, alpha=alpha, beta=beta, gamma=gamma)[0]

    return through(op, node, [dy], forward)


@gradient("MatMulNBits", domain=CONTRIB)
def matmul_nbits(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a w^T + bias, w packed in blocks of 2, 4 or 8 bits:  da = dy w; w itself is frozen"""

    def forward(op: Builder, a: ir.Value, *others: ir.Value | None) -> ir.Value:
        packed, scales, zeros, groups, bias = [*others, None, None, None][:5]
        assert packed is not None and scales is not None
        y = op.MatMul(a, op.Transpose(_unpacked(op, node, packed, scales, zeros, groups), perm=[1, 0]))
        return y if bias is None else op.Add(y, bias)

    return through(op, node, [dy], forward)


def _unpacked(
    op: Builder, node: ir.Node, packed: ir.Value, scales: ir.Value, zeros: ir.Value | None, groups: ir.Value | None
) -> ir.Value:
    """w[N, K] = (integers - zero points) scales. groups: the block whose scale and zero point each column has."""
    known = node.attributes
    rows, columns = known.get_int("N"), known.get_int("K")
    block, bits = known.get_int("block_size"), known.get_int("bits", 4)
    if 8 % bits:
        raise GradientError(
            f"MatMulNBits with {bits} bits has no gradient", where=describe(node), fix="use 2, 4 or 8 bits"
        )
    blocks = -(-columns // block)
    integers = _split_bits(op, op.Reshape(packed, [rows, blocks, -1]), bits)
    assert scales.dtype is not None
    values = op.Cast(op.Slice(integers, [0], [block], [2]), to=scales.dtype)
    scale, zero = op.Reshape(scales, [rows, blocks]), _zero_points(op, scales, zeros, bits, (rows, blocks))
    if groups is None:
        weight = op.Mul(op.Sub(values, op.Unsqueeze(zero, [2])), op.Unsqueeze(scale, [2]))
        return op.Slice(op.Reshape(weight, [rows, blocks * block]), [0], [columns], [1])
    values, groups = op.Slice(op.Reshape(values, [rows, -1]), [0], [columns], [1]), op.Slice(groups, [0], [columns])
    return op.Mul(op.Sub(values, op.Gather(zero, groups, axis=1)), op.Gather(scale, groups, axis=1))


def _zero_points(op: Builder, scales: ir.Value, zeros: ir.Value | None, bits: int, shape: tuple[int, int]) -> ir.Value:
    """[N, blocks], in the type of the scales; the middle of the range where none are given."""
    if zeros is None:
        return op.Expand(op.constant_like(scales, 2 ** (bits - 1)), list(shape))
    if zeros.dtype != ir.DataType.UINT8:
        return op.Reshape(zeros, list(shape))
    split = _split_bits(op, op.Reshape(zeros, [shape[0], -1]), bits)
    return op.Cast(op.Slice(split, [0], [shape[1]], [1]), to=scales.dtype)


def _split_bits(op: Builder, packed: ir.Value, bits: int) -> ir.Value:
    """The 8 / bits integers in each byte, lowest first, along the last axis."""
    if bits == 8:
        return packed
    shifts, mask = np.arange(0, 8, bits, dtype=np.uint8), np.array(2**bits - 1, np.uint8)
    last = rank(packed)
    parts = op.BitwiseAnd(op.BitShift(op.Unsqueeze(packed, [last]), shifts, direction="RIGHT"), mask)
    return op.Reshape(parts, [0] * (last - 1) + [-1])


@gradient("DynamicQuantizeMatMul", domain=CONTRIB, note="straight through the quantization of A")
def dynamic_quantize_matmul(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a w + bias, a rounded on the fly (which counts as the identity), w = (integers - zero point) scale"""

    def forward(
        op: Builder,
        a: ir.Value,
        integers: ir.Value,
        scale: ir.Value,
        zero: ir.Value | None = None,
        bias: ir.Value | None = None,
    ) -> ir.Value:
        weight = op.Cast(integers, to=scale.dtype)
        if zero is not None:
            weight = op.Sub(weight, op.Cast(zero, to=scale.dtype))
        y = op.MatMul(a, op.Mul(weight, scale))
        return y if bias is None else op.Add(y, bias)

    return through(op, node, [dy], forward)
