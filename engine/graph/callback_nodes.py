"""Callbacks as operators: functions that are called in every run that computes their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.callback import CallbackFunction, as_callback
from onnxgrad.engine.graph.expansion import DOMAIN, EXPANSIONS, Expanding
from onnxgrad.engine.graph.marks import CALLBACK
from onnxgrad.engine.graph.var import Var

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


def insert_callback(
    graph: Graph, vars: Sequence[Var], function: Callable[..., object] | CallbackFunction
) -> tuple[Var, ...]:
    """See Graph.callback."""
    if len(graph.builders) > 1:
        raise GraphError(
            "a callback cannot be in a body", fix="make the value an output of the operator, and call there"
        )
    if not vars:
        raise GraphError("a callback needs a value to be called with")
    for var in vars:
        graph.check_own(var)
    node = ir.Node(DOMAIN, "Callback", [var.value for var in vars], num_outputs=len(vars))
    node.meta[CALLBACK] = as_callback(function)
    graph.ir.opset_imports.setdefault(DOMAIN, 1)
    graph.builder.insert(node)
    for var, output in zip(vars, node.outputs, strict=True):
        output.type, output.shape = var.value.type, var.value.shape
    return tuple(Var(graph, output) for output in node.outputs)


def _expand(graph: Expanding, node: ir.Node) -> Sequence[ir.Value]:
    values = tuple(value for value in node.inputs if value is not None)
    graph.callbacks.append((node.meta[CALLBACK], values))
    return values


EXPANSIONS["Callback"] = _expand
