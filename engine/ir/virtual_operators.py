"""Operators of domain onnxgrad that stand in a graph until it is compiled: their types and shapes."""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnxgrad.engine.ir.functions import DOMAIN

_LIKE = {"AddUpdate": 0, "InvalidGrad": -1, "SetGrad": 0, "VirtualGrad": -1}

VIRTUAL = frozenset({*_LIKE, "Callback"})
"""None of these has a kernel: engine.graph.expansion replaces them. Callback gives back what it is given; of the others
the output is like one of the inputs."""


def is_virtual(node: ir.Node) -> bool:
    """Whether `node` is one of these."""
    return node.domain == DOMAIN and node.op_type in VIRTUAL


def collect_virtual_rules() -> None:
    """Fill `onnx_shape_inference.registry` with their rules."""
    for op_type, position in _LIKE.items():
        registry.register(DOMAIN, op_type, since_version=1)(_like(position))
    registry.register(DOMAIN, "Callback", since_version=1)(_as_given)


def _like(position: int) -> Callable[[ShapeInferenceContext, ir.Node], None]:
    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        x = node.inputs[position]
        if x is not None:
            context.set_shape_and_dtype(node.outputs[0], x.shape, x.dtype)

    return infer


def _as_given(context: ShapeInferenceContext, node: ir.Node) -> None:
    for x, y in zip(node.inputs, node.outputs, strict=False):
        if x is not None:
            context.set_shape_and_dtype(y, x.shape, x.dtype)
