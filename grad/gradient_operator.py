"""The operator Gradient of ai.onnx.preview.training: its nodes become the nodes that compute the gradient."""

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, ModelError
from onnxgrad.engine.ir.builder import Builder, describe
from onnxgrad.engine.ir.functions import link_functions
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.grad.reverse import gradients

DOMAIN = "ai.onnx.preview.training"
_OPSET = 18  # as for gradient_model: scatter operators that add


def expand_gradients(model: ir.Model) -> None:
    """Replace each Gradient node of the main graph: dy/dx for x in `xs`, where y is a function of `xs` and `zs`.

    Inputs of a node that are not the values that `xs` and `zs` name are put in their place: what lies between them and
    y is computed a second time. Gradients of gradients work: the nodes are replaced in their order.

    Raises: ModelError for names that are not in the graph; GradientRuleMissing; OpsetError.
    """
    raise_opset(model, _OPSET)
    link_functions(model)
    infer_shapes(model)
    for node in [node for node in model.graph if (node.domain, node.op_type) == (DOMAIN, "Gradient")]:
        _expand(model.graph, node)
    model.graph.sort()
    model.graph.opset_imports.pop(DOMAIN, None)


def _expand(graph: ir.Graph, node: ir.Node) -> None:
    xs, zs = _names(node, "xs"), _names(node, "zs")
    named = [_value(graph, node, name) for name in (*xs, *zs)]
    target = _value(graph, node, node.attributes["y"].as_string())
    given = [value for value in node.inputs if value is not None]
    if len(given) != len(named):
        raise ModelError("a Gradient node needs an input for each name", where=describe(node))
    if given != named:
        target = _compute_again(graph, node, target, dict(zip(named, given, strict=True)))
    op = Builder(graph)
    seed = op.Expand(op.constant_like(target, 1), op.shape_of(target))
    wrt = given[: len(xs)]
    found = gradients(target, wrt, seed)
    op = Builder(graph)
    for output, x, grad in zip(node.outputs, wrt, found, strict=False):
        name, output.name = output.name, None
        if not name:
            continue
        result = op.Identity(grad if grad is not None else op.zeros_like(x))
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        result.name = name
    graph.remove(node, safe=True)


def _names(node: ir.Node, attribute: str) -> Sequence[str]:
    return node.attributes[attribute].as_strings() if attribute in node.attributes else ()


def _value(graph: ir.Graph, node: ir.Node, name: str) -> ir.Value:
    """The value of the main graph with this name; looked up anew, since gradients may replace values."""
    for value in (*graph.inputs, *graph.initializers.values(), *(o for other in graph for o in other.outputs)):
        if value.name == name:
            return value
    raise ModelError(f"the graph has no value {name!r}", where=describe(node))


def _compute_again(graph: ir.Graph, gradient: ir.Node, target: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """`target` as a function of other values: copies of the nodes that lie between. Returns its copy."""
    op = Builder(graph)
    copies = dict(values)
    needed = {target}
    between: list[ir.Node] = []
    for node in reversed(list(graph)):
        if needed & set(node.outputs) - set(values):
            between.append(node)
            needed |= {value for value in node.inputs if value is not None}
    for node in reversed(between):
        if any(
            attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
            for attribute in node.attributes.values()
        ):
            raise GradientError(
                "a Gradient node at other values cannot go through control flow",
                where=describe(gradient),
                why=f"{node.op_type} {node.name!r} has a sub-graph",
                fix="pass the values that xs and zs name as inputs of the node",
            )
        inputs = [None if value is None else copies.get(value, value) for value in node.inputs]
        copy = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), num_outputs=len(node.outputs))
        op.insert(copy)
        copies.update(zip(node.outputs, copy.outputs, strict=True))
    return copies[target]
