"""If with a condition that is known becomes the nodes of one branch."""

import onnx_ir as ir

from onnxgrad.engine.passes.edit import move_nodes, remove, replace_value
from onnxgrad.engine.passes.queries import scalar_value
from onnxgrad.engine.passes.scope import Scope


def inline_branches(scope: Scope) -> int:
    """If(constant) -> the branch that it takes."""
    total = 0
    while count := _inline_once(scope):  # a branch may hold another If
        total += count
        scope.forget_graphs()
    return total


def _inline_once(scope: Scope) -> int:
    count = 0
    for graph in scope.graphs():
        for node in list(graph):
            if node.op_type == "If" and node.domain == "" and node.graph is graph:
                condition = scalar_value(node.inputs[0])
                if condition is not None and scope.opset(graph):
                    _inline(scope, node, bool(condition))
                    count += 1
    return count


def _inline(scope: Scope, node: ir.Node, condition: bool) -> None:
    branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
    nodes = set(move_nodes(scope, branch, node))
    outputs = list(branch.outputs)
    branch.outputs.clear()
    for old, new in zip(node.outputs, outputs, strict=True):
        if old.uses() or old.is_graph_output():
            replace_value(scope, old, new, fresh=new.producer() in nodes)
    remove(node)
