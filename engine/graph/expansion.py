"""Nodes of a computing graph that onnxruntime does not know, and what each becomes when the graph is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.ir.builder import Builder, describe
from onnxgrad.engine.ir.names import graphs_in

if TYPE_CHECKING:
    from onnxgrad.engine.graph.callback import CallbackFunction
    from onnxgrad.engine.graph.source import Source

DOMAIN = "onnxgrad"


@dataclass
class Expanding:
    """The model of a function that is being compiled, while its own nodes are replaced by standard ones.

    `op` adds nodes in front of the node that is being replaced. `sources`: what stands behind the inputs of the model,
    by name. `updates`: the next value of a source, to be stored after a run. `callbacks`: functions with the values
    that they are to be called with. `kept`: values that are computed although nobody reads them.
    """

    model: ir.Model
    sources: dict[str, Source]
    op: Builder
    updates: dict[str, ir.Value] = field(default_factory=dict)
    callbacks: list[tuple[CallbackFunction, tuple[ir.Value, ...]]] = field(default_factory=list)
    kept: list[ir.Value] = field(default_factory=list)
    targets: list[ir.Value] = field(default_factory=list)

    def replace(self, node: ir.Node, values: Sequence[ir.Value]) -> None:
        """Put `values` in the places of the outputs of `node`, and take the node away."""
        assert node.graph is not None
        for old, new in zip(node.outputs, values, strict=True):
            if new.type is None:
                new.type, new.shape = old.type, old.shape
            ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
            self.follow(old, new)
        node.graph.remove(node, safe=True)

    def follow(self, old: ir.Value, new: ir.Value) -> None:
        """Ask for `new` wherever `old` was asked for."""
        for values in (self.targets, self.kept):
            values[:] = [new if value is old else value for value in values]
        self.updates = {name: new if value is old else value for name, value in self.updates.items()}
        self.callbacks = [
            (function, tuple(new if value is old else value for value in values)) for function, values in self.callbacks
        ]


class Expansion(Protocol):
    """What a node becomes: the values that stand for its outputs. Raises: GraphError for one that cannot run."""

    def __call__(self, graph: Expanding, node: ir.Node, /) -> Sequence[ir.Value]:
        """Add what computes the outputs of `node` through `graph.op`, and return them."""


EXPANSIONS: dict[str, Expansion] = {}
"""By operator of domain onnxgrad: what it becomes."""

GRADIENTS: dict[str, Expansion] = {}
"""The same for operators that differentiate the graph in front of them: these go first, while it is as it was."""


def expand_gradients(graph: Expanding) -> None:
    """Write out the gradients that nodes stand for."""
    while _expand_once(graph, GRADIENTS):
        pass


def expand(graph: Expanding) -> None:
    """Replace all nodes of domain onnxgrad, gradients first, each in the order of the graph.

    Raises: GraphError for a node that nothing replaces and that is no call of a function.
    """
    expand_gradients(graph)
    while _expand_once(graph, EXPANSIONS):
        pass
    graph.model.graph.sort()  # a node that stands for two may have been made for the later one
    for inner in graphs_in(graph.model.graph):
        for node in inner:
            if node.domain == DOMAIN and node.op_identifier() not in graph.op.functions:
                raise GraphError(
                    f"{node.op_type} is nothing that can run", where=describe(node), fix="see docs/semantics.md"
                )


def _expand_once(graph: Expanding, table: dict[str, Expansion]) -> int:
    found = [
        node
        for inner in graphs_in(graph.model.graph)
        for node in inner
        if node.domain == DOMAIN and node.op_type in table
    ]
    root = graph.op
    for node in found:
        if node.graph is None:
            continue  # went away with another
        inside = node.graph is not graph.model.graph
        graph.op = Builder(node.graph, parent=root) if inside else root
        graph.op.before = node
        graph.replace(node, table[node.op_type](graph, node))
        root.before = None
    graph.op = root
    return len(found)
