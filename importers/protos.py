"""Walks over the messages of a ModelProto."""

from collections.abc import Iterable, Iterator

import onnx


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies in the attributes of one node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those in their bodies, at any depth."""
    for node in nodes:
        yield node
        for body in subgraphs(node):
            yield from all_nodes(body.node)


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and the bodies in it, at any depth."""
    yield graph
    yield from bodies(graph.node)


def bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The bodies in the attributes of the nodes, at any depth."""
    for node in all_nodes(nodes):
        yield from subgraphs(node)


def describe_node(node: onnx.NodeProto) -> str:
    """How an error names a node: ai.onnx::Add 'add_1' (c = Add(a, b))."""
    domain = node.domain or "ai.onnx"
    call = f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
    return f"{domain}::{node.op_type} '{node.name}' ({call})"
