"""Copies of parts of a graph: into the same graph with something replaced, or into another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.marks import NUMBER
from onnxgrad.engine.graph.signature import VERSIONS
from onnxgrad.engine.graph.traversal import nodes_for
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.engine.ir.names import Names, bodies, graphs_in
from onnxgrad.engine.partition.regions import captured_values

Mapping = dict[ir.Value, ir.Value]


def clone_graph(graph: Graph, vars: Sequence[Var] = ()) -> Graph:
    """A new graph with copies of what variables depend on, or of all; `inter_graph_var(copy, var)` finds the copies.

    Inputs, parameters and scalars have the same sources: their values are shared. Names, options and user data stay.
    """
    for var in vars:
        graph.check_own(var)
    copy = Graph(graph.name, opset=graph.opset)
    copy.options, copy.user_data = replace(graph.options), dict(graph.user_data)
    everything = (*graph.ir.inputs, *(value for node in graph.ir for value in node.outputs))
    mapping: Mapping = {}
    copy_values(graph, copy, [var.value for var in vars] or everything, mapping)

    def translate(var: Var) -> Var:
        if var.graph is not graph or var.value not in mapping:
            raise GraphError(f"{copy!r} has no copy of {var!r}")
        return Var(copy, mapping[var.value])

    set_inter_graph_transformer(copy, translate)
    return copy


def import_vars(dest: Graph, vars: Sequence[Var]) -> list[Var]:
    """Copies in `dest` of variables of another graph, with all that they depend on; its own variables as they are."""
    mapping: Mapping = {}
    for var in vars:
        if var.graph is not dest:
            copy_values(var.graph, dest, [var.value], mapping)
    return [var if var.graph is dest else Var(dest, mapping[var.value]) for var in vars]


def set_inter_graph_transformer(dest: Graph, function: Callable[[Var], Var]) -> None:
    """Say which variable of `dest` stands for one of another graph. Raises: GraphError the second time."""
    if dest.translation is not None:
        raise GraphError(f"trans func on graph {dest.name!r} has been setup already")
    dest.translation = function


def inter_graph_var(dest: Graph, var: Var) -> Var:
    """What stands in `dest` for a variable of the graph that it was cloned from.

    Raises: GraphError if it was not, or has no such variable.
    """
    if dest.translation is None:
        raise GraphError(
            f"trans func on graph {dest.name!r} has not been setup",
            fix="graph.clone(), or og.tools.set_inter_graph_transformer",
        )
    return dest.translation(var)


def copy_values(source: Graph, dest: Graph, targets: Sequence[ir.Value], mapping: Mapping) -> None:
    """Add to `dest` what `targets` of `source` need, at the end; `mapping` says where each value went.

    What it holds already is used as it is. In the same graph only what depends on it is copied, and all else stays
    shared. What must be computed along with a value is so for its copy.
    """
    wanted = [*targets, *_also(source, targets)]
    for value in wanted:
        _place(source, dest, value, mapping)
    for node in nodes_for([value for value in wanted if value not in mapping]):
        read = captured_values(node)
        if all(output in mapping for output in node.outputs):
            continue
        if dest is source and not any(mapping.get(value, value) is not value for value in read):
            continue
        for value in read:
            _place(source, dest, value, mapping)
        _copy_node(source, dest, node, mapping)
    for value, others in list(source.dependencies.items()):
        went = mapping.get(value, value)
        if went is not value:
            dest.dependencies.setdefault(went, []).extend(mapping.get(other, other) for other in others)


def _also(graph: Graph, targets: Sequence[ir.Value]) -> list[ir.Value]:
    """What must be computed along with values that the targets depend on."""
    found: dict[ir.Value, None] = {}
    pending = list(targets)
    while pending and graph.dependencies:
        seen = {value for node in nodes_for(pending) for value in node.outputs} | set(pending)
        pending = [v for value in seen for v in graph.dependencies.get(value, ()) if v not in found]
        found.update(dict.fromkeys(pending))
    return list(found)


def _place(source: Graph, dest: Graph, value: ir.Value, mapping: Mapping) -> None:
    """Give an input or initializer its place in `dest`."""
    if value in mapping or value.producer() is not None:
        return
    if dest is source:
        mapping[value] = value
    elif value in source.sources:
        mapping[value] = dest.add_source(source.sources[value], value.name or "").value
    elif value.const_value is not None:
        copy = ir.Value(
            name=dest.fresh(value.name or "constant"), type=value.type, shape=value.shape, const_value=value.const_value
        )
        dest.ir.register_initializer(copy)
        mapping[value] = copy
    else:
        raise GraphError(f"{value.name!r} stands in a body and cannot be copied without it")


def _copy_node(source: Graph, dest: Graph, node: ir.Node, mapping: Mapping) -> None:
    builder = dest.builder
    inputs = [None if value is None else mapping.get(value, value) for value in node.inputs]
    attributes = [_copy_attribute(name, value, mapping, builder.names) for name, value in node.attributes.items()]
    copy = ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs), overload=node.overload)
    copy.metadata_props.update(node.metadata_props)
    copy.meta.update({key: value for key, value in node.meta.items() if key != NUMBER})
    copy.name = builder.names.fresh_node(node.name or node.op_type)
    if node.domain:
        dest.ir.opset_imports.setdefault(node.domain, VERSIONS.get(node.domain, 1))
    function = source.builder.functions.get(node.op_identifier())
    if function is not None:
        builder.functions.setdefault(node.op_identifier(), function)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name = builder.names.fresh(old.name) if old.name else old.name
        new.const_value = old.const_value
        new.meta.update(old.meta)
        mapping[old] = new
    builder.graph.append(copy)
    if any(bodies(copy)):
        infer_node(builder.context, builder.functions, copy)
    else:
        builder.infer(copy)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.type = new.type or old.type
        new.shape = old.shape if new.shape is None else new.shape


def _copy_attribute(name: str, attribute: ir.Attr, mapping: Mapping, names: Names) -> ir.Attr:
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(name, _copy_body(attribute.as_graph(), mapping, names))
    if attribute.type == ir.AttributeType.GRAPHS:
        return ir.AttrGraphs(name, [_copy_body(body, mapping, names) for body in attribute.as_graphs()])
    return attribute


def _copy_body(body: ir.Graph, mapping: Mapping, names: Names) -> ir.Graph:
    copy = body.clone(allow_outer_scope_values=True)
    for graph in graphs_in(copy):
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is not None and value in mapping:
                    node.replace_input_with(index, mapping[value])
        graph.outputs[:] = [mapping.get(value, value) for value in graph.outputs]
    _rename(copy, names)
    return copy


def _rename(body: ir.Graph, names: Names) -> None:
    for value in (*body.inputs, *list(body.initializers.values())):
        value.name = names.fresh(value.name or "value")
    for node in body:
        node.name = names.fresh_node(node.name or node.op_type)
        for output in node.outputs:
            if output.name:
                output.name = names.fresh(output.name)
        for inner in bodies(node):
            _rename(inner, names)
