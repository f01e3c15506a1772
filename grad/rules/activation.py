"""Activation functions."""

import onnx_ir as ir

from onnxgrad.grad.guards import without_nan
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient

no_gradient("Hardmax", reason="one-hot output: constant almost everywhere")


@gradient("Relu", note="0 at 0")
def relu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = max(x, 0):  dx = dy where y > 0, else 0"""
    return (op.Where(op.Greater(node.outputs[0], 0.0), dy, 0.0),)


@gradient("LeakyRelu", note="alpha at 0")
def leaky_relu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x where x > 0, else alpha x:  dx = dy where x > 0, else alpha dy"""
    slope = op.constant_like(dy, node.attributes.get_float("alpha", 0.01))
    return (op.Where(op.Greater(node.inputs[0], 0.0), dy, op.Mul(dy, slope)),)


@gradient("PRelu", broadcasts=True, note="slope at 0")
def p_relu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x where x > 0, else slope x:  dx = dy or slope dy, d(slope) = 0 or x dy"""
    x, slope = node.inputs
    positive = op.Greater(x, 0.0)
    return op.Where(positive, dy, op.Mul(dy, slope)), op.Where(positive, 0.0, op.Mul(dy, x))


@gradient("ThresholdedRelu", note="0 at alpha")
def thresholded_relu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x where x > alpha, else 0:  dx = dy where x > alpha, else 0"""
    return (op.Where(op.Greater(node.inputs[0], node.attributes.get_float("alpha", 1.0)), dy, 0.0),)


@gradient("Elu", note="alpha at 0")
def elu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x where x > 0, else alpha (e^x - 1):  dx = dy, or dy (y + alpha)"""
    return (_exponential_tail(op, node, dy, 1.0, node.attributes.get_float("alpha", 1.0)),)


@gradient("Selu", note="alpha gamma at 0")
def selu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = gamma x where x > 0, else gamma alpha (e^x - 1):  dx = gamma dy, or dy (y + gamma alpha)"""
    gamma = node.attributes.get_float("gamma", 1.05070102214813232421875)
    alpha = node.attributes.get_float("alpha", 1.67326319217681884765625)
    return (_exponential_tail(op, node, dy, gamma, gamma * alpha),)


def _exponential_tail(op: GradientBuilder, node: ir.Node, dy: ir.Value, slope: float, depth: float) -> ir.Value:
    """slope dy where x > 0, else dy (y + depth)."""
    right = dy if slope == 1 else op.Mul(dy, slope)
    return op.Where(op.Greater(node.inputs[0], 0.0), right, op.Mul(dy, op.Add(node.outputs[0], depth)))


@gradient("Celu")
def celu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x where x > 0, else alpha (e^(x/alpha) - 1):  dx = dy, or dy (y / alpha + 1)"""
    alpha = node.attributes.get_float("alpha", 1.0)
    tail = op.Mul(dy, op.Add(op.Mul(node.outputs[0], 1 / alpha), 1.0))
    return (op.Where(op.Greater(node.inputs[0], 0.0), dy, tail),)


@gradient("Sigmoid")
def sigmoid(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = 1 / (1 + e^-x):  dx = dy y (1 - y)"""
    (y,) = node.outputs
    return (op.Mul(dy, op.Mul(y, op.Sub(1.0, y))),)


