"""The graph that a program writes: inputs, parameters, constants, and operators on variables."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.bodies import add_with_bodies
from onnxgrad.engine.graph.callback import CallbackFunction
from onnxgrad.engine.graph.callback_nodes import insert_callback
from onnxgrad.engine.graph.compiled import GraphFunction
from onnxgrad.engine.graph.compiling import Result, compile_function
from onnxgrad.engine.graph.fitting import check_operands, declared_shape
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.marks import PRIORITY
from onnxgrad.engine.graph.operand import (
    Call,
    Dim,
    Operand,
    element_type_of,
    run_without_operands,
    stop_running_without_operands,
)
from onnxgrad.engine.graph.options import options_from_environment, user_data_from_environment
from onnxgrad.engine.graph.outspec import CopyOutput, Effect, Outspec, copy_output
from onnxgrad.engine.graph.parts import Part, compile_parts
from onnxgrad.engine.graph.shared_scalar import SharedScalar
from onnxgrad.engine.graph.shared_tensor import SharedTensor
from onnxgrad.engine.graph.signature import OPSET, VERSIONS, as_array
from onnxgrad.engine.graph.source import Source
from onnxgrad.engine.graph.tracking import note_origin
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import Builder, string_tensor
from onnxgrad.engine.runtime.source import ModelLike
from onnxgrad.engine.runtime.values import Array

if TYPE_CHECKING:
    from onnxgrad.engine.graph.execution import Observer
    from onnxgrad.engine.ir.signatures import AttributeValue

_INITIALIZER = 1024  # elements: larger constants become initializers
_NUMBERS = itertools.count()


class Graph:
    """A computing graph: variables are made by `input`, `param`, `constant` and by operators on them.

    `graph.input("x", "float32", ("N", 784))` is fed at each call; `graph.param(shared)` reads a SharedTensor or
    SharedScalar; everything else is an operator: `og.op.Relu(x @ w + b)`. Equal operators on equal variables are one
    node. Within `with graph:` operators without operands (og.op.RandomNormal) belong to it.

    opset: of the ONNX standard, for the functions of og.op. over: what to add to, instead of nothing; it belongs to
    the graph from then on, and its inputs get their sources by `mark_as_input`.
    """

    def __init__(self, name: str = "", *, opset: int = OPSET, over: ir.Graph | None = None) -> None:
        self.name = name or f"graph_{next(_NUMBERS)}"
        self.user_data: dict[str, object] = user_data_from_environment()
        self.ir = over if over is not None else ir.Graph([], [], nodes=[], opset_imports={"": opset}, name=self.name)
        self.sources: dict[ir.Value, Source] = {}
        self.options = options_from_environment()
        self.dependencies: dict[ir.Value, list[ir.Value]] = {}
        self.observers: list[Observer] = []
        self.tracks = 0  # blocks of og.plugins.track_nodes
        self.known_gradients: dict[tuple[object, ...], ir.Value | None] = {}  # asked for before
        self.translation: Callable[[Var], Var] | None = None  # of variables of another graph
        self.went: dict[ir.Value, Var | None] = {}  # when the graph was last optimized
        self.functions: weakref.WeakSet[GraphFunction[Result]] = weakref.WeakSet()
        self._priority = 0
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

    @property
    def builders(self) -> tuple[Builder, ...]:
        """The builder of the graph, and those of the bodies that are being written, from the outside in."""
        return tuple(self._builders)

    def input(
        self,
        name: str,
        dtype: object = "float32",
        shape: Sequence[Dim] | None = None,
        *,
        value: object = None,
        static_infer: bool = True,
    ) -> Var:
        """A variable that calls give a value, by its name or position.

        shape: ints, names for sizes that are equal wherever the name stands, None for any size; without it the rank is
        that of `value`, or anything. value: what it has until a call gives another. static_infer: whether values of
        other variables may be inferred from it (HostTensor).

        Raises: GraphError for a name that the graph has already; InputError for a value that does not fit.
        """
        if any(known.name == name for known in self.ir.inputs):
            raise GraphError(f"graph {self.name!r} has an input {name!r} already", fix="choose another name")
        sizes = declared_shape(shape, name)
        tensor = HostTensor(name, element_type_of(dtype), sizes, value=value, static_infer=static_infer)
        if tensor.is_empty:
            self.options.allocate_static_mem_after_graph_compile = False
        return self.add_source(tensor)

    def param(self, source: SharedTensor | SharedScalar, name: str = "", *, volatile: bool = False) -> Var:
        """The variable of a parameter: what it reads is what the parameter holds when a function runs.

        volatile: the parameter's shape may change between runs; without, it is fixed in the graph.

        Raises: GraphError for a SharedTensor whose shape is not known.
        """
        if not isinstance(source, SharedTensor | SharedScalar):
            raise InputError(f"{source!r} is no parameter", fix="og.SharedTensor(array), og.SharedScalar(number)")
        return source.var(self, name, volatile=volatile)

    def source_of(self, var: Var) -> Source:
        """What gives an input its value. Raises: GraphError for a variable of another graph, or that is no input."""
        value = self._value(var)
        if value not in self.sources:
            node = value.producer()
            made = "a constant" if node is None or node.op_type == "Constant" else f"the output of {node.op_type}"
            raise GraphError(f"{var!r} is no input, parameter or scalar", why=f"it is {made}")
        return self.sources[value]

    def mark_as_input(self, value: ir.Value, source: Source | None = None) -> Var:
        """Give an input of `graph.ir` its source: by default a HostTensor, as for an input of a file.

        Raises: GraphError for a value that is no input of this graph.
        """
        if value not in self.ir.inputs or value.dtype is None:
            raise GraphError(f"{value.name!r} is no typed input of graph {self.name!r}")
        sizes = None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)
        self.sources.setdefault(
            value, source if source is not None else HostTensor(value.name or "", value.dtype, sizes)
        )
        return Var(self, value)

    def constant(self, value: object, dtype: object = None, name: str = "") -> Var:
        """A variable that never changes. Python ints are int64, floats float32, unless a dtype is given."""
        array = as_array(value)
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
        sizes = source.static_shape
        shape = None if sizes is None else ir.Shape([d if isinstance(d, int) else ir.SymbolicDim(d) for d in sizes])
        label = self.fresh(name or source.source_name)
        value = ir.Value(name=label, type=ir.TensorType(source.element_type), shape=shape)
        if shape is not None:
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
        if call.domain:
            self.ir.opset_imports.setdefault(call.domain, VERSIONS.get(call.domain, 1))
        if any(callable(value) for value in call.attributes.values()):
            values = add_with_bodies(self, call.op_type, inputs, call.attributes)
        else:
            check_operands(call.op_type, call.domain, inputs)
            given: Mapping[str, AttributeValue] = call.attributes  # type: ignore[assignment]  # to_attributes checks
            values = self.builder.node(call.op_type, *inputs, outputs=call.outputs, domain=call.domain, **given)
        node = values[0].producer()
        if self._priority and node is not None:
            node.meta[PRIORITY] = min(node.meta.get(PRIORITY, self._priority), self._priority)
        if self.tracks and node is not None:
            note_origin(node)
        return tuple(Var(self, value) for value in values)

    def _value(self, given: Operand | np.ndarray) -> ir.Value:
        if isinstance(given, np.ndarray):
            return self._constant(given)
        if isinstance(given, Var):
            self.check_own(given)
            return given.value
        if isinstance(given, SharedTensor | SharedScalar):
            return given.var(self).value
        if isinstance(given, Source):
            return self.add_source(given).value
        raise GraphError(
            f"{given!r} cannot be used in a graph", fix="graph.constant(x.numpy()) for a value that never changes"
        )

    def _constant(self, array: np.ndarray, name: str = "") -> ir.Value:
        array = array.copy()  # what the caller does with it does not matter
        if array.size <= _INITIALIZER or len(self._builders) > 1:
            return self.builder.constant(array)
        tensor = string_tensor(array) if array.dtype.kind in "OSU" else ir.tensor(array)
        label = self.fresh(name or "constant")
        value = ir.Value(name=label, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        tensor.name = value.name
        self.ir.register_initializer(value)
        return value

    def check_own(self, var: Var) -> None:
        """Raises: InputError for what is no variable, GraphError for one of another graph."""
        if not isinstance(var, Var):
            raise InputError(f"{var!r} is no variable of a graph")
        if var.graph is not self:
            raise GraphError(
                f"{var!r} belongs to graph {var.graph.name!r}, not to {self.name!r}",
                fix="build both in one graph, or clone one into the other (og.tools.import_vars)",
            )
        place = var.value.graph
        if place is not self.ir and all(builder.graph is not place for builder in self._builders):
            raise GraphError(f"{var!r} belongs to a body that is finished", fix="let the body return it")

    @overload
    def compile(
        self,
        inputs: Sequence[Var] | None,
        outspec: CopyOutput,
        *,
        copy: bool = ...,
        optimize_for_inference: bool = ...,
    ) -> GraphFunction[Array]: ...

    @overload
    def compile(
        self,
        inputs: Sequence[Var] | None,
        outspec: Effect | Sequence[Outspec],
        *,
        copy: bool = ...,
        optimize_for_inference: bool = ...,
    ) -> GraphFunction[list[Array]]: ...

    def compile(
        self,
        inputs: Sequence[Var] | None,
        outspec: Outspec | Sequence[Outspec],
        *,
        copy: bool = False,
        optimize_for_inference: bool = False,
    ) -> GraphFunction[Array] | GraphFunction[list[Array]]:
        """A function that computes what the outspec says.

        inputs: the positional arguments, all inputs that are needed and have no value; None: arguments by name only.
        outspec: one of these or a list of them: `og.copy_output(var)`, which calls return; `(var, callback)`, which is
        called with the value of each run (og.lazy_callback: without a copy); a var, which is computed for what it
        updates. copy: every function works on a copy of its part of the graph; this asks for what is so in any case.
        optimize_for_inference: all passes are applied, and fixed parameters are constants with their present values.

        Raises: GraphError for an empty outspec, a missing input, or nodes that cannot run; InputError for an input that
        is not needed; ExecutionError for what onnxruntime refuses.
        """
        del copy
        return compile_function(self, inputs, outspec, optimize_for_inference)  # type: ignore[return-value]

    @overload
    def compile_outonly(self, vars: Var, inputs: Sequence[Var] | None = ...) -> GraphFunction[Array]: ...

    @overload
    def compile_outonly(
        self, vars: Sequence[Var], inputs: Sequence[Var] | None = ...
    ) -> GraphFunction[list[Array]]: ...

    def compile_outonly(
        self, vars: Var | Sequence[Var], inputs: Sequence[Var] | None = None
    ) -> GraphFunction[Array] | GraphFunction[list[Array]]:
        """A function that returns the values of these variables: a list, or one value for one variable."""
        if isinstance(vars, Var):
            return self.compile(inputs, copy_output(vars))
        return self.compile(inputs, [copy_output(var) for var in vars])

    def compile_multi_part(self, parts: Sequence[Part]) -> list[GraphFunction[Result]]:
        """Functions that run in turn: each `(inputs, outspec)`, as for `compile`, goes on from what those before made.

        Every value is computed by the first part that needs it, and stays on the device until the last part that reads
        it has run; an input that a part does not name is that of the part before which read it. Parts run in their
        order, 0, 1, ..., and part 0 may begin anew at any time. Parameters are read when a part runs: what a part
        updates is seen by those after it.

        Raises: GraphError as `compile`, and (when called) for a part out of its turn.
        """
        return compile_parts(self, parts)

    @overload
    def callback(self, vars: Var, function: Callable[..., object] | CallbackFunction) -> Var: ...

    @overload
    def callback(self, vars: Sequence[Var], function: Callable[..., object] | CallbackFunction) -> tuple[Var, ...]: ...

    def callback(
        self, vars: Var | Sequence[Var], function: Callable[..., object] | CallbackFunction
    ) -> Var | tuple[Var, ...]:
        """The same variables, and in every run that computes what is returned, `function` is called with their values.

        It gets one value, or the list of them; see og.lazy_callback and ValueProxy. Gradients flow through.
        """
        if isinstance(vars, Var):
            return insert_callback(self, [vars], function)[0]
        return insert_callback(self, vars, function)

    def clear_device_memory(self) -> None:
        """Wait for every function of this graph, and let go of the memory of runs; the next run takes it again."""
        for function in list(self.functions):
            function.clear_device_memory()

    @contextmanager
    def priority(self, number: int) -> Iterator[None]:
        """Give nodes that are added in the block a priority: lower numbers come earlier where the order is free.

        0 changes nothing. Within another block the lower of the two counts.
        """
        outer = self._priority
        self._priority = min(outer, number) if outer and number else outer or number
        try:
            yield
        finally:
            self._priority = outer

    def add_extra_dep(self, var: Var, dep: Var) -> None:
        """Compute `dep` whenever a function needs `var`, in whatever order. Raises: GraphError for another graph's."""
        self.check_own(var)
        self.check_own(dep)
        known = self.dependencies.setdefault(var.value, [])
        if dep.value not in known:
            known.append(dep.value)

    def set_option(self, name: str, value: int) -> int:
        """Set an option by name; the result is what it was. Raises: OptionError for a name or value that is none."""
        return self.options.set(name, value)

    def clone(self, *vars: Var) -> Graph:
        """A new graph with copies of what these variables depend on, or of all: see og.tools.clone_graph."""
        from onnxgrad.engine.graph.copying import clone_graph

        return clone_graph(self, vars)

    @staticmethod
    def from_model(
        model: ModelLike, *, parameters: bool = True, opset: int | None = None
    ) -> tuple[Graph, dict[str, Var]]:
        """A graph with the nodes of a model, and its outputs by name: see og.tools.graph_of_model."""
        from onnxgrad.engine.graph.conversion import graph_of_model

        return graph_of_model(model, parameters=parameters, opset=opset)

    def to_model(self, outputs: Sequence[Var] | Mapping[str, Var], *, parameters: bool = True) -> ir.Model:
        """A model that computes variables, for `og.save`: see og.tools.model_of_vars."""
        from onnxgrad.engine.graph.conversion import model_of_vars

        return model_of_vars(outputs, parameters=parameters)

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
