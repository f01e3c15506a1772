"""The walk over a computing graph that stays as it is: variables keep their values, gradients are added behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.marks import OF_GRADIENT, PRIORITY
from onnxgrad.engine.graph.traversal import nodes_for
from onnxgrad.engine.ir.functions import schema_function
from onnxgrad.engine.ir.virtual_operators import is_virtual
from onnxgrad.grad.registry import GradientBuilder, find_rule, missing
from onnxgrad.grad.reverse import STOPPED, may_have_gradient, pull_back
from onnxgrad.grad.straight_through import rounded_inputs, straight_rule
from onnxgrad.grad.subgraphs import all_inputs, take_out
from onnxgrad.grad.symbolic.checks import one_like, with_shape_of

_DEEPEST = 50


@dataclass(frozen=True)
class Request:
    """Targets with their seeds (None: 1, for a scalar), whose gradients add up, and what they are differentiated by."""

    targets: tuple[ir.Value, ...]
    seeds: tuple[ir.Value | None, ...]
    wrt: tuple[ir.Value, ...]


@dataclass
class Running:
    """A walk that is under way. `called_back`: a function of a custom gradient was called in it."""

    graph: Graph
    request: Request
    called_back: bool = field(default=False, compare=False)


_RUNNING: ContextVar[tuple[Running, ...]] = ContextVar("running", default=())


def running() -> Running | None:
    """The innermost walk over a computing graph that is under way."""
    stack = _RUNNING.get()
    return stack[-1] if stack else None


def between(
    op: GradientBuilder, targets: Collection[ir.Value], wrt: Collection[ir.Value]
) -> tuple[list[ir.Node], set[ir.Value]]:
    """The nodes that gradients go through on their way from `targets` to `wrt`, in topological order, and the values.

    Of `wrt`, those that the targets depend on are among the values.
    """
    reached = {value for value in wrt if STOPPED not in value.meta}
    passing = []
    for node in nodes_for(targets):
        if any(value in reached for value in (*all_inputs(node), *rounded_inputs(node))) and not _stops(op, node):
            passing.append(node)
            reached.update(value for value in node.outputs if may_have_gradient(value))
    active = {value for value in targets if value in reached}
    nodes = []
    for node in reversed(passing):
        if any(value in active for value in node.outputs):
            nodes.append(node)
            active.update(value for value in (*all_inputs(node), *rounded_inputs(node)) if value in reached)
    return nodes[::-1], active


def _stops(op: GradientBuilder, node: ir.Node) -> bool:
    if straight_rule(node) is not None or rounded_inputs(node):
        return False
    rule = find_rule(node, _version(op, node))
    return (rule is not None and rule.function is None) or (is_virtual(node) and "stop" in node.attributes)


def _version(op: GradientBuilder, node: ir.Node) -> int:
    return op.opset if not node.domain else int(op.context.opset_imports.get(node.domain, 1))


def refuse_missing_rules(op: GradientBuilder, nodes: Sequence[ir.Node]) -> None:
    """Raises: GradientRuleMissing for a node that has neither a rule nor a function body."""
    for node in nodes:
        version = _version(op, node)
        known = is_virtual(node) or straight_rule(node) or find_rule(node, version)
        if not known and node.op_identifier() not in op.functions and schema_function(node, version) is None:
            raise missing(node)


def builder_for(graph: Graph) -> GradientBuilder:
    """A builder that adds to `graph`, or to the body that is being written, and leaves the nodes there as they are."""
    op = GradientBuilder(graph.builder.graph, parent=graph.builder, share=True)
    op.pull_back, op.in_place = pull_back, False
    return op


def differentiate(graph: Graph, request: Request, nodes: Sequence[ir.Node]) -> list[ir.Value | None]:
    """Add the nodes of the gradients to the graph; None where the targets do not depend on a value.

    nodes: those that they go through, by `between`.

    Raises: GraphError for a custom gradient that asks for itself; what the rules raise.
    """
    op = builder_for(graph)
    last = op.graph[-1] if len(op.graph) else None
    run = Running(graph, request)
    with _entered(run):
        totals = pull_back(op, nodes, cotangents_of(op, request), request.wrt)
    found = {value: with_shape_of(op, total, value, "the gradient") for value, total in totals.items()}
    if not (run.called_back or running()):  # else somebody may hold a variable of what is not used
        _clean(op, last, set(found.values()))
    _mark(op, last, nodes)
    return [found.get(value) for value in request.wrt]


def cotangents_of(op: GradientBuilder, request: Request) -> dict[ir.Value, ir.Value]:
    """The gradients that the targets start with."""
    cotangents: dict[ir.Value, ir.Value] = {}
    for target, seed in zip(request.targets, request.seeds, strict=True):
        grad = one_like(op, target) if seed is None else seed
        cotangents[target] = op.Add(cotangents[target], grad) if target in cotangents else grad
    return cotangents


@contextmanager
def _entered(run: Running) -> Iterator[None]:
    stack = _RUNNING.get()
    if run in stack or len(stack) >= _DEEPEST:
        names = ", ".join(repr(value.name) for value in run.request.targets)
        raise GraphError(
            f"the gradient of {names} asks for itself: infinite recursion",
            why="the function of a custom gradient takes the gradient that it is a part of",
            fix="use the gradient that the function is given",
        )
    token = _RUNNING.set((*stack, run))
    try:
        yield
    finally:
        _RUNNING.reset(token)


def _added(graph: ir.Graph, last: ir.Node | None) -> Iterator[ir.Node]:
    """The nodes behind `last`, the newest first."""
    for node in reversed(graph):
        if node is last:
            return
        yield node


def _clean(op: GradientBuilder, last: ir.Node | None, kept: Collection[ir.Value]) -> None:
    """Take new nodes out that nothing uses: parts of gradients that were not asked for."""
    gone = set()
    for node in list(_added(op.graph, last)):
        if not any(value.uses() or value in kept or value.is_graph_output() for value in node.outputs):
            take_out(node)
            gone.add(node)
    op.forget(gone)


def _mark(op: GradientBuilder, last: ir.Node | None, nodes: Sequence[ir.Node]) -> None:
    """Nodes say that they are a gradient's; those of the gradient of a node with a priority have its negative."""
    priorities = {node.name: node.meta[PRIORITY] for node in nodes if PRIORITY in node.meta}
    for node in _added(op.graph, last):
        node.meta[OF_GRADIENT] = True
        source = (node.name or "").rpartition(".grad.")[0]
        if source in priorities:
            node.meta[PRIORITY] = -priorities[source]
