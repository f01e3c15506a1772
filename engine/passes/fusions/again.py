"""Nodes written once more, with other operands; no rewrites of its own."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Operand
from onnxgrad.engine.ir.signatures import AttributeValue
from onnxgrad.engine.passes.rewrite import Builder


def write_again(op: Builder, like: ir.Value | None, *inputs: Operand, **changed: AttributeValue | None) -> ir.Value:
    """The node that makes `like`, with other inputs and these attributes changed (None: left out); its first output."""
    node = None if like is None else like.producer()
    assert node is not None
    attributes: dict[str, AttributeValue | None] = {name: given.value for name, given in node.attributes.items()}
    return op.node(node.op_type, *inputs, outputs=1, domain=node.domain, **{**attributes, **changed})[0]
