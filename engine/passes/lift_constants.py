"""Constant nodes become initializers."""

import onnx_ir as ir

from onnxgrad.engine.passes.edit import remove, replace_value
from onnxgrad.engine.passes.scope import Scope

_FORMS = frozenset({"value", "value_float", "value_int", "value_floats", "value_ints"})


def lift_constants(scope: Scope) -> int:
    """Constant -> an initializer of the same name, outside function bodies, which have none."""
    main = scope.model.graph
    count = 0
    for graph in [main, *main.subgraphs()]:
        for node in list(graph):
            if node.op_type == "Constant" and node.domain == "" and set(node.attributes) <= _FORMS:
                count += _lift(scope, graph, node)
    return count


def _lift(scope: Scope, graph: ir.Graph, node: ir.Node) -> bool:
    (output,) = node.outputs
    if output.is_graph_output() or output.name in graph.initializers:
        return False
    tensor = ir.convenience.get_const_tensor(output)
    if tensor is None:
        return False
    shape = ir.Shape(tensor.shape.numpy())
    value = ir.Value(name=output.name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
    replace_value(scope, output, value, fresh=False)
    output.name = None
    remove(node)
    graph.register_initializer(value)
    return True
