"""`og.gradients`: of variables of a computing graph, or of values of a model's graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, GraphError, OpsetError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.operand import Operand
from onnxgrad.engine.graph.shared_tensor import VolatileTensor
from onnxgrad.engine.graph.source import Source
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import describe, describe_value, is_float
from onnxgrad.grad import reverse
from onnxgrad.grad.straight_through import goes_straight
from onnxgrad.grad.symbolic.checks import refuse_several
from onnxgrad.grad.symbolic.set_grad import is_custom
from onnxgrad.grad.symbolic.virtual import is_virtual_gradient, virtual_gradient
from onnxgrad.grad.symbolic.walk import Request, between, builder_for, differentiate, refuse_missing_rules

_OPSET = 18  # scatter operators that add
_OPTIMIZED = 2  # the graph_opt_level from which on the forward part is optimized
_Key = tuple[tuple[ir.Value, ...], tuple[ir.Value | None, ...], ir.Value]

Wrt = Var | Source
Seed = Var | np.ndarray | float | None


@overload
def gradients(
    target: ir.Value | Sequence[ir.Value],
    wrt: Sequence[ir.Value],
    seed: ir.Value | Sequence[ir.Value | None] | None = None,
) -> list[ir.Value | None]: ...


@overload
def gradients(
    target: Var | Sequence[Var],
    wrt: Wrt,
    seed: Seed | Sequence[Seed] = None,
    *,
    warn_mid_wrt: bool = True,
    use_virtual_grad: bool | None = None,
    return_zero_for_nodep: bool = False,
) -> Var | None: ...


@overload
def gradients(
    target: Var | Sequence[Var],
    wrt: Sequence[Wrt],
    seed: Seed | Sequence[Seed] = None,
    *,
    warn_mid_wrt: bool = True,
    use_virtual_grad: bool | None = None,
    return_zero_for_nodep: bool = False,
) -> list[Var | None]: ...


def gradients(
    target: ir.Value | Sequence[ir.Value] | Var | Sequence[Var],
    wrt: Sequence[ir.Value] | Wrt | Sequence[Wrt],
    seed: object = None,
    *,
    warn_mid_wrt: bool = True,
    use_virtual_grad: bool | None = None,
    return_zero_for_nodep: bool = False,
) -> list[ir.Value | None] | list[Var | None] | Var | None:
    """d(sum(seed * target)) / d(wrt), for variables of a computing graph or values of a model's graph.

    target: one or several (their gradients add up), of one element each unless there is a seed of its shape; wrt: a
    list gives a list, a single variable (or SharedTensor) a single gradient. None stands for no dependence, or zeros
    with `return_zero_for_nodep`, which warns. Asking twice gives the same variable; results can be differentiated.
    warn_mid_wrt: warn about variables that an operator computes, since what they depend on counts as constant.
    use_virtual_grad: put nodes into the graph that stand for the gradients until it is compiled, after its forward part
    was optimized; None does so at graph_opt_level 2 and above, except in bodies, within og.straight_through and where
    the way goes through functions of og.set_grad, which want the graph that they were written for.

    For values (onnx_ir.Value; wrt is a sequence) the nodes are added in place, and types and shapes must be known: run
    `infer_shapes` on a fresh model. A value that a node with a function body made is replaced by one of the same name.

    Raises: GradientRuleMissing if an operator on the way has no rule; GraphError for variables of several graphs or a
    target of several elements without a seed (at run time, where its shape is not known before); GradientError.
    """
    targets = [target] if isinstance(target, ir.Value | Var) else list(target)
    if all(isinstance(value, ir.Value) for value in targets):
        return reverse.gradients(target, wrt, seed)  # type: ignore[arg-type]  # the first of the overloads
    graph = _graph_of(targets)
    single = isinstance(wrt, Operand | Source)
    wanted = [_value_of(graph, value) for value in ([wrt] if single else wrt)]  # type: ignore[union-attr]
    if warn_mid_wrt:
        _warn_of_computed(wanted)
    values = [value.value for value in targets if isinstance(value, Var)]
    request = Request(tuple(values), _seeds(graph, values, seed), tuple(wanted))
    found = _found(graph, request, use_virtual_grad)
    results = [_result(graph, grad, value, return_zero_for_nodep) for grad, value in zip(found, wanted, strict=True)]
    return results[0] if single else results


def _graph_of(targets: Sequence[object]) -> Graph:
    graphs = {value.graph for value in targets if isinstance(value, Var)}
    if len(graphs) != 1 or not all(isinstance(value, Var) for value in targets):
        raise GraphError("the targets must be variables of one graph", where=", ".join(map(repr, targets)))
    (graph,) = graphs
    if graph.opset < _OPSET:
        fix = "Graph(opset=...), or Graph.from_model(model, opset=...)"
        raise OpsetError(f"gradients need opset {_OPSET}, the graph has {graph.opset}", fix=fix)
    writing = [builder.graph for builder in graph.builders]
    for value in targets:
        assert isinstance(value, Var)
        if not is_float(value.value):
            raise GradientError("only floating-point values have gradients", where=repr(value))
        if value.value.graph not in writing:
            raise GraphError(f"{value!r} belongs to a body that is finished", fix="take the gradient in the body")
    return graph


def _value_of(graph: Graph, given: object) -> ir.Value:
    if isinstance(given, Var):
        if given.graph is not graph:
            raise GraphError(
                f"{given!r} belongs to graph {given.graph.name!r}, the target to {graph.name!r}",
                fix="differentiate by variables of the target's graph",
            )
        return given.value
    sources = [(v, s.tensor if isinstance(s, VolatileTensor) else s) for v, s in graph.sources.items()]
    readers = [value for value, source in sources if source is given]
    if len(readers) > 1:
        raise GraphError(
            f"two variables read {given!r}, and each has a gradient of its own",
            where=", ".join(map(describe_value, readers)),
            fix="differentiate by one of them, or add the gradients of both",
        )
    if readers:
        return readers[0]
    if isinstance(given, Source):
        raise GraphError(f"graph {graph.name!r} does not read {given!r}", fix="graph.param(...) before")
    raise GraphError(f"{given!r} is no variable", fix="a Var, a SharedTensor, or a list of them")


def _warn_of_computed(wrt: Sequence[ir.Value]) -> None:
    for value in wrt:
        node = value.producer()
        if node is not None and any(node.inputs):
            warnings.warn(
                f"the gradient by {describe_value(value)}, which {node.op_type} computes, may be wrong: what it is"
                " computed from, and other values computed from that, count as constants (warn_mid_wrt=False)",
                stacklevel=3,
            )


def _seeds(graph: Graph, targets: Sequence[ir.Value], seed: object) -> tuple[ir.Value | None, ...]:
    given = list(seed) if isinstance(seed, list | tuple) else [seed] * len(targets)
    if len(given) != len(targets):
        raise GradientError(f"{len(targets)} targets need as many seeds, not {len(given)}")
    found: list[ir.Value | None] = []
    for target, value in zip(targets, given, strict=True):
        if value is None:
            refuse_several(target)
        elif not isinstance(value, Var):
            value = graph.constant(np.asarray(value), target.dtype)
        found.append(None if value is None else _value_of(graph, value))
    return tuple(found)


def _found(graph: Graph, request: Request, use_virtual: bool | None) -> list[ir.Value | None]:
    known = graph.known_gradients
    keys: list[_Key] = [(request.targets, request.seeds, value) for value in request.wrt]
    wrt = tuple(dict.fromkeys(key[2] for key in keys if key not in known))
    if wrt:
        asked = Request(request.targets, request.seeds, wrt)
        op = builder_for(graph)
        nodes, active = between(op, asked.targets, wrt)
        refuse_missing_rules(op, nodes)
        if _is_virtual(graph, nodes, use_virtual):
            grads = [virtual_gradient(graph, asked, value) if value in active else None for value in wrt]
        else:
            grads = differentiate(graph, asked, nodes)
        for value, grad in zip(wrt, grads, strict=True):
            known[request.targets, request.seeds, value] = None if grad is None else _named(graph, grad, value)
    return [known[key] for key in keys]


def _is_virtual(graph: Graph, nodes: Sequence[ir.Node], wanted: bool | None) -> bool:
    """Whether to let nodes stand for the gradients, where `nodes` are what they go through."""
    custom = next((node for node in nodes if is_custom(node)), None)
    if any(is_virtual_gradient(node) for node in nodes):
        if custom is not None:
            raise GraphError(
                "the gradient of a virtual gradient cannot go through a custom gradient",
                where=describe(custom),
                fix="take the first gradient with use_virtual_grad=False",
            )
        return True
    if custom is not None or len(graph.builders) > 1 or goes_straight():
        return False
    return graph.options.level >= _OPTIMIZED if wanted is None else wanted


def _named(graph: Graph, grad: ir.Value, wrt: ir.Value) -> ir.Value:
    """The gradient, called so, unless it is something that has a name already."""
    node = grad.producer()
    if node is not None and node.op_type != "Constant" and not (grad.name or "").startswith("grad["):
        grad.name = graph.fresh(f"grad[{wrt.name}]")
    return grad


def _result(graph: Graph, grad: ir.Value | None, wrt: ir.Value, zero: bool) -> Var | None:
    if grad is None and zero:
        warnings.warn(
            f"the target does not depend on {describe_value(wrt)}: its gradient is zeros"
            " (return_zero_for_nodep=False gives None)",
            stacklevel=4,
        )
        grad = graph.builder.zeros_like(wrt)
    return None if grad is None else Var(graph, grad)
