"""LSTM with weights in 8 bits: com.microsoft::DynamicQuantizeLSTM, as dynamic quantization of models makes it."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

_ATTRIBUTES = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget")


@gradient("DynamicQuantizeLSTM", domain="com.microsoft", note="straight through the quantization of X and the states")
def dynamic_quantize_lstm(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """LSTM with W = (integers - zero point) scale, R alike, both transposed; rounding on the fly is the identity."""
    present = [name for name in _ATTRIBUTES if name in node.attributes]

    def forward(
        op: Builder, x: ir.Value, w: ir.Value, r: ir.Value, *others: ir.Value | None
    ) -> tuple[ir.Value | None, ...]:
        b, lengths, h, c, p, w_scale, w_zero, r_scale, r_zero = [*others, None, None][:9]
        assert w_scale is not None and r_scale is not None
        weights = _dequantized(op, w, w_scale, w_zero), _dequantized(op, r, r_scale, r_zero)
        attributes = {name: node.attributes[name].value for name in present}
        return op.node("LSTM", x, *weights, b, lengths, h, c, p, outputs=3, **attributes)

    return through(op, node, dys, forward)


def _dequantized(op: Builder, integers: ir.Value, scale: ir.Value, zero: ir.Value | None) -> ir.Value:
    """[directions, rows, gates H] integers, with numbers per direction or column, as [directions, gates H, rows]."""
    axes = [1, 2] if rank(scale) == 1 else [1]
    weight = op.Cast(integers, to=scale.dtype)
    if zero is not None:
        weight = op.Sub(weight, op.Unsqueeze(op.Cast(zero, to=scale.dtype), axes))
    return op.Transpose(op.Mul(weight, op.Unsqueeze(scale, axes)), perm=[0, 2, 1])
