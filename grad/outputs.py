"""Outputs that a forward node can give and did not: asked for when the backward pass uses them."""

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder


def expose(op: Builder, node: ir.Node, count: int) -> Sequence[ir.Value]:
    """The first `count` outputs of `node`, which are added, named and typed where it lacks them."""
    if len(node.outputs) < count or any(not value.name for value in node.outputs[:count]):
        node.resize_outputs(max(count, len(node.outputs)))
        for number, output in enumerate(node.outputs[:count]):
            if not output.name:
                output.name = op.names.fresh(f"{node.name or node.op_type}.{number}")
        op.infer(node)
    return node.outputs[:count]
