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
    _graphs: list[ir.Graph] | None = None
    _outermost: dict[ir.Graph, ir.Graph] = field(default_factory=dict)

    def graphs(self) -> Iterator[ir.Graph]:
        """The main graph, the bodies of functions, and all their sub-graphs: an outer one before the inner."""
        if self._graphs is None:
            self._graphs = [graph for root in self.roots() for graph in (root, *root.subgraphs())]
        return iter(self._graphs)

    def forget_graphs(self) -> None:
        """To be called when bodies or functions may have come or gone."""
        self._graphs = None

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
