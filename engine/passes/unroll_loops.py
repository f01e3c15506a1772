"""Loops whose number of rounds is a small constant become the nodes of these rounds."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.engine.passes.edit import move_nodes, remove, replace_value
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.passes.queries import producer, scalar_value
from onnxgrad.engine.passes.scope import Scope

_NODES = 64  # of all rounds together, where there are several


def unroll_loops(scope: Scope) -> int:
    """Loop with 0, 1 or a few rounds -> its rounds one after the other, where no computed condition can end it."""
    count = 0
    for graph in scope.graphs():
        for node in list(graph):
            if node.op_type == "Loop" and node.domain == "" and node.graph is graph and scope.opset(graph):
                count += _unroll(scope, node)
    return count


def _unroll(scope: Scope, node: ir.Node) -> bool:
    body = node.attributes["body"].as_graph()
    rounds = _rounds(node, body)
    if rounds is None or (rounds > 1 and rounds * len(list(body.all_nodes())) > _NODES):
        return False
    if not all(is_pure(inner, scope.functions) for inner in body.all_nodes()):
        return False
    carried = list(node.inputs[2:])
    if any(value is None for value in carried):
        return False
    state = _State([value for value in carried if value is not None], [[] for _ in body.outputs[1 + len(carried) :]])
    scans = node.outputs[len(carried) :]
    if rounds == 0 and any(_is_read(scan) and _empty(scan) is None for scan in scans):
        return False
    made: set[ir.Node] = set()
    for number in range(rounds):
        made |= _run_round(scope, node, state, number)
    _replace_outputs(scope, node, state, made)
    return True


@dataclass
class _State:
    carried: list[ir.Value]
    scanned: list[list[ir.Value]]


def _rounds(node: ir.Node, body: ir.Graph) -> int | None:
    """The number of rounds, where constants decide it."""
    condition = node.inputs[1] if len(node.inputs) > 1 else None
    starts = True if condition is None else scalar_value(condition)
    if starts is not None and not starts:
        return 0
    limit = scalar_value(node.inputs[0]) if node.inputs else None
    if limit is None:
        return None
    if limit <= 0:
        return 0
    result: ir.Value | None = body.outputs[0]
    while (identity := producer(result, "Identity")) is not None:
        result = identity.inputs[0]
    passes_on = result is body.inputs[1] or (result is not None and scalar_value(result) == 1)
    return int(limit) if starts and passes_on else None


def _run_round(scope: Scope, node: ir.Node, state: _State, number: int) -> set[ir.Node]:
    """Put the nodes of one round in front of the loop."""
    graph = node.graph
    assert graph is not None and not isinstance(graph, ir.Function)
    body = node.attributes["body"].as_graph().clone(allow_outer_scope_values=True)
    op = scope.builder(graph, before=node)
    actual = [op.constant(number), op.constant(True), *state.carried]
    given = dict(zip(body.inputs, actual, strict=True))
    for formal, value in given.items():
        for user, index in tuple(formal.uses()):
            user.replace_input_with(index, value)
    for inner in body.all_nodes():
        inner.name = op.names.fresh_node(inner.name or inner.op_type)
    nodes = move_nodes(scope, body, node)
    for inner in nodes:
        infer_node(op.context, scope.functions, inner)
    results = [given.get(value, value) for value in body.outputs]
    body.outputs.clear()
    count = len(state.carried)
    state.carried = results[1 : 1 + count]
    for values, value in zip(state.scanned, results[1 + count :], strict=True):
        values.append(value)
    return set(nodes)


def _replace_outputs(scope: Scope, node: ir.Node, state: _State, made: set[ir.Node]) -> None:
    graph = node.graph
    assert graph is not None and not isinstance(graph, ir.Function)
    op = scope.builder(graph, before=node)
    for old, new in zip(node.outputs, state.carried, strict=False):
        if _is_read(old):
            replace_value(scope, old, new, fresh=new.producer() in made)
    for old, values in zip(node.outputs[len(state.carried) :], state.scanned, strict=True):
        if not _is_read(old):
            continue
        rows = [op.Unsqueeze(value, [0]) for value in values]
        empty = _empty(old)
        if rows:
            new = rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)
        else:
            assert empty is not None
            new = op.constant(empty)
        replace_value(scope, old, new, fresh=True)
    remove(node)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _empty(scan: ir.Value) -> np.ndarray | None:
    """What a scan gives after no round, where the shape of its elements is known."""
    if scan.shape is None or scan.dtype is None or scan.dtype == ir.DataType.STRING:
        return None
    sizes = [size for size in scan.shape.dims[1:] if isinstance(size, int)]
    return np.zeros([0, *sizes], scan.dtype.numpy()) if len(sizes) == len(scan.shape) - 1 else None
