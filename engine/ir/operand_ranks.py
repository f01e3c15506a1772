"""Ranks that an operator demands of an operand: where the operand's own shape is not known, they are.

Exporters write a squeeze of a dimension that may be 1 as an If whose branches have different ranks. What comes out has
no rank by itself; but a convolution behind it takes a rank that its weights tell, and a gradient needs that.
"""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

Rule = Callable[[ShapeInferenceContext, ir.Node], None]

_SAME_SHAPE = frozenset(("Cast", "Identity", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Tanh"))


def collect_rank_rules() -> None:
    """Put rules that look at what the operator demands in front of those of onnx_shape_inference."""
    for op_type in ("Conv", "ConvTranspose", "LSTM", "GRU", "RNN", "Gemm"):
        for version in registry.version_boundaries("", op_type):
            rule = registry.get("", op_type, version=version)
            registry.register("", op_type, since_version=version)(_demanding(rule))


def _demanding(rule: Rule) -> Rule:
    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        for operand, rank in _demands(node):
            _set_rank(context, operand, rank)
        rule(context, node)

    return infer


def _demands(node: ir.Node) -> list[tuple[ir.Value, int]]:
    """Operands of unknown shape, with the ranks that they must have."""
    x, w = node.inputs[:2]
    if x is None or w is None:
        return []
    if node.op_type == "Gemm":
        demands = [(x, 2), (w, 2)]
    elif node.op_type in ("Conv", "ConvTranspose"):
        demands = [] if w.shape is None else [(x, len(w.shape))]
    else:
        demands = [(value, 3) for value in (x, w, *node.inputs[2:3], *node.inputs[5:7]) if value is not None]
    return [(value, rank) for value, rank in demands if value.shape is None]


def _set_rank(context: ShapeInferenceContext, value: ir.Value, rank: int) -> None:
    """Give a value, and those that it was made from one by one, a shape of new symbols."""
    shape = ir.Shape([context.new_symbolic_dim() for _ in range(rank)])
    found: ir.Value | None = value
    while found is not None and found.shape is None:
        found.shape = shape
        producer = found.producer()
        found = producer.inputs[0] if producer is not None and producer.op_type in _SAME_SHAPE else None
