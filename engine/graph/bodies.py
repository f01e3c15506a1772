"""Bodies of If, Loop, Scan and SequenceMap from Python functions on variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.bodies import add_input, add_output, body_builder
from onnxgrad.engine.ir.builder import Builder, describe_value
from onnxgrad.engine.ir.infer import infer_node
from onnxgrad.engine.ir.signatures import to_attributes

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph

BodyFunction = Callable[..., object]

_ROUNDS = 4  # of a loop whose carried values change their shapes: then nothing is said of them


@dataclass(frozen=True)
class _Formal:
    """An input of a body that is to be written."""

    name: str
    type: ir.TypeProtocol | None
    shape: ir.Shape | None


def add_with_bodies(
    graph: Graph, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, object]
) -> tuple[ir.Value, ...]:
    """The outputs of If, Loop, Scan or SequenceMap whose bodies are functions: they get the variables that the
    specification gives the body, and return what the body is to return, one value or several.

    They may use variables from outside. A function may be called more than once, as loops change shapes. It must not
    keep the variables it is given or makes.

    Raises: GraphError for another operator, for results that the operator cannot use; what the functions raise.
    """
    write = _WRITERS.get(op_type)
    if write is None:
        raise GraphError(f"{op_type} has no body that a function could write")
    plain = {name: value for name, value in attributes.items() if not callable(value)}
    functions = {name: value for name, value in attributes.items() if callable(value)}
    label = graph.builder.names.fresh_node(op_type)
    bodies, count = write(graph, label, inputs, functions, plain)
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    node = ir.Node("", op_type, given, to_attributes({**plain, **bodies}), num_outputs=count)  # type: ignore[dict-item]
    builder = graph.builder
    builder.insert(node)
    infer_node(builder.context, builder.functions, node)
    return tuple(node.outputs)


_Written = tuple[dict[str, ir.Graph], int]


def _write_if(
    graph: Graph,
    label: str,
    inputs: Sequence[ir.Value | None],
    functions: Mapping[str, BodyFunction],
    plain: Mapping[str, object],
) -> _Written:
    bodies = {name: value for name, value in plain.items() if isinstance(value, ir.Graph)}
    for name, function in functions.items():
        bodies[name] = _write(graph, f"{label}.{name}", function, [])
    counts = {name: len(body.outputs) for name, body in bodies.items()}
    if len(set(counts.values())) != 1 or len(bodies) != 2:
        raise GraphError(f"both branches of If must return equally many values, these: {counts}", where=label)
    then, other = bodies["then_branch"], bodies["else_branch"]
    for a, b in zip(then.outputs, other.outputs, strict=True):
        if a.type is not None and b.type is not None and a.type != b.type:
            raise GraphError(
                f"the branches return different types: {describe_value(a)} and {describe_value(b)}", where=label
            )
    return bodies, len(then.outputs)


def _write_loop(
    graph: Graph,
    label: str,
    inputs: Sequence[ir.Value | None],
    functions: Mapping[str, BodyFunction],
    plain: Mapping[str, object],
) -> _Written:
    (function,) = functions.values()
    scalar = ir.Shape([])
    first = [
        _Formal("iteration", ir.TensorType(ir.DataType.INT64), scalar),
        _Formal("condition", ir.TensorType(ir.DataType.BOOL), scalar),
    ]
    carried = [_formal(value, f"carried_{k}") for k, value in enumerate(inputs[2:])]
    body = _write_until_stable(graph, f"{label}.body", function, first, carried, [], 1)
    return {"body": body}, len(body.outputs) - 1


def _write_scan(
    graph: Graph,
    label: str,
    inputs: Sequence[ir.Value | None],
    functions: Mapping[str, BodyFunction],
    plain: Mapping[str, object],
) -> _Written:
    (function,) = functions.values()
    count = plain.get("num_scan_inputs")
    if not isinstance(count, int) or not 0 < count <= len(inputs):
        raise InputError(f"num_scan_inputs={count!r} is not possible for {len(inputs)} inputs", where=label)
    axes = plain.get("scan_input_axes") or [0] * count
    assert isinstance(axes, Sequence)
    states = [_formal(value, f"state_{k}") for k, value in enumerate(inputs[:-count])]
    slices = [_without_axis(_formal(v, f"slice_{k}"), axes[k]) for k, v in enumerate(inputs[-count:])]
    body = _write_until_stable(graph, f"{label}.body", function, [], states, slices, 0)
    return {"body": body}, len(body.outputs)


def _write_sequence_map(
    graph: Graph,
    label: str,
    inputs: Sequence[ir.Value | None],
    functions: Mapping[str, BodyFunction],
    plain: Mapping[str, object],
) -> _Written:
    (function,) = functions.values()
    items = []
    for k, value in enumerate(inputs):
        formal = _formal(value, f"item_{k}")
        kind = formal.type.elem_type if isinstance(formal.type, ir.SequenceType) else formal.type
        assert not isinstance(kind, ir.DataType)
        items.append(_Formal(formal.name, kind, formal.shape))
    body = _write(graph, f"{label}.body", function, items)
    return {"body": body}, len(body.outputs)


_WRITERS = {"If": _write_if, "Loop": _write_loop, "Scan": _write_scan, "SequenceMap": _write_sequence_map}


def _write(graph: Graph, label: str, function: BodyFunction, formals: Sequence[_Formal]) -> ir.Graph:
    """The sub-graph that a function makes of these inputs."""
    inner = body_builder(graph.builder, label, share=True)
    given = [Var(graph, add_input(inner, f"{label}.{formal.name}", formal.type, formal.shape)) for formal in formals]
    for var in given:
        if var.value.shape is not None:
            inner.context.name_anonymous_dims(var.value)
    try:
        with graph.writing(inner):
            found = function(*given)
            results = list(found) if isinstance(found, list | tuple) else [found]
            for result in results:
                add_output(inner, _value(graph, inner, label, result))
    except BaseException:
        _let_go(inner.graph)
        raise
    return inner.graph


def _value(graph: Graph, inner: Builder, label: str, result: object) -> ir.Value:
    if isinstance(result, Var):
        graph.check_own(result)
        return result.value
    if isinstance(result, bool | int | float | np.ndarray | np.generic):
        return graph.constant(result).value
    raise GraphError(f"the function of a body returns {result!r}", where=label, fix="variables, numbers or arrays")


def _write_until_stable(
    graph: Graph,
    label: str,
    function: BodyFunction,
    first: Sequence[_Formal],
    carried: Sequence[_Formal],
    last: Sequence[_Formal],
    before: int,
) -> ir.Graph:
    """The body of a loop. A carried value has the shape that holds in all rounds: sizes that change are not known.

    before: how many outputs there are before the carried ones.
    """
    for round_ in range(_ROUNDS + 1):
        body = _write(graph, label, function, [*first, *carried, *last])
        results = list(body.outputs)[before : before + len(carried)]
        if len(results) < len(carried):
            raise GraphError(
                f"the body returns {len(body.outputs)} values, and needs {before + len(carried)} or more", where=label
            )
        for formal, result in zip(carried, results, strict=True):
            if formal.type is not None and result.type is not None and formal.type != result.type:
                raise GraphError(
                    f"the carried value {formal.name!r} changes its type to {describe_value(result)}", where=label
                )
        wider = [_Formal(f.name, f.type, _common(f.shape, v.shape)) for f, v in zip(carried, results, strict=True)]
        if all(_same(old.shape, new.shape) for old, new in zip(carried, wider, strict=True)):
            return body
        _let_go(body)
        carried = wider if round_ < _ROUNDS - 1 else [_Formal(f.name, f.type, None) for f in wider]
    return body


def _let_go(body: ir.Graph) -> None:
    """Let nothing of a body that is thrown away count as a use of outer values."""
    body.outputs.clear()
    for node in body.all_nodes():
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)


def _common(before: ir.Shape | None, after: ir.Shape | None) -> ir.Shape | None:
    if before is None or after is None or len(before) != len(after):
        return None
    return ir.Shape([a if a == b else None for a, b in zip(before, after, strict=True)])


def _same(a: ir.Shape | None, b: ir.Shape | None) -> bool:
    if a is None or b is None:
        return a is b
    known = [x.value if isinstance(x, ir.SymbolicDim) else x for x in a]
    return known == [x.value if isinstance(x, ir.SymbolicDim) else x for x in b]


def _formal(value: ir.Value | None, name: str) -> _Formal:
    return _Formal(name, None, None) if value is None else _Formal(name, value.type, value.shape)


def _without_axis(formal: _Formal, axis: int) -> _Formal:
    if formal.shape is None:
        return formal
    sizes = list(formal.shape)
    if not -len(sizes) <= axis < len(sizes):
        raise InputError(f"scan_input_axes: a value of {len(sizes)} axes has no axis {axis}")
    del sizes[axis]
    return _Formal(formal.name, formal.type, ir.Shape(sizes))
