"""Which nodes may be merged, folded and moved: those that give the same outputs for the same inputs, every time."""

import onnx_ir as ir

from onnxgrad.engine.ir.functions import Functions
from onnxgrad.engine.passes.queries import scalar_value

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_KNOWN_DOMAINS = frozenset({"", "ai.onnx.ml", "com.microsoft"})
_RANDOM_CONTRIBUTED = frozenset({"BiasDropout", "BitmaskDropout", "BitmaskBiasDropout", "Sampling"})


def is_training(node: ir.Node) -> bool:
    """Whether a node is, or may be, in training mode: Dropout and BatchNormalization."""
    if node.domain != "" or node.op_type not in ("Dropout", "BatchNormalization"):
        return False
    if "training_mode" in node.attributes:
        attribute = node.attributes["training_mode"]
        return attribute.is_ref() or attribute.value != 0
    if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
        return scalar_value(node.inputs[2]) not in (False, 0)
    if "is_test" in node.attributes:
        return bool(node.attributes["is_test"].value == 0)
    return node.op_type == "BatchNormalization" and any(output.name for output in node.outputs[1:])


def is_pure(node: ir.Node, functions: Functions) -> bool:
    """Whether a node is deterministic, with all that it calls and holds."""
    return _is_pure(node, functions, frozenset())


def _is_pure(node: ir.Node, functions: Functions, calling: frozenset[tuple[str, str, str]]) -> bool:
    identifier = node.op_identifier()
    if identifier in functions:
        if identifier in calling:
            return False
        inside = calling | {identifier}
        return all(_is_pure(inner, functions, inside) for inner in functions[identifier].graph.all_nodes())
    if node.domain not in _KNOWN_DOMAINS:
        return False
    if node.op_type in RANDOM or node.op_type in _RANDOM_CONTRIBUTED or is_training(node):
        return False
    return all(
        _is_pure(inner, functions, calling)
        for attribute in node.attributes.values()
        if not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPH
        for inner in attribute.as_graph().all_nodes()
    )
