"""The graph that a program writes: inputs, parameters, constants, and operators on variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.operand import (
    Call,
    Dim,
    Operand,
    element_type_of,
    run_without_operands,
    stop_running_without_operands,
)
from onnxgrad.engine.graph.signature import OPSET, VERSIONS
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import Builder

if TYPE_CHECKING:
    from onnxgrad.engine.ir.signatures import AttributeValue

_INITIALIZER = 1024  # elements: larger constants become initializers
_NUMBERS = itertools.count()


@runtime_checkable
class Source(Protocol):
    """What stands behind an input of a graph and gives its value at run time: host tensors, parameters, scalars."""

    @property
    def element_type(self) -> ir.DataType:
        """The ONNX type of the elements."""

    @property
    def static_shape(self) -> tuple[Dim, ...]:
        """The shape, with names or None where it may change."""

    @property
    def source_name(self) -> str:
        """What its variable is called, if that name is free."""


class Graph:
    """A computing graph: variables are made by `input`, `param`, `constant` and by operators on them.

    `graph.input("x", "float32", ("N", 784))` is fed at each call; `graph.param(shared)` reads a SharedTensor or
    SharedScalar; everything else is an operator: `og.op.Relu(x @ w + b)`. Equal operators on equal variables are one
    node. Within `with graph:` operators without operands (og.op.RandomNormal) belong to it.

    opset: of the ONNX standard, for the functions of og.op.
    """

    def __init__(self, name: str = "", *, opset: int = OPSET) -> None:
        self.name = name or f"graph_{next(_NUMBERS)}"
        self.user_data: dict[str, object] = {}
        self.ir = ir.Graph([], [], nodes=[], opset_imports={"": opset}, name=self.name)
        self.sources: dict[ir.Value, Source] = {}
        self._builders = [Builder(self.ir, share=True)]

    @property
    def opset(self) -> int:
        """The opset of the standard domain."""
        return self._builders[0].opset

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The variables that something outside gives a value: host inputs, parameters and scalars."""
        return tuple(Var(self, value) for value in self.ir.inputs)

    @property
    def builder(self) -> Builder:
        """What adds nodes: to the graph, or to the body that is being written."""
        return self._builders[-1]

    def constant(self, value: object, dtype: object = None, name: str = "") -> Var:
        """A variable that never changes. Python ints are int64, floats float32, unless a dtype is given."""
        array = np.asarray(value)
        if dtype is not None:
            array = array.astype(np.dtype(object) if dtype in (str, "string") else element_type_of(dtype).numpy())
        elif not isinstance(value, np.ndarray | np.generic):
            array = array.astype({"i": np.int64, "f": np.float32}.get(array.dtype.kind, array.dtype))
        return Var(self, self._constant(array, name))

    def add_source(self, source: Source, name: str = "") -> Var:
        """The variable of a source: the one that it has in this graph, or a new input."""
        for value, known in self.sources.items():
            if known is source:
                return Var(self, value)
        value = ir.Value(
            name=self.fresh(name or source.source_name),
            type=ir.TensorType(source.element_type),
            shape=ir.Shape([dim if isinstance(dim, int) else ir.SymbolicDim(dim) for dim in source.static_shape]),
        )
        self._builders[0].context.name_anonymous_dims(value)
        self.ir.inputs.append(value)
        self.sources[value] = source
        return Var(self, value)

    def fresh(self, name: str) -> str:
        """`name`, with a number behind it if the graph has it already. The name is taken by that."""
        return self._builders[0].names.fresh(name)

    def add(self, call: Call) -> tuple[Var, ...]:
        """The outputs of one operator on variables of this graph; arrays become constants.

        Raises: GraphError for a variable of another graph; ShapeError for operands that do not fit.
        """
        inputs = [None if value is None else self._value(value) for value in call.inputs]
        attributes = {name: self._attribute(value) for name, value in call.attributes.items()}
        if call.domain:
            self.ir.opset_imports.setdefault(call.domain, VERSIONS.get(call.domain, 1))
        values = self.builder.node(call.op_type, *inputs, outputs=call.outputs, domain=call.domain, **attributes)
        return tuple(Var(self, value) for value in values)

    def _value(self, given: Operand | np.ndarray) -> ir.Value:
        if isinstance(given, np.ndarray):
            return self._constant(given)
        if isinstance(given, Var):
            if given.graph is not self:
                raise GraphError(
                    f"{given!r} belongs to graph {given.graph.name!r}, not to {self.name!r}",
                    fix="build both in one graph, or clone one into the other (graph.import_vars)",
                )
            return given.value
        if isinstance(given, Source):
            return self.add_source(given).value
        raise GraphError(
            f"{given!r} cannot be used in a graph", fix="graph.constant(x.numpy()) for a value that never changes"
        )

    def _constant(self, array: np.ndarray, name: str = "") -> ir.Value:
        if array.size <= _INITIALIZER or len(self._builders) > 1:
            value = self.builder.constant(array if array.dtype != object else ir.tensor(array.astype(str)))
            return value
        tensor = ir.tensor(array)
        label = self.fresh(name or "constant")
        value = ir.Value(name=label, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        tensor.name = value.name
        self.ir.register_initializer(value)
        return value

    def _attribute(self, value: object) -> AttributeValue:
        if callable(value):
            raise OptionError("a body is written with graph.body(function, ...)")
        return value  # type: ignore[return-value]

    @contextmanager
    def writing(self, builder: Builder) -> Iterator[None]:
        """Let operators be added by `builder`, which writes a body of this graph."""
        self._builders.append(builder)
        try:
            yield
        finally:
            self._builders.pop()

    def __enter__(self) -> Self:
        run_without_operands(self.add)
        return self

    def __exit__(self, *_: object) -> None:
        stop_running_without_operands(self.add)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.ir.inputs)} inputs, {len(self.ir)} nodes>"
