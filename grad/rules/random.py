"""Random numbers, and dropout."""

import onnx_ir as ir

from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient

no_gradient(
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"),
    reason="draws random numbers: an output is no smooth function of the inputs",
)


@gradient("Dropout", note="forward and backward share the mask, which does not vary with the ratio")
def dropout(op: GradientBuilder, node: ir.Node, dy: ir.Value | None, dmask: ir.Value | None = None) -> Grads:
    """y = x mask s, s = 1 / (1 - ratio):  dx = dy mask s, d(ratio) = sum(dy y) s; but y = x outside training mode"""
    x, ratio, training = [*node.inputs, None, None][:3]
    assert x is not None and x.dtype is not None and dy is not None
    mode = None if training is None else _constant(training)
    if training is None or (mode is not None and not mode.numpy().item()):
        return (dy,)
    scale = op.Reciprocal(op.Sub(1.0, ratio)) if ratio is not None else op.constant_like(x, 2.0)
    if mode is None:
        scale = op.Where(training, scale, 1.0)
    scale_x = scale if scale.dtype == x.dtype else op.Cast(scale, to=int(x.dtype))
    _, mask = expose(op, node, 2)
    dx = op.Where(mask, op.Mul(dy, scale_x), 0.0)
    if ratio is None or ratio.dtype is None:
        return (dx,)
    total = op.Mul(op.ReduceSum(op.Mul(dy, node.outputs[0]), keepdims=0), scale_x)
    total = total if mode is not None else op.Where(training, total, 0.0)
    total = op.Reshape(op.Cast(total, to=int(ratio.dtype)), op.shape_of(ratio))
    return dx, total


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    return None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
