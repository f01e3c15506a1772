"""Random bodies: If, Loop and calls of functions, whose graphs grow by the same families."""

import math

import numpy as np
import onnx
import onnx.helper as oh

from tests.properties.rewrite_sketch import BOOL, FLOAT, FUNCTIONS, INT, MOST, Flag, Sketch, Value


def _graph(body: Sketch, name: str, inputs: list[Value], results: list[Value]) -> onnx.GraphProto:
    """The body, whose results it makes itself."""
    made = {output for node in body.nodes for output in node.output}
    ends = []
    for value in results:
        end = value if value.name in made and value.name not in ends else None
        if end is None:
            end = value.of(name=body.fresh("v"))
            body.nodes.append(oh.make_node("Identity", [value.name], [end.name]))
        ends.append(end.name)
    infos = [oh.make_tensor_value_info(v.name, v.dtype, v.shape) for v in inputs]
    outputs = [oh.make_tensor_value_info(n, v.dtype, None) for n, v in zip(ends, results, strict=True)]
    return oh.make_graph(body.nodes, name, infos, outputs, body.constants)


def _last(body: Sketch, count: int, fallback: Value) -> Value:
    """The last float that the body made after its first `count` values."""
    return next((v for v in reversed(body.values[count:]) if v.dtype == FLOAT), fallback)


def branch(sketch: Sketch) -> None:
    """If by a constant, an input or a comparison, of one or two results."""
    x, bodies = sketch.operand(), [sketch.child("branch", sketch.values) for _ in range(2)]
    condition = _condition(sketch)
    bodies[0].values = list(sketch.values)
    bodies[0].grow(sketch.random.randint(0, 2))
    first = [_last(bodies[0], len(sketch.values), x)]
    first += [x] * sketch.chance(0.3)
    bodies[1].values = list(sketch.values)
    bodies[1].grow(sketch.random.randint(0, 2))
    second = [_like(bodies[1], value) for value in first]
    results = [a.of(bound=max(a.bound, b.bound), exact=a.exact and b.exact) for a, b in zip(first, second, strict=True)]
    graphs = [_graph(body, kind, [], ends) for body, kind, ends in zip(bodies, "te", (first, second), strict=True)]
    sketch.emit("If", [condition.name], *results, then_branch=graphs[0], else_branch=graphs[1])


def _like(body: Sketch, value: Value) -> Value:
    """The last value of this shape, or a constant."""
    fitting = [v for v in body.values if v.shape == value.shape and v.dtype == value.dtype]
    if fitting and body.chance(0.8):
        return fitting[-1]
    return value.of(name=body.constant(body.integers(value.shape)), bound=1e30 if body.special else 3.0)


def _condition(sketch: Sketch) -> Flag:
    """A flag, or whether the largest integer of a value is above a limit."""
    whole = [v for v in sketch.values if v.exact and v.dtype == FLOAT]
    if not whole or sketch.special or sketch.chance():
        return sketch.flag()
    v = sketch.random.choice(whole)
    peak = sketch.emit("ReduceMax", [v.name], v.of(shape=()), keepdims=0)
    assert peak is not None
    mask = sketch.emit("Greater", [peak.name, sketch.constant(np.float32(2))], peak.of(dtype=BOOL, bound=1.0))
    assert mask is not None
    return Flag(mask.name, None)


