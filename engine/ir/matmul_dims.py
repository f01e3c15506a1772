"""The shape of FusedMatMul with transBatchA or transBatchB, which onnx_shape_inference does not look at."""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

Rule = Callable[[ShapeInferenceContext, ir.Node], None]


def mended_fused_matmul(rule: Rule) -> Rule:
    """`rule` for FusedMatMul, on operands whose first axis has been moved in front of the last."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        moved = [bool(node.attributes.get_int(f"transBatch{side}", 0)) for side in "AB"]
        if not any(moved):
            rule(context, node)
            return
        operands = [_moved(value) if move else value for value, move in zip(node.inputs, moved, strict=True)]
        kept = [attribute for name, attribute in node.attributes.items() if not name.startswith("transBatch")]
        plain = ir.Node(node.domain, node.op_type, operands, kept, num_outputs=1)
        rule(context, plain)
        node.outputs[0].type, node.outputs[0].shape = plain.outputs[0].type, plain.outputs[0].shape
        for index in range(len(operands)):
            plain.replace_input_with(index, None)  # or its operands would count it among their users

    return infer


def _moved(value: ir.Value | None) -> ir.Value | None:
    if value is None or value.shape is None or len(value.shape) < 2:
        return value
    first, *middle, last = value.shape.dims
    return ir.Value(name=value.name, type=value.type, shape=ir.Shape([*middle, first, last]))
