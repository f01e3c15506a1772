"""What a pass works on: a model, its graphs, and builders that write in them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import Functions
from onnxgrad.engine.ir.names import Names

Evaluate = Callable[[ir.Model], Mapping[str, npt.NDArray[np.generic]]]
"""Runs a model without inputs; gives its outputs by name. Raises ExecutionError and the like where it cannot."""


@dataclass
class Scope:
    """A model under optimization: shapes are inferred; passes change it in place.

    evaluate: runs constant parts; None leaves them alone.  moved: replaced value -> what took its place.
    """

    model: ir.Model
    evaluate: Evaluate | None = None
    moved: dict[ir.Value, ir.Value] = field(default_factory=dict)
    _builders: dict[ir.Graph, Builder] = field(default_factory=dict)
    _owners: dict[ir.Graph, ir.Node | None] | None = None
    _outermost: dict[ir.Graph, ir.Graph] = field(default_factory=dict)

    def graphs(self) -> Iterator[ir.Graph]:
        """The main graph, the bodies of functions, and all their sub-graphs: an outer one before the inner.

        What is taken out of the model while a pass goes through them is left out.
        """
        if self._owners is None:
            self._owners = {graph: owner for root in self.roots() for graph, owner in _owned(root, None)}
        owners = self._owners
        return (graph for graph in owners if _is_held(graph, owners))

    def forget_graphs(self) -> None:
        """To be called when bodies or functions may have come or gone."""
        self._owners = None

    def roots(self) -> Iterator[ir.Graph]:
        """The main graph and the bodies of functions."""
        yield self.model.graph
        for function in self.model.functions.values():
            yield function.graph

    @property
    def functions(self) -> Functions:
        """The model's functions."""
        return self.model.functions

    @property
    def names(self) -> Names:
        """The names in use in the main graph."""
        return self._root_builder(self.model.graph).names

    def builder(self, graph: ir.Graph, before: ir.Node | None = None) -> "RecordingBuilder":
        """A builder that writes in `graph`, at its end or in front of a node."""
        return RecordingBuilder(graph, self._root_builder(self.root_of(graph)), before)

    def root_of(self, graph: ir.Graph) -> ir.Graph:
        """The main graph or function body that a graph is, or is in."""
        if graph not in self._outermost:
            self._outermost = {inner: root for root in self.roots() for inner in (root, *root.subgraphs())}
        return self._outermost[graph]

    def opset(self, graph: ir.Graph) -> int:
        """The version of ai.onnx that holds in a graph; 0 where none is imported."""
        root = self.root_of(graph)
        for candidate in (root, self.model.graph):
            if (version := self.imports(candidate).get("", 0)) > 0:
                return version
        return 0

    def imports(self, root: ir.Graph) -> Mapping[str, int]:
        """The opsets that the main graph or a function imports."""
        for function in self.model.functions.values():
            if function.graph is root:
                return function.opset_imports
        return root.opset_imports

    def import_domain(self, graph: ir.Graph, domain: str) -> None:
        """Import a domain, at version 1 where it is new, for a node in a graph."""
        root = self.root_of(graph)
        self.model.opset_imports.setdefault(domain, 1)
        for function in self.model.functions.values():
            if function.graph is root:
                function.opset_imports.setdefault(domain, 1)

    def _root_builder(self, root: ir.Graph) -> Builder:
        known = self._builders.get(root)
        if known is None:
            known = self._builders[root] = Builder(root, opset=self.opset(root) or 1)
        return known


def _owned(graph: ir.Graph, owner: ir.Node | None) -> Iterator[tuple[ir.Graph, ir.Node | None]]:
    """A graph and those in it, each with the node that holds it."""
    yield graph, owner
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                yield from _owned(attribute.as_graph(), node)
            elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
                for inner in attribute.as_graphs():
                    yield from _owned(inner, node)


def _is_held(graph: ir.Graph, owners: Mapping[ir.Graph, ir.Node | None]) -> bool:
    """Whether no node around a graph has been removed."""
    while (owner := owners.get(graph)) is not None:
        if owner.graph is None:
            return False
        graph = owner.graph
    return True


@contextmanager
def hidden_defaults(graph: ir.Graph) -> Iterator[None]:
    """While passes run, an input with a default has no content: a caller may override it."""
    defaults = [(value, value.const_value) for value in graph.inputs if value.const_value is not None]
    for value, _ in defaults:
        value.const_value = None
    try:
        yield
    finally:
        for value, tensor in defaults:
            value.const_value = tensor


class RecordingBuilder(Builder):
    """A builder that knows which nodes it made."""

    def __init__(self, graph: ir.Graph, parent: Builder, before: ir.Node | None) -> None:
        super().__init__(graph, parent=parent, before=before)
        self.made: list[ir.Node] = []

    def insert(self, node: ir.Node) -> None:
        """Put a finished node where this builder writes."""
        self.made.append(node)
        super().insert(node)

    def constant(self, value: np.ndarray | ir.TensorProtocol | Sequence[int] | int | float | bool) -> ir.Value:
        """A Constant node; small equal ones are shared."""
        output = super().constant(value)
        node = output.producer()
        if node is not None and node not in self.made:
            self.made.append(node)
        return output