def loop(sketch: Sketch) -> None:
    """Loop of up to four rounds with one or two states, and maybe a scan."""
    states = [sketch.operand() for _ in range(sketch.random.randint(1, 2))]
    if any(v.dtype != FLOAT or math.prod(v.shape) > MOST // 4 for v in states):
        return
    trips, start = sketch.random.choice([0, 1, 1, 2, 3, 4]), sketch.flag()
    stop = sketch.random.choice([None, None, None, 0, 1])
    limit = np.array(trips)
    count = sketch.constant(limit) if "function" in sketch.kind or sketch.chance(0.7) else sketch.input(INT, limit)
    rounds = min(trips, trips if stop is None else stop + 1) if start.holds else 0
    formals = [v.of(name=sketch.fresh("s"), exact=False) for v in states]
    number, keep = Value(sketch.fresh("i"), (), INT, 4.0), Value(sketch.fresh("k"), (), BOOL, 1.0)
    body = sketch.child("loop", [*sketch.values, *formals])
    known = len(body.values)
    _read_row(body, number)
    body.grow(sketch.random.randint(0, 2))
    scan = [_last(body, known, formals[0])] if sketch.chance() else []
    ends = [_next_state(body, v, known) for v in formals]
    go = _go_on(body, number, keep, stop)
    graph = _graph(body, "b", [number, keep, *formals], [go, *ends, *scan])
    results = [v.of(exact=False) for v in states]
    scans = [v.of(shape=(rounds, *v.shape), exact=False) for v in scan]
    sketch.emit("Loop", [count, start.name, *[v.name for v in states]], *results, *scans, body=graph)


def _read_row(body: Sketch, number: Value) -> None:
    """Take the row of the round from a value of the graph around, now and then."""
    rows = [v for v in body.values if v.dtype == FLOAT and v.shape and v.shape[0] >= 4]
    if rows and body.chance(0.4):
        x = body.random.choice(rows)
        body.emit("Gather", [x.name, number.name], x.of(shape=x.shape[1:]), axis=0)


def _next_state(body: Sketch, state: Value, known: int) -> Value:
    """What has the shape of the state, and stays as small."""
    fitting = [v for v in body.values[known:] if v.shape == state.shape and v.dtype == FLOAT]
    if not fitting:
        return state
    chosen = fitting[-1]
    if chosen.bound <= state.bound and not body.special:
        return chosen
    low, high = (body.constant(np.float32(sign * state.bound), fixed=True) for sign in (-1, 1))
    return body.emit("Clip", [chosen.name, low, high], state) or state


def _go_on(body: Sketch, number: Value, keep: Value, stop: int | None) -> Value:
    """Whether there is another round: always, as before, or until a number of rounds."""
    if stop is not None:
        less = body.emit("Less", [number.name, body.constant(np.array(stop))], keep)
        assert less is not None
        return less
    return keep if body.chance() else keep.of(name=body.constant(np.array(True)))


def function(sketch: Sketch) -> None:
    """A function of one or two values with an attribute, called once or twice."""
    operands = [sketch.operand() for _ in range(sketch.random.randint(1, 2))]
    if any(v.dtype != FLOAT for v in operands) or "function" in sketch.kind:
        return
    formals = [v.of(name=sketch.fresh("p")) for v in operands]
    body = sketch.child("function", formals)
    body.grow(sketch.random.randint(0, 3))
    if body.chance():
        h = body.values[-1] if body.values[-1].dtype == FLOAT else formals[0]
        if body.emit("LeakyRelu", [h.name], h.of(exact=False)):
            body.nodes[-1].attribute.append(_reference("alpha"))
    result = _last(body, len(formals), formals[0])
    graph = _graph(body, "f", formals, [result])
    inputs, outputs = [v.name for v in formals], [graph.output[0].name]
    name, imports, alpha = (
        sketch.fresh("F"),
        [oh.make_opsetid("", sketch.model.opset)],
        sketch.random.choice([0.5, 0.25]),
    )
    made = oh.make_function(FUNCTIONS, name, inputs, outputs, list(graph.node), imports, ["alpha"])
    sketch.model.functions.append(made)
    for times in range(sketch.random.randint(1, 2)):
        given = operands if times == 0 else [_smaller(sketch, v) for v in operands]
        sketch.emit(name, [v.name for v in given], result.of(exact=False), domain=FUNCTIONS, alpha=alpha)


def _reference(name: str) -> onnx.AttributeProto:
    return onnx.AttributeProto(name=name, ref_attr_name=name, type=onnx.AttributeProto.FLOAT)


def _smaller(sketch: Sketch, value: Value) -> Value:
    """Another value of this shape that is as exact and as small, or this one."""
    alike = [v for v in sketch.values if (v.shape, v.dtype) == (value.shape, value.dtype)]
    fitting = [v for v in alike if v.bound <= value.bound and v.exact >= value.exact]
    return sketch.random.choice(fitting or [value])


FAMILIES = (branch, branch, loop, loop, function, function)
