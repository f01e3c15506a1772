"""Circular and hyperbolic functions and their inverses."""

import onnx_ir as ir

from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("Sin")
def sin(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sin(x):  dx = dy cos(x)"""
    return (op.Mul(dy, op.Cos(node.inputs[0])),)


@gradient("Cos")
def cos(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = cos(x):  dx = -dy sin(x)"""
    return (op.Neg(op.Mul(dy, op.Sin(node.inputs[0]))),)


@gradient("Tan")
def tan(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = tan(x):  dx = dy (1 + y^2)"""
    (y,) = node.outputs
    return (op.Mul(dy, op.Add(op.Mul(y, y), 1.0)),)


@gradient("Asin")
def asin(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = asin(x):  dx = dy / sqrt(1 - x^2)"""
    return (op.Div(dy, op.Sqrt(_one_minus_square(op, node.inputs[0]))),)


@gradient("Acos")
def acos(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = acos(x):  dx = -dy / sqrt(1 - x^2)"""
    return (op.Neg(op.Div(dy, op.Sqrt(_one_minus_square(op, node.inputs[0])))),)


@gradient("Atan")
def atan(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = atan(x):  dx = dy / (1 + x^2)"""
    (x,) = node.inputs
    return (op.Div(dy, op.Add(op.Mul(x, x), 1.0)),)


@gradient("Sinh")
def sinh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sinh(x):  dx = dy cosh(x)"""
    return (op.Mul(dy, op.Cosh(node.inputs[0])),)


@gradient("Cosh")
def cosh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = cosh(x):  dx = dy sinh(x)"""
    return (op.Mul(dy, op.Sinh(node.inputs[0])),)


@gradient("Asinh")
def asinh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = asinh(x):  dx = dy / sqrt(x^2 + 1)"""
    (x,) = node.inputs
    return (op.Div(dy, op.Sqrt(op.Add(op.Mul(x, x), 1.0))),)


@gradient("Acosh")
def acosh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = acosh(x):  dx = dy / sqrt(x^2 - 1)"""
    (x,) = node.inputs
    return (op.Div(dy, op.Sqrt(op.Mul(op.Sub(x, 1.0), op.Add(x, 1.0)))),)


@gradient("Atanh")
def atanh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = atanh(x):  dx = dy / (1 - x^2)"""
    return (op.Div(dy, _one_minus_square(op, node.inputs[0])),)


def _one_minus_square(op: GradientBuilder, x: ir.Value | None) -> ir.Value:
    """1 - x^2 = (1 - x)(1 + x), exact near the ends of the domain."""
    return op.Mul(op.Sub(1.0, x), op.Add(x, 1.0))
