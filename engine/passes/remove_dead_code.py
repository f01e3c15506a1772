"""Nodes, initializers and functions that nothing needs."""

import onnx_ir as ir

from onnxgrad.engine.passes.edit import remove_dead
from onnxgrad.engine.passes.scope import Scope


def remove_dead_code(scope: Scope) -> int:
    """Remove nodes that no output depends on, initializers without readers (never inputs), functions without calls."""
    count = 0
    for graph in reversed(list(scope.graphs())):
        count += remove_dead(list(graph))
    for graph in scope.graphs():
        count += _remove_initializers(graph)
    return count + _remove_functions(scope)


def _remove_initializers(graph: ir.Graph) -> int:
    unused = [
        name
        for name, value in graph.initializers.items()
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    return len(unused)


def _remove_functions(scope: Scope) -> int:
    functions = scope.model.functions
    called: set[tuple[str, str, str]] = set()
    pending = [scope.model.graph]
    while pending:
        for node in pending.pop().all_nodes():
            identifier = node.op_identifier()
            if identifier in functions and identifier not in called:
                called.add(identifier)
                pending.append(functions[identifier].graph)
    unused = [identifier for identifier in functions if identifier not in called]
    for identifier in unused:
        del functions[identifier]
    return len(unused)
