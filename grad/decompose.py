"""Differentiating an operator as the standard operators that it stands for."""

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.registry import GradientBuilder

Forward = Callable[..., ir.Value | tuple[ir.Value | None, ...]]


def through(
    op: GradientBuilder, node: ir.Node, dys: Sequence[ir.Value | None], forward: Forward
) -> dict[ir.Value, ir.Value]:
    """The gradients of the inputs of `node`, whose outputs are also those of `forward(op, *inputs)`.

    forward emits nodes, the walk runs over these, and those that no gradient needs are dropped later. It returns the
    outputs in order, None for those that have no gradient.
    """
    inner = GradientBuilder(op.graph, parent=op, before=op.before)
    inner.pull_back = op.pull_back
    results = forward(inner, *node.inputs)
    results = results if isinstance(results, tuple) else (results,)
    pairs = zip(results, dys, strict=False)
    cotangents: dict[ir.Value, ir.Value] = {}
    for value, dy in pairs:
        if value is not None and dy is not None:
            cotangents[value] = op.Add(cotangents[value], dy) if value in cotangents else dy
    wanted = list(dict.fromkeys(value for value in node.inputs if value is not None and op.wants(value)))
    return op.pull_back(op, _between(node.inputs, cotangents), cotangents, wanted)


def _between(inputs: Iterable[ir.Value | None], results: Iterable[ir.Value]) -> list[ir.Node]:
    """The nodes that compute `results` from `inputs`, in topological order."""
    order: dict[ir.Node, None] = {}
    known = set(inputs)

    def visit(value: ir.Value | None) -> None:
        producer = None if value is None or value in known else value.producer()
        if producer is not None and producer not in order:
            for operand in producer.inputs:
                visit(operand)
            order[producer] = None

    for value in results:
        visit(value)
    return list(order)


def through_call(
    op: GradientBuilder, name: str, node: ir.Node, dys: Sequence[ir.Value | None], forward: Forward
) -> dict[ir.Value, ir.Value]:
    """As `through`, with all nodes inside one call of the function `name`; `forward` may use its operands only."""
    count = len(node.inputs)
    wanted = [k for k, value in enumerate(node.inputs) if op.wants(value)]
    found: list[int] = []

    def body(inner: Builder, *formals: ir.Value | None) -> tuple[ir.Value, ...]:
        walk = GradientBuilder(inner.graph, parent=inner)
        walk.pull_back = op.pull_back
        results = forward(walk, *formals[:count])
        results = results if isinstance(results, tuple) else (results,)
        pairs = zip(results, formals[count:], strict=True)
        cotangents = {value: dy for value, dy in pairs if value is not None and dy is not None}
        sought = {k: value for k in wanted if (value := formals[k]) is not None}
        totals = op.pull_back(walk, _between(formals[:count], cotangents), cotangents, list(sought.values()))
        found[:] = [k for k, value in sought.items() if value in totals]
        grads = tuple(inner.Identity(totals[sought[k]]) for k in found)
        _remove_unused(inner.graph, grads)
        return grads

    grads = op.call(name, body, *node.inputs, *dys) if wanted else ()
    summed: dict[ir.Value, ir.Value] = {}
    for k, grad in zip(found, grads, strict=True):
        value = node.inputs[k]
        assert value is not None
        summed[value] = op.Add(summed[value], grad) if value in summed else grad
    return summed


def _remove_unused(graph: ir.Graph, results: Sequence[ir.Value]) -> None:
    for node in reversed(list(graph)):
        if not any(value in results or value.uses() for value in node.outputs):
            graph.remove(node, safe=True)
