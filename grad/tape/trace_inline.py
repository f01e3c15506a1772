"""Writing a graph that was called like an operator into the graph of a traced function, node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.signature import VERSIONS
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import Functions, add_function, functions_of
from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.engine.ir.names import Names, bodies, graphs_in

_Values = dict[ir.Value, ir.Value]


def inline(graph: Graph, body: ir.Graph, inputs: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.Node]]:
    """Add the nodes of `body`, with `inputs` in the places of its inputs; returns its outputs, and its nodes here.

    Equal nodes become one, and shapes that are known here become constants.
    """
    builder = graph.builder
    values: _Values = dict(zip(body.inputs, inputs, strict=True))
    for initializer in body.initializers.values():
        assert initializer.const_value is not None
        values[initializer] = builder.constant(initializer.const_value)
    functions = functions_of(body)
    for node in body:
        _add(graph, builder, node, values, functions)
    made = (values[node.outputs[0]].producer() for node in body if node.outputs)
    return [values[output] for output in body.outputs], [node for node in dict.fromkeys(made) if node is not None]


def _add(graph: Graph, builder: Builder, node: ir.Node, values: _Values, functions: Functions) -> None:
    given = [None if value is None else values[value] for value in node.inputs]
    known = _known(builder, node, given)
    if known is not None:
        values[node.outputs[0]] = known
        return
    if node.domain:
        graph.ir.opset_imports.setdefault(node.domain, VERSIONS.get(node.domain, 1))
    function = functions.get(node.op_identifier())
    if function is None and not any(bodies(node)):
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        made: Sequence[ir.Value] = builder.node(
            node.op_type, *given, outputs=len(node.outputs), domain=node.domain, **attributes
        )
    else:
        made = _copied(builder, node, given, values, functions).outputs
    for old, new in zip(node.outputs, made, strict=True):
        if new.type is None:
            new.type = old.type
        values[old] = new


def _known(builder: Builder, node: ir.Node, given: Sequence[ir.Value | None]) -> ir.Value | None:
    """The constant that a node is: one in `body`, or a shape that is known here."""
    if node.domain:
        return None
    if node.op_type == "Constant" and "value" in node.attributes:
        return builder.constant(_array(node.attributes["value"].as_tensor()))
    source = given[0] if given else None
    if node.op_type != "Shape" or source is None or source.shape is None:
        return None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", None)
    sizes = list(source.shape)[start:end]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return builder.constant([int(size) for size in sizes])  # type: ignore[arg-type]


def _array(tensor: ir.TensorProtocol) -> np.ndarray | ir.TensorProtocol:
    return tensor if tensor.dtype == ir.DataType.STRING or tensor.dtype.bitwidth < 8 else tensor.numpy()


def _copied(
    builder: Builder, node: ir.Node, given: Sequence[ir.Value | None], values: _Values, functions: Functions
) -> ir.Node:
    """A call of a function, or a node with bodies, which read values from outside."""
    op_type = node.op_type
    function = functions.get(node.op_identifier())
    if function is not None:
        op_type = _adopt(builder, function, functions).name
    attributes = [_copied_attribute(attribute, values, builder.names) for attribute in node.attributes.values()]
    copy = ir.Node(node.domain, op_type, given, attributes, num_outputs=len(node.outputs))
    copy.name = builder.names.fresh_node(op_type)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name = builder.names.fresh(op_type) if old.name else ""
        new.type, new.shape = old.type, None
    builder.graph.append(copy)
    infer_node(builder.context, builder.functions, copy)
    return copy


def _adopt(builder: Builder, function: ir.Function, functions: Functions) -> ir.Function:
    """The function among those of the builder, under a name that no other has, with those that it calls."""
    copy = function.clone()
    for node in copy.all_nodes():
        inner = functions.get(node.op_identifier())
        if inner is not None:
            node.op_type = _adopt(builder, inner, functions).name
    return add_function(builder.functions, function.name, copy.graph)


def _copied_attribute(attribute: ir.Attr, values: _Values, names: Names) -> ir.Attr:
    if attribute.type != ir.AttributeType.GRAPH:
        return attribute
    body = attribute.as_graph().clone(allow_outer_scope_values=True)
    for graph in graphs_in(body):
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is not None and value in values:
                    node.replace_input_with(index, values[value])
            node.name = names.fresh_node(node.name or node.op_type)
            for output in node.outputs:
                output.name = names.fresh(output.name) if output.name else output.name
        for value in (*graph.inputs, *list(graph.initializers.values())):
            value.name = names.fresh(value.name or "value")
        graph.outputs[:] = [values.get(value, value) for value in graph.outputs]
    return ir.AttrGraph(attribute.name, body)
