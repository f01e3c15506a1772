"""Arithmetic, element by element."""

import onnx_ir as ir

from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("Add", broadcasts=True)
def add(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a + b:  da = db = dy"""
    return dy, dy


@gradient("Sub", broadcasts=True)
def sub(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a - b:  da = dy, db = -dy"""
    return dy, op.Neg(dy)


@gradient("Neg")
def neg(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = -x:  dx = -dy"""
    return (op.Neg(dy),)


@gradient("Mul", broadcasts=True)
def mul(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a b:  da = dy b, db = dy a"""
    a, b = node.inputs
    return op.Mul(dy, b), op.Mul(dy, a)
