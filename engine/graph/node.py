"""Nodes of a computing graph, as programs see them: `var.owner`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.marks import NUMBER, PRIORITY
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import describe

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


class Node:
    """One use of an operator in a graph. Two are equal if they are the same node. `ir`: the onnx_ir.Node behind it."""

    __slots__ = ("graph", "ir")

    def __init__(self, graph: Graph, node: ir.Node) -> None:
        self.graph, self.ir = graph, node

    @property
    def id(self) -> int:
        """A number that no other node of the graph has; nodes that were made later have higher ones."""
        return number_of(self.ir)

    @property
    def name(self) -> str:
        """The name, unique in the graph."""
        return self.ir.name or ""

    @property
    def op_type(self) -> str:
        """The operator, without its domain."""
        return self.ir.op_type

    @property
    def domain(self) -> str:
        """The domain of the operator; "" for the standard's."""
        return self.ir.domain

    @property
    def inputs(self) -> tuple[Var | None, ...]:
        """What it reads; None for optional inputs that are left out."""
        return tuple(None if value is None else Var(self.graph, value) for value in self.ir.inputs)

    @property
    def outputs(self) -> tuple[Var, ...]:
        """What it makes."""
        return tuple(Var(self.graph, value) for value in self.ir.outputs)

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes as Python values; tensors as nested lists, bodies as the lists of their nodes."""
        return {name: _plain(attribute) for name, attribute in self.ir.attributes.items()}

    @property
    def params(self) -> str:
        """The attributes as JSON."""
        return json.dumps(self.attributes, sort_keys=True)

    @property
    def priority(self) -> int:
        """Nodes of lower numbers come earlier where the order is free; 0 unless it was set."""
        number: int = self.ir.meta.get(PRIORITY, 0)
        return number

    @priority.setter
    def priority(self, value: int) -> None:
        """See above."""
        self.ir.meta[PRIORITY] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.ir is self.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __repr__(self) -> str:
        return f"<Node {describe(self.ir)}>"


def _plain(attribute: ir.Attr) -> object:
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return attribute.as_tensor().numpy().tolist()
    if attribute.type == ir.AttributeType.GRAPH:
        return [describe(node) for node in attribute.as_graph()]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [entry.decode(errors="replace") if isinstance(entry, bytes) else entry for entry in value]
    return value if isinstance(value, int | float | str) else str(value)


def number_of(node: ir.Node) -> int:
    """The number of a node: that of its place among all nodes that its graph has had."""
    if NUMBER not in node.meta:
        graph = node.graph
        assert graph is not None
        last = graph.meta.get(NUMBER, 0)
        for other in graph:
            if NUMBER not in other.meta:
                last = other.meta[NUMBER] = last + 1
        graph.meta[NUMBER] = last
    number: int = node.meta[NUMBER]
    return number


def list_of(vars: Var | Iterable[Var]) -> list[Var]:
    """One variable, or several, as a list."""
    return [vars] if isinstance(vars, Var) else list(vars)


def same_graph(vars: Sequence[Var]) -> Graph:
    """The graph of these variables. Raises: GraphError for none, or variables of several graphs; InputError for what
    is no variable.
    """
    for var in vars:
        if not isinstance(var, Var):
            raise InputError(f"{var!r} is no variable of a graph")
    graphs = {id(var.graph): var.graph for var in vars}
    if len(graphs) != 1:
        names = ", ".join(repr(graph.name) for graph in graphs.values()) or "none"
        raise GraphError(f"variables of one graph are wanted, these belong to {names}")
    (graph,) = graphs.values()
    return graph
