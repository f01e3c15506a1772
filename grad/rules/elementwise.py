"""Arithmetic, element by element."""

from math import pi, sqrt

import onnx_ir as ir

from onnxgrad.engine.ir.builder import is_float
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


@gradient("Div", broadcasts=True)
def div(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a / b:  da = dy / b, db = -(dy / b) y"""
    _, b = node.inputs
    da = op.Div(dy, b)
    return da, op.Neg(op.Mul(da, node.outputs[0]))


@gradient("Mod", broadcasts=True)
def mod(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a - q b with the whole number q = floor(a / b), or trunc(a / b) if fmod:  da = dy, db = -q dy"""
    a, b = node.inputs
    return dy, op.Mul(dy, op.Round(op.Div(op.Sub(node.outputs[0], a), b)))


@gradient("Abs", note="0 at 0")
def abs_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = |x|:  dx = dy sign(x)"""
    return (op.Mul(dy, op.Sign(node.inputs[0])),)


@gradient("Sqrt")
def sqrt_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x^(1/2):  dx = dy / 2y"""
    return (op.Div(op.Mul(dy, 0.5), node.outputs[0]),)


@gradient("Exp")
def exp(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = e^x:  dx = dy y"""
    return (op.Mul(dy, node.outputs[0]),)


@gradient("Log")
def log(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = ln(x):  dx = dy / x"""
    return (op.Div(dy, node.inputs[0]),)


@gradient("Reciprocal")
def reciprocal(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = 1 / x:  dx = -dy y^2"""
    (y,) = node.outputs
    return (op.Neg(op.Mul(dy, op.Mul(y, y))),)


@gradient("Erf")
def erf(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = erf(x):  dx = dy 2/sqrt(pi) exp(-x^2)"""
    (x,) = node.inputs
    bell = op.Exp(op.Neg(op.Mul(x, x)))
    return (op.Mul(dy, op.Mul(bell, 2 / sqrt(pi))),)


@gradient("Pow", broadcasts=True, note="exponent: 0 where the base is not positive; base: 0 where the exponent is 0")
def pow_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a^b:  da = dy b a^(b-1), db = dy y ln(a)"""
    a, b = node.inputs
    (y,) = node.outputs
    assert a is not None and b is not None and a.dtype is not None
    da = db = None
    if op.wants(a):
        da = _pow_base(op, a, b, y, dy)
    if op.wants(b):
        assert b.dtype is not None
        logarithm = op.Log(op.Where(op.Greater(a, 0.0), a, 1.0))
        db = _cast(op, op.Mul(dy, op.Mul(y, logarithm)), b.dtype)
    return da, db


def _pow_base(op: GradientBuilder, a: ir.Value, b: ir.Value, y: ir.Value, dy: ir.Value) -> ir.Value | None:
    """dy b a^(b-1), without a power where the exponent is 2 or 1/2."""
    assert a.dtype is not None
    exponent = _fixed_number(op, b)
    if exponent == 0:
        return None
    if exponent == 1:
        return dy
    if exponent == 2:
        return op.Mul(dy, op.Mul(a, 2.0))
    if exponent == 0.5:
        return op.Div(op.Mul(dy, 0.5), y)
    if exponent is not None:
        return op.Mul(dy, op.Mul(op.Pow(a, op.constant_like(a, exponent - 1)), exponent))
    b = _cast(op, b, a.dtype)
    flat = op.And(op.Equal(b, 0.0), op.Equal(a, 0.0))  # 0 * 0^-1 would be NaN
    power = op.Pow(a, op.Where(flat, 0.0, op.Sub(b, 1.0)))
    return op.Mul(dy, op.Mul(b, power))


def _fixed_number(op: GradientBuilder, value: ir.Value) -> float | None:
    """The number that a constant scalar holds, None if the value is another or gets a gradient itself."""
    given = op.wants(value) or value.is_graph_input()
    tensor = None if given else ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().item()) if tensor is not None and tensor.size == 1 else None


def _cast(op: GradientBuilder, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    return value if value.dtype == dtype else op.Cast(value, to=int(dtype))


@gradient("Max", "Min", broadcasts=True, note="operands that tie share equally")
def max_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = max(x_0, x_1, ...):  dx_i = dy [x_i = y] / number of operands that equal y"""
    (y,) = node.outputs
    assert y.dtype is not None
    if len(node.inputs) == 1:
        return (dy,)
    chosen = [op.Cast(op.Equal(x, y), to=int(y.dtype)) for x in node.inputs]
    share = op.Div(dy, op.Add(*chosen) if len(chosen) == 2 else op.Sum(*chosen))
    return [op.Mul(share, mask) for mask in chosen]


@gradient("Sum", broadcasts=True)
def sum_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x_0 + x_1 + ...:  dx_i = dy"""
    return [dy] * len(node.inputs)


@gradient("Mean", broadcasts=True)
def mean(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (x_0 + ... + x_n-1) / n:  dx_i = dy / n"""
    count = len(node.inputs)
    return [op.Mul(dy, 1 / count) if count > 1 else dy] * count


@gradient("Where", broadcasts=True)
def where(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = a where c, else b:  da = dy where c, else 0; db = 0 where c, else dy"""
    condition = node.inputs[0]
    return None, op.Where(condition, dy, 0.0), op.Where(condition, 0.0, dy)


@gradient("Clip", broadcasts=True, note="passes at its bounds")
def clip(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = min(max(x, low), high):  dx = dy where low <= x <= high; d(low) = dy below, d(high) = dy above"""
    x, low, high = [*node.inputs, None, None][:3]
    above = None if high is None else op.Greater(x if low is None else op.Max(x, low), high)
    below = None if low is None else op.Less(x, low)
    dx = dy
    for outside in (above, below):
        dx = dx if outside is None else op.Where(outside, 0.0, dx)
    d_low = None if below is None else op.Where(below, dy if above is None else op.Where(above, 0.0, dy), 0.0)
    d_high = None if above is None else op.Where(above, dy, 0.0)
    return dx, d_low, d_high


@gradient("Cast", "CastLike", note="between floating-point types; other casts are cut")
def cast(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x in another type:  dx = dy in the type of x"""
    x = node.inputs[0]
    assert x is not None
    return (_cast(op, dy, x.dtype) if x.dtype is not None and is_float(x) else None,)


@gradient("Identity")
def identity(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x:  dx = dy"""
    return (dy,)
