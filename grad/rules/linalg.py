"""Products of matrices, and determinants."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.broadcasting import sum_to
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient

no_gradient("MatMulInteger", "QLinearMatMul", reason="the operands are integers")


@gradient("MatMul", broadcasts=True)
def matmul(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a b:  da = dy b^T, db = a^T dy, with vectors as rows (a) and columns (b)"""
    a, b = node.inputs
    assert a is not None and b is not None
    if rank(a) >= 2 and rank(b) == 2:
        return _by_matrix(op, a, b, dy)
    rows = op.Unsqueeze(a, [0]) if rank(a) == 1 else a
    columns = op.Unsqueeze(b, [1]) if rank(b) == 1 else b
    if rank(a) == 1:
        dy = op.Unsqueeze(dy, [-1 if rank(b) == 1 else -2])
    if rank(b) == 1:
        dy = op.Unsqueeze(dy, [-1])
    da = db = None
    if op.wants(a):
        da = op.MatMul(dy, transposed(op, columns))
        da = op.Squeeze(da, [-2]) if rank(a) == 1 else da
    if op.wants(b):
        db = op.MatMul(transposed(op, rows), dy)
        db = op.Squeeze(db, [-1]) if rank(b) == 1 else db
    return da, db


def _by_matrix(op: GradientBuilder, a: ir.Value, b: ir.Value, dy: ir.Value) -> Grads:
    """A stack of rows times one matrix: db is one product over all rows, with no sum over the stack afterwards."""
    da = op.MatMul(dy, transposed(op, b)) if op.wants(a) else None
    if not op.wants(b):
        return da, None
    flat_a, flat_dy = (op.Flatten(v, axis=rank(v) - 1) if rank(v) > 2 else v for v in (a, dy))
    return da, op.Gemm(flat_a, flat_dy, transA=1)


def transposed(op: Builder, matrix: ir.Value) -> ir.Value:
    """The last two axes swapped."""
    last = rank(matrix) - 1
    return op.Transpose(matrix, perm=[*range(last - 1), last, last - 1])


@gradient("Gemm")
def gemm(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = alpha a b + beta c, a and b maybe transposed:  da = alpha dy b^T, db = alpha a^T dy, dc = beta dy"""
    a, b, c = [*node.inputs, None][:3]
    attributes = node.attributes
    alpha, beta = attributes.get_float("alpha", 1.0), attributes.get_float("beta", 1.0)
    across_a, across_b = attributes.get_int("transA", 0), attributes.get_int("transB", 0)
    da = db = dc = None
    if op.wants(a) and across_a:
        da = op.Gemm(b, dy, alpha=alpha, transA=across_b, transB=1)
    elif op.wants(a):
        da = op.Gemm(dy, b, alpha=alpha, transB=1 - across_b)
    if op.wants(b) and across_b:
        db = op.Gemm(dy, a, alpha=alpha, transA=1, transB=across_a)
    elif op.wants(b):
        db = op.Gemm(a, dy, alpha=alpha, transA=1 - across_a)
    if c is not None and op.wants(c):
        dc = sum_to(op, dy, c)
        dc = dc if beta == 1 else op.Mul(dc, op.constant_like(dc, beta))
    return da, db, dc


@gradient("Det", note="exact for singular matrices too")
def det(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = det(x):  dx = dy cofactor(x)"""
    (x,) = node.inputs
    assert x is not None
    (cofactors,) = op.call("Cofactors", _cofactors, x)
    cofactors.shape = x.shape
    return (op.Mul(op.Unsqueeze(dy, [-2, -1]), cofactors),)


def _cofactors(op: Builder, x: ir.Value) -> ir.Value:
    """c_ij = (-1)^(i+j) det(x without row i and column j), for matrices x[..., n, n]."""
    last = rank(x) - 1
    places = op.Range(0, op.Squeeze(op.Shape(x, start=last), [0]), 1)
    column = op.Unsqueeze(places, [1])
    first = op.Slice(places, [0], [-1])
    others = op.Add(first, op.Cast(op.GreaterOrEqual(first, column), to=ir.DataType.INT64))  # [n, n - 1]
    minors = op.Gather(op.Gather(x, others, axis=last - 1), others, axis=last + 1)  # [..., i, rows, j, columns]
    minors = op.Transpose(minors, perm=[*range(last - 1), last - 1, last + 1, last, last + 2])
    odd = op.Cast(op.Mod(op.Add(places, column), 2), to=x.dtype)
    sign = op.Sub(op.constant_like(x, 1), op.Mul(op.constant_like(x, 2), odd))
    return op.Mul(op.Det(minors), sign)
