"""Walks over the messages of a ModelProto."""

from collections.abc import Iterable, Iterator

import onnx

from onnxgrad.engine.ir.nesting import MAX_DEPTH, nested_too_deep


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies in the attributes of one node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those in their bodies, at any depth."""
    around: list[Iterator[onnx.NodeProto]] = [iter(nodes)]
    while around:
        for node in around[-1]:
            yield node
            inner = [body.node for body in subgraphs(node)] if node.attribute else []
            if inner:
                around.extend(iter(body) for body in reversed(inner))
                break
        else:
            around.pop()


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and the bodies in it, at any depth."""
    yield graph
    yield from bodies(graph.node)


def bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The bodies in the attributes of the nodes, at any depth."""
    for node in all_nodes(nodes):
        if node.attribute:
            yield from subgraphs(node)


def check_nesting(proto: onnx.ModelProto) -> None:
    """Raises: ModelError, with the node, where graphs are nested deeper than a file can hold."""
    pending = [(nodes, 0) for nodes in (proto.graph.node, *(function.node for function in proto.functions))]
    while pending:
        nodes, depth = pending.pop()
        for node in nodes:
            if not node.attribute:
                continue
            inner = [(body.node, depth + 1) for body in subgraphs(node)]
            if inner and depth >= MAX_DEPTH:
                raise nested_too_deep(describe_node(node))
            pending.extend(inner)


def describe_node(node: onnx.NodeProto) -> str:
    """How an error names a node: ai.onnx::Add 'add_1' (c = Add(a, b))."""
    domain = node.domain or "ai.onnx"
    call = f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
    return f"{domain}::{node.op_type} '{node.name}' ({call})"