@gradient("Tanh")
def tanh(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = tanh(x):  dx = dy (1 - y^2)"""
    (y,) = node.outputs
    return (op.Mul(dy, op.Sub(1.0, op.Mul(y, y))),)


@gradient("HardSigmoid", note="0 at both bends")
def hard_sigmoid(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = max(0, min(1, alpha x + beta)):  dx = alpha dy where 0 < y < 1, else 0"""
    (y,) = node.outputs
    inside = op.And(op.Greater(y, 0.0), op.Less(y, 1.0))
    return (op.Where(inside, op.Mul(dy, node.attributes.get_float("alpha", 0.2)), 0.0),)


@gradient("HardSwish", note="0 at -3, 1 at 3")
def hard_swish(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x h with h = max(0, min(1, x/6 + 1/2)):  dx = dy (h + x/6 where |x| < 3)"""
    (x,) = node.inputs
    bend = op.Where(op.Less(op.Abs(x), 3.0), op.Mul(x, 1 / 6), 0.0)
    return (op.Mul(dy, op.Add(op.HardSigmoid(x, alpha=1 / 6, beta=0.5), bend)),)


@gradient("Softplus")
def softplus(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = ln(1 + e^x):  dx = dy sigmoid(x)"""
    return (op.Mul(dy, op.Sigmoid(node.inputs[0])),)


@gradient("Softsign")
def softsign(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x / (1 + |x|):  dx = dy / (1 + |x|)^2"""
    size = op.Add(op.Abs(node.inputs[0]), 1.0)
    return (op.Div(op.Div(dy, size), size),)


@gradient("Mish")
def mish(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x t with t = tanh(softplus(x)):  dx = dy (t + x (1 - t^2) sigmoid(x))"""
    (x,) = node.inputs
    t = _tanh_softplus(op, x)
    bend = op.Mul(op.Mul(x, op.Sigmoid(x)), op.Sub(1.0, op.Mul(t, t)))
    return (op.Mul(dy, op.Add(t, bend)),)


def _tanh_softplus(op: GradientBuilder, x: ir.Value | None) -> ir.Value:
    """tanh(ln(1 + e)) = n / (n + 2), n = e (e + 2), e = e^x: onnxruntime's Softplus takes ten times as long."""
    assert x is not None
    e = op.Exp(op.Clip(x, None, 5.0 if x.dtype == ir.DataType.FLOAT16 else 20.0))  # 1 beyond, and must not overflow
    n = op.Mul(e, op.Add(e, 2.0))
    return op.Div(n, op.Add(n, 2.0))


@gradient("Shrink", note="0 at both steps")
def shrink(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x + bias where x < -lambd, x - bias where x > lambd, else 0:  dx = dy outside, 0 inside"""
    (x,) = node.inputs
    edge = node.attributes.get_float("lambd", 0.5)
    return (op.Where(op.Or(op.Less(x, -edge), op.Greater(x, edge)), dy, 0.0),)


@gradient("Swish")
def swish(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x s with s = sigmoid(alpha x):  dx = dy (s + alpha y (1 - s))"""
    (x,) = node.inputs
    return (op.Mul(dy, _swish_slope(op, x, node.outputs[0], node.attributes.get_float("alpha", 1.0))),)


@gradient("QuickGelu", domain="com.microsoft")
def quick_gelu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x s with s = sigmoid(alpha x):  dx = dy (s + alpha y (1 - s))"""
    (x,) = node.inputs
    return (op.Mul(dy, _swish_slope(op, x, node.outputs[0], node.attributes.get_float("alpha", 1.702))),)


@gradient("SwiGLU")
def swi_glu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = g b with g = a sigmoid(alpha a):  da = dy b g', db = dy g"""
    a, b = node.inputs
    alpha = node.attributes.get_float("alpha", 1.0)
    gate = op.Mul(a, _sigmoid_of(op, a, alpha))
    return op.Mul(op.Mul(dy, b), _swish_slope(op, a, gate, alpha)), op.Mul(dy, gate)


def _sigmoid_of(op: GradientBuilder, x: ir.Value | None, alpha: float) -> ir.Value:
    return op.Sigmoid(x if alpha == 1 else op.Mul(x, alpha))


def _swish_slope(op: GradientBuilder, x: ir.Value | None, y: ir.Value, alpha: float) -> ir.Value:
    """s + alpha y (1 - s)."""
    s = _sigmoid_of(op, x, alpha)
    rest = op.Mul(y, op.Sub(1.0, s))
    return op.Add(s, rest if alpha == 1 else op.Mul(rest, alpha))


@gradient("Softmax", since=13)
def softmax(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = e^x / sum(e^x):  dx = y dy - y sum(y dy)"""
    y = without_nan(op, node.outputs[0])
    product = op.Mul(y, dy)
    total = op.ReduceSum(product, [node.attributes.get_int("axis", -1)], keepdims=1)
    return (op.Sub(product, op.Mul(y, total)),)


@gradient("LogSoftmax", since=13)
def log_softmax(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x - ln(sum(e^x)):  dx = dy - e^y sum(dy)"""
    (y,) = node.outputs
    total = op.ReduceSum(dy, [node.attributes.get_int("axis", -1)], keepdims=1)
    return (op.Sub(dy, op.Mul(op.Exp(y), total)),)


@gradient("Gelu")
def gelu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x/2 (1 + erf(x/sqrt 2)), or with approximate="tanh" x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
    (x,) = node.inputs
    slope = _tanh_gelu_slope if node.attributes.get_string("approximate", "none") == "tanh" else _gelu_slope
    return (op.Mul(dy, slope(op, x)),)


@gradient("Gelu", domain="com.microsoft")
def contrib_gelu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x/2 (1 + erf(x/sqrt 2))"""
    return (op.Mul(dy, _gelu_slope(op, node.inputs[0])),)


@gradient("BiasGelu", domain="com.microsoft", broadcasts=True)
def bias_gelu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = gelu(a + b) with a vector b"""
    a, b = node.inputs
    dx = op.Mul(dy, _gelu_slope(op, op.Add(a, b)))
    return dx, dx


@gradient("FastGelu", domain="com.microsoft", broadcasts=True)
def fast_gelu(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = gelu(x + bias) in its tanh form, with an optional vector bias"""
    x, bias = [*node.inputs, None][:2]
    dx = op.Mul(dy, _tanh_gelu_slope(op, x if bias is None else op.Add(x, bias)))
    return dx, dx


def _gelu_slope(op: GradientBuilder, x: ir.Value | None) -> ir.Value:
    """Phi(x) + x phi(x), with the normal distribution Phi and its density phi."""
    half = op.Mul(op.Add(op.Erf(op.Mul(x, 0.5**0.5)), 1.0), 0.5)
    density = op.Exp(op.Mul(op.Mul(x, x), -0.5))
    return op.Add(half, op.Mul(op.Mul(x, density), 0.3989422804014327))


def _tanh_gelu_slope(op: GradientBuilder, x: ir.Value | None) -> ir.Value:
    """(1 + t + x (1 - t^2) u') / 2 with t = tanh(u), u = k (x + c x^3), k = sqrt(2/pi), c = 0.044715."""
    k, c = 0.7978845608028654, 0.044715
    near = op.Clip(x, -16.0, 16.0)  # t is +-1 beyond, and squares must not overflow there
    square = op.Mul(near, near)
    t = op.Tanh(op.Mul(near, op.Add(op.Mul(square, k * c), k)))
    bend = op.Mul(op.Mul(near, op.Sub(1.0, op.Mul(t, t))), op.Add(op.Mul(square, 3 * k * c), k))
    return op.Mul(op.Add(op.Add(t, bend), 1.0), 0.5)
