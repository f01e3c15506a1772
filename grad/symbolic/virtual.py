"""Virtual gradients: a node stands for a gradient until the graph is compiled, after its forward part was optimized."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.expansion import GRADIENTS, Expanding
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.marks import OF_GRADIENT
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.ir.functions import DOMAIN
from onnxgrad.engine.ir.virtual_operators import is_virtual
from onnxgrad.grad.registry import GradientBuilder
from onnxgrad.grad.reverse import pull_back
from onnxgrad.grad.subgraphs import zeros
from onnxgrad.grad.symbolic.checks import with_shape_of
from onnxgrad.grad.symbolic.walk import Request, between, cotangents_of


def virtual_gradient(graph: Graph, request: Request, wrt: ir.Value) -> ir.Value:
    """The output of a node that stands for the gradient by `wrt`."""
    graph.ir.opset_imports.setdefault(DOMAIN, 1)
    inputs = (*request.targets, *request.seeds, wrt)
    (grad,) = graph.builder.node("VirtualGrad", *inputs, domain=DOMAIN, targets=len(request.targets))
    grad.type, grad.shape = wrt.type, wrt.shape
    return grad


def is_virtual_gradient(node: ir.Node) -> bool:
    """Whether `node` is such a node."""
    return is_virtual(node) and node.op_type == "VirtualGrad"


def _expand(graph: Expanding, node: ir.Node) -> Sequence[ir.Value]:
    """Write out the gradients of all nodes with the same targets and seeds, in one walk."""
    assert node.graph is not None
    alike = [other for other in node.graph if is_virtual_gradient(other) and other.inputs[:-1] == node.inputs[:-1]]
    count = node.attributes["targets"].as_int()
    targets = [value for value in node.inputs[:count] if value is not None]
    wrt = [value for other in alike if (value := other.inputs[-1]) is not None]
    before = set(node.graph)
    op = GradientBuilder(node.graph, parent=graph.op, before=node, share=True)
    op.pull_back, op.follow = pull_back, graph.follow
    path, _ = between(op, targets, wrt)
    if any(is_virtual_gradient(other) for other in path):
        raise GraphError("a virtual gradient is taken of one that comes after it", where=describe(node))
    request = Request(tuple(targets), tuple(node.inputs[count:-1]), tuple(wrt))
    found = pull_back(op, path, cotangents_of(op, request), wrt)
    grads = []
    for other, was in zip(alike, wrt, strict=True):
        x = other.inputs[-1]  # as it is now: an operator may have been replaced by its body
        assert x is not None
        grads.append(with_shape_of(op, found[was] if was in found else zeros(op, x), x, "the gradient"))
    for other, grad in zip(alike, grads, strict=True):
        if other is not node:
            graph.replace(other, [grad])
    for added in node.graph:
        if added not in before:
            added.meta[OF_GRADIENT] = True
    return [grads[alike.index(node)]]


GRADIENTS["VirtualGrad"] = _expand
