"""If, Loop and Scan: the backward pass is another If, Loop or Scan, whose body runs the forward body again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.bodies import add_input, add_output
from onnxgrad.engine.ir.conditions import known_condition
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.subgraphs import (
    Replay,
    add,
    all_inputs,
    captured,
    replay,
    zeros,
)


@gradient("If", note="only the branch that was taken contributes")
def if_(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """An If whose branches run the branches again and pull the gradients back; zeros for what a branch does not use."""
    branches = {name: node.attributes[name].as_graph() for name in ("then_branch", "else_branch")}
    used = dict.fromkeys(value for branch in branches.values() for value in captured(branch))
    wanted = [value for value in used if op.wants(value)]
    bodies: dict[str, Replay] = {}
    grads: dict[str, dict[ir.Value, ir.Value]] = {}
    taken = known_condition(node.inputs[0])
    for name, branch in branches.items():
        body = bodies[name] = replay(op, branch, f"{op.scope}.{name}")
        pairs = [(y, dy) for y, dy in zip(body.outputs, dys, strict=False) if dy is not None]
        is_possible = taken is None or taken == (name == "then_branch")
        is_possible = is_possible and all(_may_equal(y.shape, dy.shape) for y, dy in pairs)
        grads[name] = body.pull_back(pairs, wanted) if is_possible else {}
    found = [value for value in wanted if any(value in each for each in grads.values())]
    if not found:
        return {}
    for name, body in bodies.items():
        for value in found:
            add_output(body.op, grads[name][value] if value in grads[name] else zeros(body.op, value))
        body.finish()
    first, second = (body.op.graph for body in bodies.values())
    results = op.node("If", node.inputs[0], outputs=len(found), then_branch=first, else_branch=second)
    return {value: _typed(result, value) for value, result in zip(found, results, strict=True)}


def _may_equal(a: ir.Shape | None, b: ir.Shape | None) -> bool:
    """Whether two shapes may be the same. A branch whose outputs have not the shape of their gradients is never taken:
    exporters write such branches for ranks that a model does not meet."""
    if a is None or b is None:
        return True
    known = zip(a, b, strict=False)
    return len(a) == len(b) and all(x == y for x, y in known if isinstance(x, int) and isinstance(y, int))


@dataclass
class _Sweep:
    """The body of a backward Loop or Scan under construction.

    states: positions of the carried values that get a gradient; slices: positions of the scanned inputs that do;
    outer: the captured values that do. Gradients of states and outer values are carried, those of slices scanned out.
    carried: the inputs that carry them; scanned: inputs with gradients of scanned outputs, by position of the output.
    """

    body: Replay
    states: list[int]
    slices: list[int]
    outer: list[ir.Value]
    carried: list[ir.Value]
    scanned: dict[int, ir.Value]


def _sweep(
    op: GradientBuilder,
    graph: ir.Graph,
    carried: tuple[Sequence[int], Sequence[int]],
    scanned: tuple[Mapping[int, ir.Value], Mapping[int, ir.Value]],
    first_values: Mapping[int, ir.Value],
) -> _Sweep:
    """Copy a body and pull the gradients of its outputs back.

    carried: positions of the states among the inputs and among the outputs of the body; scanned: the scanned inputs by
    position among the inputs, and the gradients of scanned outputs by position among the outputs; first_values: initial
    states by position among the inputs.
    """
    outer = [value for value in captured(graph) if op.wants(value)]
    states = _active(op, graph, carried, outer, {**first_values, **scanned[0]})
    body = replay(op, graph, f"{op.scope}.body")
    inner = body.op
    slices = [index for index, value in scanned[0].items() if op.wants(value)]
    pairs = dict(zip(*carried, strict=True))
    coming = [_input_like(inner, "carried", body.outputs[pairs[index]]) for index in states]
    sums = [_input_like(inner, "sum", value) for value in outer]
    rows = {index: _input_like(inner, "row", body.outputs[index]) for index in scanned[1]}
    cotangents = [(body.outputs[pairs[index]], grad) for index, grad in zip(states, coming, strict=True)]
    cotangents += [(body.outputs[index], row) for index, row in rows.items()]
    wrt = [*(body.inputs[index] for index in (*states, *slices)), *outer]
    grads = body.pull_back(cotangents, wrt)
    results: list[ir.Value] = []
    for index in states:
        value = body.inputs[index]
        results.append(grads[value] if value in grads else zeros(inner, value))
    for value, total in zip(outer, sums, strict=True):
        results.append(add(inner, total, grads[value]) if value in grads else total)
    for result in results:
        add_output(inner, result)
    slices = [index for index in slices if body.inputs[index] in grads]
    for index in slices:
        add_output(inner, grads[body.inputs[index]])
    body.finish()
    return _Sweep(body, list(states), slices, outer, [*coming, *sums], rows)


def _input_like(op: GradientBuilder, name: str, like: ir.Value) -> ir.Value:
    return add_input(op, f"{op.scope}.{name}", like.type, like.shape)


def _active(
    op: GradientBuilder,
    graph: ir.Graph,
    carried: tuple[Sequence[int], Sequence[int]],
    outer: Iterable[ir.Value],
    given: Mapping[int, ir.Value],
) -> list[int]:
    """The positions of body inputs that are states on the way from a wanted value, in this iteration or a later one."""
    reached = {*outer, *(graph.inputs[index] for index, value in given.items() if op.wants(value))}
    while True:
        for node in graph:
            if any(value in reached for value in all_inputs(node)):
                reached.update(node.outputs)
        fed = {graph.inputs[i] for i, o in zip(*carried, strict=True) if graph.outputs[o] in reached} - reached
        if not fed:
            return [i for i in carried[0] if graph.inputs[i] in reached and _smooth(graph.inputs[i])]
        reached |= fed


def _smooth(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


@gradient("Scan", since=9)
def scan(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """A Scan the other way round: it carries the gradients of the states and the sums for captured values."""
    graph = node.attributes["body"].as_graph()
    count = node.attributes["num_scan_inputs"].as_int()
    first = len(node.inputs) - count
    places = range(first)
    xs = {i: value for i, value in enumerate(node.inputs[first:], first) if value is not None}
    rows = {k: dy for k, dy in enumerate(dys[first:], first) if dy is not None}
    initial = {i: value for i, value in enumerate(node.inputs[:first]) if value is not None}
    sweep = _sweep(op, graph, (places, places), (xs, rows), initial)
    body = sweep.body
    axes = {name: _per_slot(node, name, size) for name, size in _slots(node, first, count).items()}
    feeds: list[tuple[ir.Value, ir.Value, int, int]] = []
    counts = not sweep.scanned and not any(_is_read(value) for value in body.inputs)  # then one tells how many rounds
    for index, value in enumerate(body.inputs):
        if not _is_read(value) and not (counts and index == first):
            continue
        if index < first:
            feeds.append((value, _record_scan(op, node, index), 0, 1))
        else:
            direction = axes["scan_input_directions"][index - first]
            feeds.append((value, xs[index], axes["scan_input_axes"][index - first], 1 - direction))
    for index, row in sweep.scanned.items():
        direction = axes["scan_output_directions"][index - first]
        feeds.append((row, rows[index], axes["scan_output_axes"][index - first], 1 - direction))
    body.op.graph.inputs[:] = [*sweep.carried, *(value for value, *_ in feeds)]
    starts = [_start(op, dys[index], node.outputs[index]) for index in sweep.states]
    starts += [zeros(op, value) for value in sweep.outer]
    results = op.node(
        "Scan",
        *starts,
        *(value for _, value, *_ in feeds),
        outputs=len(starts) + len(sweep.slices),
        body=body.op.graph,
        num_scan_inputs=len(feeds),
        scan_input_axes=[axis for *_, axis, _ in feeds],
        scan_input_directions=[direction for *_, direction in feeds],
        scan_output_axes=[axes["scan_input_axes"][i - first] for i in sweep.slices] or None,
        scan_output_directions=[1 - axes["scan_input_directions"][i - first] for i in sweep.slices] or None,
    )
    operands = [*(initial[i] for i in sweep.states), *sweep.outer, *(xs[i] for i in sweep.slices)]
    return _collect(op, operands, results)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _slots(node: ir.Node, first: int, count: int) -> dict[str, int]:
    results = len(node.outputs) - first
    return {
        **dict.fromkeys(("scan_input_axes", "scan_input_directions"), count),
        **dict.fromkeys(("scan_output_axes", "scan_output_directions"), results),
    }


def _per_slot(node: ir.Node, name: str, count: int) -> list[int]:
    """An attribute of Scan with one entry for each scanned value; zeros where it is left out."""
    given = list(node.attributes.get_ints(name, [])) if name in node.attributes else []
    return [*given, *[0] * (count - len(given))]


def _record_scan(op: GradientBuilder, node: ir.Node, index: int) -> ir.Value:
    """Let a Scan put out the state that each iteration got, along axis 0 in order."""
    graph = node.attributes["body"].as_graph()
    count = node.attributes["num_scan_inputs"].as_int()
    first = len(node.inputs) - count
    length: int | ir.SymbolicDim | None = None
    for position, value in enumerate(node.inputs[first:]):
        if value is not None and value.shape is not None:
            length = value.shape[_per_slot(node, "scan_input_axes", count)[position]]
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            old = _per_slot(node, name, len(node.outputs) - first)
            node.attributes[name] = ir.AttrInt64s(name, [*old, 0])
    return _put_out(op, node, graph, graph.inputs[index], length)


def _put_out(
    op: GradientBuilder, node: ir.Node, body: ir.Graph, value: ir.Value, length: int | ir.SymbolicDim | None
) -> ir.Value:
    """One more scanned output of a Loop or Scan: what `value` of its body was in each iteration."""
    inner = GradientBuilder(body, parent=op)
    inner.scope = f"{node.name}.record"
    add_output(inner, value)
    given = len(node.outputs)
    node.resize_outputs(len(body.outputs) - (node.op_type == "Loop"))
    for left_out in node.outputs[given:-1]:
        left_out.name = op.names.fresh(f"{node.name}.unused")
    output = node.outputs[-1]
    output.name, output.type = op.names.fresh(f"{node.name}.{value.name}"), value.type
    output.shape = None if value.shape is None else ir.Shape([length, *value.shape])
    op.context.name_anonymous_dims(output)
    return output


@gradient("Loop", note="by the iterations that ran")
def loop(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """A Loop over the iterations that ran, from the last to the first."""
    graph = node.attributes["body"].as_graph()
    count = len(node.inputs) - 2
    initial = {i: value for i, value in enumerate(node.inputs) if i > 1 and value is not None}
    rows = {k + 1: dy for k, dy in enumerate(dys) if k >= count and dy is not None}
    sweep = _sweep(op, graph, (range(2, 2 + count), range(1, 1 + count)), ({}, rows), initial)
    if not sweep.states and not sweep.outer:
        return {}
    body = sweep.body
    trips = _record_trips(op, node)
    step, going = (ir.Value(name=op.names.fresh(f"{op.scope}.{name}")) for name in ("step", "going"))
    step.type, step.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    going.type, going.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
    last = op.Sub(trips, 1)
    head = _Head(body)
    turn = head.emit("Sub", last, step)
    turn.type, turn.shape = step.type, step.shape
    for index, value in enumerate(body.inputs):
        if value.uses() or value.is_graph_output():
            head.replace(value, turn if index == 0 else going if index == 1 else _recall(op, node, index, head, turn))
    for index, row in sweep.scanned.items():
        head.replace(row, head.emit("Gather", rows[index], turn))
    body.op.graph.inputs[:] = [step, going, *sweep.carried]
    add_output(body.op, going)
    outputs = list(body.op.graph.outputs)
    body.op.graph.outputs[:] = [outputs[-1], *outputs[:-1]]
    starts = [_start(op, dys[index - 2], node.outputs[index - 2]) for index in sweep.states]
    starts += [zeros(op, value) for value in sweep.outer]
    results = op.node("Loop", trips, op.constant(True), *starts, outputs=len(starts), body=body.op.graph)
    return _collect(op, [*(initial[i] for i in sweep.states), *sweep.outer], results)


class _Head:
    """Writes at the head of a body: what its former inputs were at this turn."""

    def __init__(self, body: Replay) -> None:
        self.body = body
        first = next(iter(body.op.graph), None)
        self.op = GradientBuilder(body.op.graph, parent=body.op, before=first)
        self.op.pull_back, self.op.scope = body.op.pull_back, body.op.scope

    def emit(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        """Add a node."""
        return self.op.node(op_type, *inputs)[0]

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let the body use `new` in place of its input `old`."""
        new.type = old.type if new.type is None else new.type
        new.shape = old.shape if new.shape is None else new.shape
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)


