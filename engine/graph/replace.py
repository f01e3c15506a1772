"""New outputs from old ones, with other variables, nodes or inputs in them; what was there stays as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.copying import copy_values
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.node import Node, list_of, same_graph
from onnxgrad.engine.graph.traversal import get_dep_vars
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import describe_value


def replace_vars(dst: Sequence[Var], replacements: Mapping[Var, Var]) -> list[Var]:
    """`dst` computed with the values of the mapping in the place of its keys: new variables of the same graph.

    With an empty mapping, or where nothing depends on its keys, `dst` itself. Raises: GraphError for variables of
    several graphs, and for types that differ.
    """
    if not replacements:
        return list(dst)
    graph = same_graph([*dst, *replacements, *replacements.values()])
    for old, new in replacements.items():
        if old.element_type is not None and new.element_type is not None and old.element_type != new.element_type:
            raise GraphError(f"{new!r} cannot stand for {old!r}", why="their types differ", fix="new.astype(old.dtype)")
    return _copied(graph, dst, {old.value: new.value for old, new in replacements.items()})


def replace_nodes(dst: Sequence[Var], replacements: Mapping[Node, Node]) -> list[Var]:
    """`dst` computed with the outputs of other nodes: as `replace_vars` for each output.

    Raises: GraphError for nodes that have not equally many outputs.
    """
    if not replacements:
        return list(dst)
    pairs: dict[Var, Var] = {}
    for old, new in replacements.items():
        ours, theirs = _usable(old), _usable(new)
        if len(ours) != len(theirs):
            raise GraphError(
                f"a node with {len(theirs)} outputs cannot stand for one with {len(ours)}", where=f"{new!r} for {old!r}"
            )
        pairs.update(zip(ours, theirs, strict=True))
    return replace_vars(dst, pairs)


def embed_inputs(dst: Sequence[Var], data: Sequence[object] | Mapping[str, object]) -> list[Var]:
    """`dst` with constants for its inputs on the host: by name, or all of them in the order of the graph.

    Raises: InputError for a name that is none, for too few or too many values, or a value that does not fit.
    """
    targets = list_of(dst)
    graph = same_graph(targets)
    inputs = host_inputs(targets)
    if isinstance(data, Mapping):
        by_name = {var.name: var for var in inputs}
        for name in data:
            if name not in by_name:
                raise InputError(f"there is no input {name!r}", fix=f"one of {', '.join(by_name)}")
        pairs = [(by_name[name], value) for name, value in data.items()]
    else:
        if len(data) != len(inputs):
            raise InputError(f"{len(inputs)} inputs need as many values, not {len(data)}")
        pairs = list(zip(inputs, data, strict=True))
    constants = {}
    for var, value in pairs:
        fitting = HostTensor(var.name, _element_type(var), var.shape, value=value)
        constants[var] = graph.constant(fitting.array)
    return replace_vars(targets, constants)


def convert_inputs(dst: Sequence[Var], params: Sequence[Var] | None = None) -> list[Var]:
    """`dst` with inputs on the host in the place of parameters: of these, or of all. They keep their names."""
    targets = list_of(dst)
    graph = same_graph(targets)
    chosen = params if params is not None else [var for var in _read_inputs(targets) if not _is_host(var)]
    fresh = {}
    for var in chosen:
        if var.value not in graph.sources:
            raise GraphError(f"{var!r} is no parameter")
        fresh[var] = graph.add_source(HostTensor(f"{var.name}.input", _element_type(var), var.shape))
    return replace_vars(targets, fresh)


def find_vars_by_name(vars: Graph | Sequence[Var], names: Sequence[str]) -> list[Var]:
    """The variables of these names, in that order, in a graph or among what variables depend on.

    Raises: GraphError for a name that is not there.
    """
    if isinstance(vars, Graph):
        values = [*vars.ir.inputs, *vars.ir.initializers.values(), *(v for node in vars.ir for v in node.outputs)]
        known = {value.name or "": Var(vars, value) for value in values}
    else:
        known = {var.name: var for var in get_dep_vars(vars)}
    for name in names:
        if name not in known:
            raise GraphError(f"there is no variable {name!r}")
    return [known[name] for name in names]


def host_inputs(vars: Sequence[Var]) -> list[Var]:
    """The inputs that calls must give, among what variables depend on, in the order of the graph."""
    return [var for var in _read_inputs(vars) if _is_host(var)]


def _read_inputs(vars: Sequence[Var]) -> list[Var]:
    graph = same_graph(vars)
    read = set(get_dep_vars(vars))
    return [var for var in graph.inputs if var in read]


def _is_host(var: Var) -> bool:
    return isinstance(var.graph.sources.get(var.value), HostTensor)


def _element_type(var: Var) -> ir.DataType:
    if var.element_type is None:
        raise GraphError(f"the type of {describe_value(var.value)} is not known")
    return var.element_type


def _copied(graph: Graph, dst: Sequence[Var], mapping: dict[ir.Value, ir.Value]) -> list[Var]:
    copy_values(graph, graph, [var.value for var in dst], mapping)
    return [Var(graph, mapping.get(var.value, var.value)) for var in dst]


def _usable(node: Node) -> list[Var]:
    return [var for var in node.outputs if var.name]
