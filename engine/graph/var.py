"""Variables: the values of a computing graph, as programs hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.graph.operand import Call, Dim, Operand
from onnxgrad.engine.ir.builder import describe_value

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph
    from onnxgrad.engine.graph.node import Node
    from onnxgrad.engine.runtime.values import Array


class Var(Operand):
    """A value of a graph: an input, a parameter, a constant, or an output of an operator.

    Two variables are equal if they are the same value of the same graph. `value` is the onnx_ir.Value behind it.
    """

    __slots__ = ("graph", "value")

    def __init__(self, graph: Graph, value: ir.Value) -> None:
        self.graph, self.value = graph, value

    @property
    def name(self) -> str:
        """The name, unique in the graph."""
        return self.value.name or ""

    @property
    def element_type(self) -> ir.DataType | None:
        """See Operand."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """Sizes as far as they are known: ints, names of dimensions that are equal wherever the name stands."""
        if self.value.shape is None:
            return None
        return tuple(dim if isinstance(dim, int) else dim.value for dim in self.value.shape)

    @property
    def owner(self) -> Node | None:
        """The node that makes it; None for inputs, parameters and large constants."""
        from onnxgrad.engine.graph.node import Node

        node = self.value.producer()
        return None if node is None else Node(self.graph, node)

    @property
    def inferred_value(self) -> Array | None:
        """The value, if it is known before anything runs (see og.tools.inferred_value), as an array of its own."""
        from onnxgrad.engine.graph.inference import inferred_value

        return inferred_value(self)

    def eval(self, **feeds: object) -> Array:
        """The value now, for these inputs by name and what the others and the parameters hold. For trying things out:
        a function is compiled each time.
        """
        result = self.graph.compile_outonly(self)(**feeds)
        assert isinstance(result, np.ndarray)
        return result

    @property
    def _weight(self) -> int:
        return 3

    def _apply(self, call: Call) -> tuple[Operand, ...]:
        return self.graph.add(call)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and other.value is self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"<Var {describe_value(self.value)}>"
