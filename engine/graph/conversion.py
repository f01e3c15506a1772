"""Graphs from models, and models from graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import Lowered, lower
from onnxgrad.engine.graph.marks import PRIORITY
from onnxgrad.engine.graph.node import same_graph
from onnxgrad.engine.graph.shared_scalar import SharedScalar
from onnxgrad.engine.graph.shared_tensor import SharedTensor, VolatileTensor
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import Builder, describe_value, is_float
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.engine.passes.edit import remove_dead
from onnxgrad.importers.onnx import ModelSource, load

_KEPT_PRIORITY = "onnxgrad.priority"


def graph_of_model(
    source: ModelSource, *, parameters: bool = True, opset: int | None = None
) -> tuple[Graph, dict[str, Var]]:
    """A graph with the nodes of a model, and its outputs by name, in their order; the model stays as it is.

    Inputs are inputs on the host; those with a default value have it. Floating-point initializers are parameters, with
    `parameters`; all others are constants. Types and shapes are inferred. opset: raised to this first.

    Raises: GraphError for an input without a type; OpsetError.
    """
    model = load(source)
    copy = clone(model)
    if opset is not None:
        raise_opset(copy, opset)
    infer_shapes(copy)
    defaults = {value: value.const_value for value in copy.graph.inputs if value.const_value is not None}
    for value in defaults:
        copy.graph.initializers.pop(value.name or "", None)
        value.const_value = None
    graph = Graph(model.graph.name or "", over=copy.graph)
    for value in graph.ir.inputs:
        if value.dtype is None:
            raise GraphError(f"the input {value.name!r} has no type", fix="give the model's inputs types")
        sizes = None if value.shape is None else tuple(d if isinstance(d, int) else d.value for d in value.shape)
        given = None if value not in defaults else defaults[value].numpy()
        graph.mark_as_input(value, HostTensor(value.name or "", value.dtype, sizes, value=given))
    if parameters:
        for value in [value for value in graph.ir.initializers.values() if is_float(value)]:
            _become_parameter(graph, value)
    for node in graph.ir:
        if _KEPT_PRIORITY in node.metadata_props:
            node.meta[PRIORITY] = int(node.metadata_props.pop(_KEPT_PRIORITY))
    outputs = {value.name or "": Var(graph, value) for value in graph.ir.outputs}
    graph.ir.outputs.clear()
    return graph, outputs


def _become_parameter(graph: Graph, value: ir.Value) -> None:
    assert value.const_value is not None and value.dtype is not None
    shared = SharedTensor(value.const_value.numpy(), value.dtype, name=value.name or "")
    graph.ir.initializers.pop(value.name or "")
    value.const_value = None
    graph.ir.inputs.append(value)
    graph.mark_as_input(value, shared)


def model_of_vars(
    outputs: Sequence[Var] | Mapping[str, Var], *, parameters: bool = True, keep_priority: bool = False
) -> ir.Model:
    """A model that computes variables, called by their names or those given; the graph stays as it is.

    Inputs are those on the host that are needed, in the order of the graph. With `parameters`, SharedTensors and
    SharedScalars are initializers with their present values, else inputs. Nothing is updated or called back.
    keep_priority: priorities of nodes are written into their metadata.

    Raises: GraphError for no variables, one variable under two names, or nodes that nothing expands.
    """
    named = dict(outputs) if isinstance(outputs, Mapping) else {var.name: var for var in outputs}
    if len(set(named.values())) != len(named) or (not isinstance(outputs, Mapping) and len(outputs) != len(named)):
        raise GraphError("a variable is given twice", fix="one name for each output; og.op.Identity gives it a second")
    vars = list(named.values())
    lowered = lower(same_graph(vars), [var.value for var in vars])
    model = lowered.model
    _keep_only(lowered)
    if keep_priority:
        for node in model.graph.all_nodes():
            if PRIORITY in node.meta:
                node.metadata_props[_KEPT_PRIORITY] = str(node.meta[PRIORITY])
    if parameters:
        _embed_parameters(lowered)
    _name_outputs(model.graph, list(named))
    model.producer_name = "onnxgrad"
    return model


def _keep_only(lowered: Lowered) -> None:
    """Without outputs that nobody asked for: next values of parameters."""
    graph = lowered.model.graph
    by_name = {value.name: value for value in graph.outputs}
    graph.outputs.clear()
    graph.outputs.extend(by_name[name] for name in lowered.targets)
    remove_dead(list(graph))
    used = {value for value in graph.inputs if value.uses() or value.is_graph_output()}
    graph.inputs[:] = [value for value in graph.inputs if value in used]


def _embed_parameters(lowered: Lowered) -> None:
    graph = lowered.model.graph
    for value in list(graph.inputs):
        source = lowered.sources[value.name or ""]
        if isinstance(source, VolatileTensor):
            source = source.tensor
        if not isinstance(source, SharedTensor | SharedScalar):
            continue
        present = source.get()
        if present is None:
            raise GraphError(f"the parameter {value.name!r} has no value", where=describe_value(value), fix="set() one")
        graph.inputs.remove(value)
        array = np.asarray(present, source.element_type.numpy())  # a scalar is read as a number of Python
        value.const_value, value.shape = ir.tensor(array, dtype=value.dtype, name=value.name), ir.Shape(array.shape)
        graph.register_initializer(value)


def _name_outputs(graph: ir.Graph, names: Sequence[str]) -> None:
    """Call the outputs so; whatever else has such a name takes another."""
    op = Builder(graph)
    taken = dict(zip(graph.outputs, names, strict=True))
    values = [*graph.inputs, *graph.initializers.values(), *(v for node in graph.all_nodes() for v in node.outputs)]
    for value in values:
        if value.name in names and taken.get(value) != value.name and not value.is_graph_input():
            value.name = op.names.fresh(f"{value.name}.inner")
    for value, name in taken.items():
        if value.name != name:
            if any(other.name == name for other in graph.inputs):
                raise GraphError(f"an output cannot be called {name!r}", why="an input has that name")
            value.name = name
