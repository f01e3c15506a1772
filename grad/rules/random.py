"""Random numbers, and dropout."""

import onnx_ir as ir

from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient

no_gradient(
    *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"),
    reason="draws random numbers: an output is no smooth function of the inputs",
)


@gradient("Dropout", note="forward and backward share the mask; the ratio has no gradient")
def dropout(op: GradientBuilder, node: ir.Node, dy: ir.Value | None, dmask: ir.Value | None = None) -> Grads:
    """y = x mask / (1 - ratio) in training mode, else x:  dx = dy mask / (1 - ratio), or dy"""
    x, ratio, training = [*node.inputs, None, None][:3]
    assert x is not None
    mode = None if training is None else _constant(training)
    if dy is None or training is None or (mode is not None and not mode.numpy().item()):
        return (dy,)
    kept = op.Sub(1.0, ratio) if ratio is not None else op.constant_like(dy, 0.5)
    scale = op.Reciprocal(kept)
    if scale.dtype != dy.dtype and dy.dtype is not None:
        scale = op.Cast(scale, to=int(dy.dtype))
    if mode is None:
        scale = op.Where(training, scale, 1.0)
    _, mask = expose(op, node, 2)
    return (op.Where(mask, op.Mul(dy, scale), 0.0),)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    return None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
