"""Products of matrices."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import rank
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("MatMul", broadcasts=True)
def matmul(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a b:  da = dy b^T, db = a^T dy, with vectors as rows (a) and columns (b)"""
    a, b = node.inputs
    assert a is not None and b is not None
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


def transposed(op: GradientBuilder, matrix: ir.Value) -> ir.Value:
    """The last two axes swapped."""
    last = rank(matrix) - 1
    return op.Transpose(matrix, perm=[*range(last - 1), last, last - 1])
