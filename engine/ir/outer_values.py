"""What bodies of a node read from the graphs around them, kept while the node goes through protos."""

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from onnxgrad.engine.ir.names import bodies, graphs_in, values_in

Outer = Mapping[str, ir.Value]
"""name in the proto -> the value outside"""


def node_with_outer_names(node: ir.Node) -> tuple[onnx.NodeProto, Outer]:
    """The node as a proto whose bodies call what they read from outside by names that no function body has."""
    proto: onnx.NodeProto = ir.to_proto(node)
    graphs = [graph for body in bodies(node) for graph in graphs_in(body)]
    own = {value for body in bodies(node) for value in values_in(body)}
    read = [value for graph in graphs for value in (*(v for inner in graph for v in inner.inputs), *graph.outputs)]
    outside = dict.fromkeys(value for value in read if value is not None and value not in own)
    outer = {f"onnxgrad.outer.{i}": value for i, value in enumerate(outside)}
    names = {value.name or "": name for name, value in outer.items()}
    if names:
        _rename(proto, names)
    return proto, outer


def function_with_outer_values(proto: onnx.FunctionProto, outer: Outer) -> ir.Function:
    """The function, whose bodies read the values outside again."""
    if not outer:
        return ir.serde.deserialize_function(proto)
    # A formal of its name stands for each value outside until there is a graph to put the value into.
    wide = onnx.FunctionProto()
    wide.CopyFrom(proto)
    wide.input.extend(outer)
    function = ir.serde.deserialize_function(wide)
    formals = list(function.inputs)[len(proto.input) :]
    del function.inputs[len(proto.input) :]
    for formal in formals:
        ir.convenience.replace_all_uses_with(formal, outer[formal.name or ""], replace_graph_outputs=True)
    return function


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for attribute in node.attribute:
        for inner in attribute.g.node:
            inner.input[:] = [names.get(name, name) for name in inner.input]
            _rename(inner, names)
        for output in attribute.g.output:
            output.name = names.get(output.name, output.name)