def _record_trips(op: GradientBuilder, node: ir.Node) -> ir.Value:
    """The number of iterations that ran."""
    graph = node.attributes["body"].as_graph()
    turns = _put_out(op, node, graph, graph.inputs[0], None)
    return op.Size(turns)


def _recall(op: GradientBuilder, node: ir.Node, index: int, head: _Head, turn: ir.Value) -> ir.Value:
    """The carried value `index` as iteration `turn` got it: from a scanned output, or a sequence where shapes vary."""
    graph = node.attributes["body"].as_graph()
    value = graph.inputs[index]
    if not isinstance(value.type, ir.TensorType):
        return _run_again(node, index, head, turn)
    if _keeps_shape(value, graph.outputs[index - 1]):
        return head.emit("Gather", _put_out(op, node, graph, value, None), turn)
    return head.emit("SequenceAt", _record_sequence(op, node, index), turn)


def _run_again(node: ir.Node, index: int, head: _Head, turn: ir.Value) -> ir.Value:
    """The carried sequence `index` as iteration `turn` got it: the loop runs again up to there."""
    body = replay(head.op, node.attributes["body"].as_graph(), f"{head.op.scope}.again")
    count = len(node.inputs) - 2
    for output in body.outputs[: 1 + count]:
        add_output(body.op, output)
    body.op.graph.inputs[:] = body.inputs
    body.finish()
    return head.op.node("Loop", turn, *node.inputs[1:], outputs=count, body=body.op.graph)[index - 2]


