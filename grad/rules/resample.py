"""Images put together, stretched and sampled."""

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import describe
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.windows import Window, merge_axes, pad_spatial, spatial, spatial_of, tap_slice


@gradient("Col2Im")
def col2im(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = blocks added up in an image:  dx = the blocks of dy"""
    block = constant_ints(node, 2)
    n = len(block)
    strides = tuple(node.attributes.get_ints("strides", [1] * n))
    dilations = tuple(node.attributes.get_ints("dilations", [1] * n))
    pads = list(node.attributes.get_ints("pads", [0] * 2 * n))
    window = Window(strides, dilations, tuple(block), tuple(pads[:n]), tuple(pads[n:]))
    padded = pad_spatial(op, dy, pads[:n], pads[n:])
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(block, dilations, strict=True)]
    sizes = spatial(padded)
    if sizes is not None:
        counts: list[int] | ir.Value = [(i - e) // s + 1 for i, e, s in zip(sizes, extents, strides, strict=True)]
    else:
        counts = op.Add(op.Div(op.Sub(spatial_of(op, padded), extents), list(strides)), [1])
    parts = [op.Unsqueeze(tap_slice(op, padded, tap, window, counts), [2]) for tap in window.taps()]
    blocks = op.Concat(*parts, axis=2) if len(parts) > 1 else parts[0]
    return (merge_axes(op, blocks, [[0], [1, 2], [axis + 1 for axis in window.axes]]),)


def constant_ints(node: ir.Node, position: int) -> list[int]:
    """The value of an input that must be known while building."""
    value = node.inputs[position] if position < len(node.inputs) else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise GradientError(
            f"the gradient of {node.op_type} needs input {position} to be a constant",
            where=describe(node),
            why="it decides which nodes the gradient is made of",
            fix="fold constants, or give the model fixed shapes",
        )
    return [int(number) for number in tensor.numpy().ravel()]
