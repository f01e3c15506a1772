"""Calls of model-local functions become the nodes of their bodies."""

from collections import Counter

import onnx_ir as ir

from onnxgrad.engine.ir.functions import DOMAIN, inline_call
from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.engine.passes.scope import Scope

_NODES = 4096  # of all copies of a body that is called more than once


def inline_functions(scope: Scope) -> int:
    """Inline functions that are called once or are small; those that gradients are made of stay.

    A function of another opset than the model's stays too: its operators may mean something else.
    """
    count = 0
    while calls := _calls_that_pay(scope):
        for node in calls:
            _inline(scope, node)
        count += len(calls)
    return count


def _calls_that_pay(scope: Scope) -> list[ir.Node]:
    model = scope.model
    calls = [
        node
        for node in model.graph.all_nodes()
        if (function := model.functions.get(node.op_identifier())) is not None
        and function.domain != DOMAIN
        and not _calls_itself(scope, function)
        and all(model.opset_imports.get(d, v) == v for d, v in function.opset_imports.items())
    ]
    times = Counter(node.op_identifier() for node in calls)
    sizes = {identifier: len(list(model.functions[identifier].all_nodes())) for identifier in times}
    return [
        node
        for node in calls
        if times[node.op_identifier()] == 1 or times[node.op_identifier()] * sizes[node.op_identifier()] <= _NODES
    ]


def _calls_itself(scope: Scope, function: ir.Function) -> bool:
    seen: set[tuple[str, str, str]] = set()
    pending = [function]
    while pending:
        for node in pending.pop().all_nodes():
            identifier = node.op_identifier()
            if identifier == function.identifier():
                return True
            if identifier in scope.functions and identifier not in seen:
                seen.add(identifier)
                pending.append(scope.functions[identifier])
    return False


def _inline(scope: Scope, node: ir.Node) -> None:
    function, graph = scope.functions[node.op_identifier()], node.graph
    assert graph is not None and not isinstance(graph, ir.Function)
    op = scope.builder(graph)
    for domain, version in function.opset_imports.items():
        scope.model.opset_imports.setdefault(domain, version)
        op.context.opset_imports.setdefault(domain, version)
    nodes, replaced = inline_call(node, function, op.names)
    scope.moved.update(replaced)
    for inner in nodes:
        infer_node(op.context, scope.functions, inner)