def _keeps_shape(before: ir.Value, after: ir.Value) -> bool:
    if before.shape is None or after.shape is None:
        return False
    return list(before.shape) == list(after.shape) and all(isinstance(d, int) or d.value for d in before.shape)


def _record_sequence(op: GradientBuilder, node: ir.Node, index: int) -> ir.Value:
    """Run the loop once more to keep a carried value whose shape changes: a sequence with one tensor per iteration."""
    graph = node.attributes["body"].as_graph()
    body = replay(op, graph, f"{op.scope}.record")
    value = body.inputs[index]
    kind = ir.SequenceType(value.type) if value.type is not None else None
    kept = ir.Value(name=op.names.fresh(f"{op.scope}.kept"), type=kind, shape=value.shape)
    grown = body.op.SequenceInsert(kept, value)
    grown.type, grown.shape = kind, value.shape
    count = len(node.inputs) - 2
    for output in body.outputs[: 1 + count]:
        add_output(body.op, output)
    add_output(body.op, grown)
    body.op.graph.inputs[:] = [*body.inputs, kept]
    body.finish()
    assert value.dtype is not None
    start = op.SequenceEmpty(dtype=int(value.dtype))
    results = op.node("Loop", *node.inputs, start, outputs=count + 1, body=body.op.graph)
    results[-1].type, results[-1].shape = kind, value.shape
    return results[-1]


def _start(op: GradientBuilder, dy: ir.Value | None, output: ir.Value) -> ir.Value:
    return zeros(op, output) if dy is None else dy


def _typed(result: ir.Value, like: ir.Value) -> ir.Value:
    result.type, result.shape = like.type, like.shape
    return result


def _collect(
    op: GradientBuilder, operands: Sequence[ir.Value], results: Sequence[ir.Value]
) -> dict[ir.Value, ir.Value]:
    grads: dict[ir.Value, ir.Value] = {}
    for operand, result in zip(operands, results, strict=True):
        _typed(result, operand)
        grads[operand] = add(op, grads[operand], result) if operand in grads else result
    return grads
