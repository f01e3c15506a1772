"""How deep graphs may be nested: no deeper than a file can hold, so that walks may recurse."""

from collections.abc import Iterable

import onnx_ir as ir

from onnxgrad.engine.errors import ModelError

MAX_DEPTH = 30
"""Graphs inside graphs. Readers of protobuf take 100 messages inside messages: three a graph and five a type."""


def check_nesting(model: ir.Model) -> None:
    """Raises: ModelError, with the node, where graphs are nested more than MAX_DEPTH deep."""
    check_depth(model.graph)
    for function in model.functions.values():
        check_depth(function)


def check_depth(nodes: Iterable[ir.Node]) -> None:
    """The same for the nodes of a graph or function. Raises: ModelError."""
    pending = [(node, 1) for node in nodes if node.attributes]
    while pending:
        node, depth = pending.pop()
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            if attribute.type == ir.AttributeType.GRAPH:
                graphs = [attribute.as_graph()]
            elif attribute.type == ir.AttributeType.GRAPHS:
                graphs = list(attribute.as_graphs())
            else:
                continue
            if graphs and depth > MAX_DEPTH:
                raise nested_too_deep(f"{node.domain or 'ai.onnx'}::{node.op_type} '{node.name}'")
            pending.extend((inner, depth + 1) for graph in graphs for inner in graph if inner.attributes)


def nested_too_deep(where: str) -> ModelError:
    """The error for a graph at `where` that no file can hold."""
    return ModelError(
        f"Graphs are nested more than {MAX_DEPTH} deep.",
        where=where,
        why="files and runtimes go no deeper (protobuf's limit of 100 messages inside messages)",
        fix="move the inner graphs into model-local functions, or flatten the conditions",
    )
