"""Operators of domain onnxgrad that stand in a graph until it is compiled: their types and shapes."""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnxgrad.engine.ir.functions import DOMAIN

VIRTUAL = {"AddUpdate": 0, "InvalidGrad": -1, "SetGrad": 0, "VirtualGrad": -1}
"""Operator -> which of its inputs its output is like. None has a kernel: engine.graph.expansion replaces them."""


def is_virtual(node: ir.Node) -> bool:
    """Whether `node` is one of these."""
    return node.domain == DOMAIN and node.op_type in VIRTUAL


def collect_virtual_rules() -> None:
    """Fill `onnx_shape_inference.registry` with their rules."""
    for op_type, position in VIRTUAL.items():
        registry.register(DOMAIN, op_type, since_version=1)(_like(position))


def _like(position: int) -> Callable[[ShapeInferenceContext, ir.Node], None]:
    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        x = node.inputs[position]
        if x is not None:
            context.set_shape_and_dtype(node.outputs[0], x.shape, x.dtype)

    return infer
