"""Reverse mode: the walk that turns a graph into the graph of its gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import describe, describe_value, is_float
from onnxgrad.engine.ir.functions import Functions, inline_call, repeat_call, schema_function
from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from onnxgrad.grad.broadcasting import sum_to
from onnxgrad.grad.registry import GradientBuilder, Grads, Rule, find_rule, missing
from onnxgrad.grad.straight_through import rounded_inputs, straight_rule
from onnxgrad.grad.subgraphs import add, all_inputs, remove_dead

STOPPED = "onnxgrad.stop_gradient"


def stop_gradient(*values: ir.Value) -> None:
    """Let no gradient flow back through these values of a graph: they count as constants. In place."""
    for value in values:
        value.meta[STOPPED] = True


def gradients(
    target: ir.Value | Sequence[ir.Value],
    wrt: Sequence[ir.Value],
    seed: ir.Value | Sequence[ir.Value | None] | None = None,
) -> list[ir.Value | None]:
    """Add to the graph of `target` the nodes that compute d(sum(seed * target)) / d(wrt). In place.

    target: one value or several (their gradients add up), wrt: values of the same graph, inputs, initializers or any
    others; seed: for each target a value of its shape and dtype; None is 1, for a scalar target only. Types and shapes
    must be known: run `infer_shapes` on a fresh model. Returns a value of the shape and dtype of each of `wrt`, or None
    where the target does not depend on it smoothly. A value that a node with a function body made is replaced by a
    value of the same name.

    Raises: GradientRuleMissing if an operator on the way has no rule; GradientError for an impossible request.
    """
    targets = [target] if isinstance(target, ir.Value) else list(target)
    seeds = [seed] * len(targets) if seed is None or isinstance(seed, ir.Value) else list(seed)
    if len(seeds) != len(targets):
        raise GradientError(f"{len(targets)} targets need as many seeds, not {len(seeds)}")
    graph = _graph_of(targets, wrt)
    op = GradientBuilder(graph, share=True)
    op.pull_back = pull_back
    nodes = list(graph)
    cotangents: dict[ir.Value, ir.Value] = {}
    for value, given in zip(targets, seeds, strict=True):
        cotangent = given if given is not None else _one(op, value)
        cotangents[value] = op.Add(cotangents[value], cotangent) if value in cotangents else cotangent
    found = pull_back(op, nodes, cotangents, wrt)
    kept = set(nodes) | {value.producer() for value in cotangents.values()}
    remove_dead(graph, kept, [*found.values(), *cotangents.values()])
    return [found.get(value) for value in wrt]


def pull_back(
    op: GradientBuilder, nodes: Sequence[ir.Node], cotangents: Mapping[ir.Value, ir.Value], wrt: Collection[ir.Value]
) -> dict[ir.Value, ir.Value]:
    """Walk `nodes` (in topological order) backwards; returns the gradients of those of `wrt` that have one.

    cotangents: gradients of values that the nodes compute. New nodes are written with `op`, in its graph.
    """
    wanted = {value for value in wrt if STOPPED not in value.meta}
    sought = list(dict.fromkeys(wrt))
    _reach(op, nodes, wanted)
    parts: dict[ir.Value, list[ir.Value]] = {value: [grad] for value, grad in cotangents.items()}
    outer, op.wanted = op.wanted, wanted
    stack = [node for node in nodes if any(value in wanted for value in node.outputs)]
    scope = op.scope
    while stack:
        node = stack.pop()
        if not any(value in parts for value in node.outputs):
            continue
        rule = straight_rule(node) or find_rule(node, _version(op, node))
        if rule is None:
            stack.extend(_expand(op, node, parts, wanted, sought))
            continue
        op.scope = f"{node.name}.grad"
        dys = [_total(op, value, parts) if value in wanted else _peek(op, value, parts) for value in node.outputs]
        if rule.function is not None:
            _spread(op, node, rule, rule.function(op, node, *dys), parts, wanted)
    op.scope = scope
    totals = {value: total for value in sought if (total := _total(op, value, parts)) is not None}
    op.wanted = outer
    return {old: totals[new] for old, new in zip(dict.fromkeys(wrt), sought, strict=True) if new in totals}


def _version(op: GradientBuilder, node: ir.Node) -> int:
    if node.domain in ("", "ai.onnx"):
        return op.opset
    version: int = op.context.opset_imports.get(node.domain, 1)
    return version


def _reach(op: GradientBuilder, nodes: Iterable[ir.Node], wanted: set[ir.Value]) -> None:
    """Add to `wanted` the float values that depend on it smoothly."""
    for node in nodes:
        if any(value in wanted for value in (*_smooth_inputs(op, node), *rounded_inputs(node))):
            wanted.update(v for v in node.outputs if may_have_gradient(v))


def _smooth_inputs(op: GradientBuilder, node: ir.Node) -> Iterable[ir.Value]:
    """What the outputs may depend on smoothly: not the operands of an operator that is declared without a gradient."""
    rule = straight_rule(node) or find_rule(node, _version(op, node))
    if rule is not None and rule.function is None:
        return ()
    if node.op_type == "CastLike" and node.domain == "":  # the other operand gives its type only
        return (value for value in node.inputs[:1] if value is not None)
    return all_inputs(node)


def may_have_gradient(value: ir.Value) -> bool:
    """Whether gradients may flow through a value: floats, sequences, what has no type yet; not where it was stopped."""
    is_untyped = value.dtype is None or not isinstance(value.type, ir.TensorType)
    return (is_float(value) or is_untyped) and STOPPED not in value.meta


def _expand(
    op: GradientBuilder,
    node: ir.Node,
    parts: dict[ir.Value, list[ir.Value]],
    wanted: set[ir.Value],
    sought: list[ir.Value],
) -> list[ir.Node]:
    """Put the function body of `node` in its place, or beside it; its gradients and wishes move to the new values."""
    functions: Functions = op.functions
    function = functions.get(node.op_identifier()) or schema_function(node, _version(op, node))
    if function is None:
        raise missing(node)
    if op.in_place:
        nodes, results = inline_call(node, function, op.names)
    else:
        nodes, results = repeat_call(node, function, op.names, op.graph)
    for inner in nodes:
        if any(attribute.type == ir.AttributeType.GRAPH for attribute in inner.attributes.values()):
            infer_node(op.context, functions, inner)
        else:
            op.infer(inner)
    _reach(op, nodes, wanted)
    for old, new in results.items():
        if old in parts:
            parts[new] = [*parts.get(new, ()), *parts.pop(old)]
        if op.follow is not None:
            op.follow(old, new)
        if old in sought:
            sought[sought.index(old)] = new
            wanted.add(new)
    return nodes


def _spread(
    op: GradientBuilder,
    node: ir.Node,
    rule: Rule,
    grads: Grads,
    parts: dict[ir.Value, list[ir.Value]],
    wanted: set[ir.Value],
) -> None:
    """Add the gradients that a rule gave to those of the operands."""
    pairs: Iterable[tuple[ir.Value | None, ir.Value | None]]
    pairs = grads.items() if isinstance(grads, Mapping) else zip(node.inputs, grads, strict=False)
    for value, grad in pairs:
        if value is None or grad is None or value not in wanted:
            continue
        grad = sum_to(op, grad, value) if rule.broadcasts else grad
        if not _fits(grad, value):
            raise GradientError(
                f"the gradient rule of {node.op_type} gives {describe_value(grad)}"
                f" for the operand {describe_value(value)}",
                where=describe(node),
                why="a gradient has the dtype and shape of its operand",
                fix="mend the rule",
            )
        if grad.shape is None:
            grad.shape = value.shape
        parts.setdefault(value, []).append(grad)


def _fits(grad: ir.Value, value: ir.Value) -> bool:
    if grad.dtype is not None and value.dtype is not None and grad.dtype != value.dtype:
        return False
    if grad.shape is None or value.shape is None:
        return True
    known = zip(grad.shape, value.shape, strict=False)
    return len(grad.shape) == len(value.shape) and all(
        a == b for a, b in known if isinstance(a, int) and isinstance(b, int)
    )


def _total(op: GradientBuilder, value: ir.Value, parts: dict[ir.Value, list[ir.Value]]) -> ir.Value | None:
    """The sum of all gradients of `value` so far, as one value."""
    grads = parts.get(value)
    if not grads:
        return None
    if len(grads) > 1:
        grads[:] = [add(op, *grads)]
    return grads[0]


def _peek(op: GradientBuilder, value: ir.Value, parts: dict[ir.Value, list[ir.Value]]) -> ir.Value | None:
    return None if STOPPED in value.meta else _total(op, value, parts)


def _one(op: GradientBuilder, value: ir.Value) -> ir.Value:
    if value.shape is None or len(value.shape) > 0:
        raise GradientError(
            f"the target {value.name!r} is not a scalar, so its gradient needs a seed",
            where=describe_value(value),
            fix="give a seed of the target's shape, or reduce the target to a scalar",
        )
    return op.constant_like(value, 1)


def _graph_of(targets: Sequence[ir.Value], wrt: Sequence[ir.Value]) -> ir.Graph:
    graphs = {value.graph for value in (*targets, *wrt)}
    if len(graphs) != 1 or None in graphs:
        names = ", ".join(repr(value.name) for value in (*targets, *wrt))
        raise GradientError("targets and the values to differentiate by must belong to one graph", where=names)
    for value in targets:
        if not is_float(value):
            raise GradientError("only floating-point values have gradients", where=describe_value(value))
    (graph,) = graphs
    assert graph is not None
    return graph
