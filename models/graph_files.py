"""Graphs in files: variables are written as an ONNX model with statistics, and read back with their parameters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.graph.conversion import graph_of_model, model_of_vars
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.exporters.onnx import save
from onnxgrad.importers.onnx import load

_FORMATS = ("onnx",)


class GraphFile(NamedTuple):
    """What was written: numbers of nodes and bytes (all, and of parameters), a checksum, and the names by kind."""

    nodes: int
    bytes: int
    parameter_bytes: int
    checksum: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]


class LoadedGraph(NamedTuple):
    """A graph from a file: its outputs by name, and in the order of the file; what the file says of itself."""

    graph: Graph
    by_name: dict[str, Var]
    outputs: list[Var]
    metadata: dict[str, str]


def save_graph(
    path: str | os.PathLike[str],
    outputs: Sequence[Var] | Mapping[str, Var],
    *,
    keep_var_name: int = 1,
    keep_param_name: bool = True,
    keep_priority: bool = False,
    metadata: Mapping[str, str] | None = None,
    format: str = "onnx",
) -> GraphFile:
    """Write what computes these variables, with the present values of parameters, and say what was written.

    keep_var_name: 0 outputs are called output_0, output_1, ...; 1 outputs keep their names, or have those given; 2 all
    others too, which have short ones otherwise. keep_param_name: likewise for parameters. keep_priority: of nodes.
    metadata: texts that the file carries.

    Raises: GraphError for one variable under two names; OptionError for another format.
    """
    if format not in _FORMATS:
        raise OptionError(f"there is no format {format!r}", fix=f"one of {', '.join(_FORMATS)}")
    model = model_of_vars(outputs, keep_priority=keep_priority)
    _rename(model, keep_var_name, keep_param_name)
    model.metadata_props.update(metadata or {})
    save(model, path)
    parameters = list(model.graph.initializers.values())
    content = Path(path).read_bytes()
    return GraphFile(
        sum(len(graph) for graph in graphs_in(model.graph)),
        len(content),
        sum(value.const_value.nbytes for value in parameters if value.const_value is not None),
        hashlib.sha256(content).hexdigest(),
        tuple(value.name or "" for value in model.graph.inputs),
        tuple(value.name or "" for value in model.graph.outputs),
        tuple(value.name or "" for value in parameters),
    )


def load_graph(
    source: str | os.PathLike[str] | bytes,
    *,
    parameters: bool = True,
    tensor_value_loader: Callable[[str, ir.TensorProtocol], ir.TensorProtocol] | None = None,
) -> LoadedGraph:
    """A graph from a file or its bytes. Floating-point initializers are SharedTensors, unless `parameters` is False.

    tensor_value_loader: gets the name and the tensor of each initializer, and gives the tensor to use.

    Raises: ModelError for what is no model, GraphError for inputs without a type.
    """
    model = load(source)
    if tensor_value_loader is not None:
        for value in model.graph.initializers.values():
            assert value.const_value is not None
            value.const_value = tensor_value_loader(value.name or "", value.const_value)
    graph, by_name = graph_of_model(model, parameters=parameters)
    return LoadedGraph(graph, by_name, list(by_name.values()), dict(model.metadata_props))


def _rename(model: ir.Model, keep_var_name: int, keep_param_name: bool) -> None:
    """Short names for what is not to keep its own; inputs always do, as calls name them."""
    taken = {value.name for value in model.graph.inputs}
    count = 0
    for graph in graphs_in(model.graph):
        for value in [value for node in graph for value in node.outputs if value.name]:
            if value.is_graph_output() and graph is model.graph:
                continue
            if keep_var_name < 2:
                value.name, count = f"v{count}", count + 1
                while value.name in taken:
                    value.name, count = f"v{count}", count + 1
    if keep_var_name < 1:
        for place, value in enumerate(model.graph.outputs):
            value.name = f"output_{place}"
    if not keep_param_name:
        for place, value in enumerate(list(model.graph.initializers.values())):
            value.name = f"p{place}"
