"""The size of a slice of a symbolic dimension, where onnx_shape_inference takes the bounds to lie inside it."""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

Rule = Callable[[ShapeInferenceContext, ir.Node], None]


def mended_slice(rule: Rule) -> Rule:
    """`rule` for Slice, but x[:, a:b] with a symbolic second dimension has an unknown size there, not b - a."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        rule(context, node)
        x, y = node.inputs[0], node.outputs[0]
        if x is None or x.shape is None or y.shape is None or len(x.shape) != len(y.shape):
            return
        pairs = zip(x.shape.dims, y.shape.dims, strict=True)
        guessed = [not isinstance(before, int) and isinstance(after, int) and after > 0 for before, after in pairs]
        if any(guessed):
            dims = zip(y.shape.dims, guessed, strict=True)
            y.shape = ir.Shape([context.new_symbolic_dim() if guess else dim for dim, guess in dims])

    return infer
