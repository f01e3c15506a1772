"""Graphs that put something else where a value is not a number: the gradient there is 0, and must not become NaN."""

import onnx_ir as ir

from onnxgrad.grad.registry import GradientBuilder


def without_nan(op: GradientBuilder, y: ir.Value) -> ir.Value:
    """`y`, with 0 for NaN if a Where may replace parts of it: softmax of a row without keys, as attention guards it."""
    if not _is_replaced(y):
        return y
    return op.Where(op.IsNaN(y), op.constant_like(y, 0), y)


def _is_replaced(y: ir.Value) -> bool:
    for node, index in y.uses():
        if node.op_type == "Where" and index > 0:
            return True
        if node.op_type in ("Cast", "CastLike", "Identity") and index == 0 and _is_replaced(node.outputs[0]):
            return True
    return False
