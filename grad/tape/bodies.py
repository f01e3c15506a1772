"""If, Loop and Scan whose bodies are Python functions, on tensors: the functions are called, and nothing else runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.operand import Call, Operand, apply
from onnxgrad.engine.graph.var import Var
from onnxgrad.grad.tape.state import STATE, Tracer, recording_with, tracing_with
from onnxgrad.grad.tape.tensor import Tensor, run_call
from onnxgrad.grad.tape.tracer import GraphTracer

BodyFunction = Callable[..., object]


def run_bodies(call: Call) -> tuple[Tensor, ...] | None:
    """The outputs of an operator with functions as bodies; None where its bodies are graphs.

    Operators in the functions are recorded like all others, so that gradients go through the rounds that were run.
    While a function is traced the bodies become sub-graphs, of which no gradients are recorded.

    Raises: GraphError for a function that returns what the operator cannot use, or for gradients of sub-graphs.
    """
    functions = {name: value for name, value in call.attributes.items() if callable(value)}
    if not functions:
        return None
    if STATE.tracer is not None:
        return _written(call, functions, STATE.tracer)
    inputs = [None if value is None else _tensor(value) for value in call.inputs]
    if call.op_type == "If":
        chosen = "then_branch" if inputs[0] else "else_branch"
        return tuple(_results(functions[chosen]()))
    (function,) = functions.values()
    return _loop(call, function, inputs) if call.op_type == "Loop" else _scan(call, function, inputs)


def _written(call: Call, functions: Mapping[str, BodyFunction], tracer: Tracer) -> tuple[Tensor, ...]:
    """The operator in the graph that is traced, its bodies written by the functions."""
    if STATE.recorders:
        raise GraphError(
            f"{call.op_type} with functions as bodies, traced while gradients are recorded",
            why="the gradient of what the functions use from outside would be lost",
            fix="og.op.Where for a choice, a Python loop for a fixed number of rounds; or og.no_grad()",
        )

    def of_variables(function: BodyFunction) -> BodyFunction:
        def body(*given: Var) -> list[Var]:
            found = _results(function(*[Tensor._of(value) for value in given]))
            return [tracer.value_of(value) for value in found]

        return body

    attributes = {name: of_variables(value) if callable(value) else value for name, value in call.attributes.items()}
    inner = Call(call.op_type, call.inputs, attributes, call.outputs, call.domain)
    return tuple([Tensor._of(value) for value in tracer.apply(inner)])


def _loop(call: Call, function: BodyFunction, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """(trips, condition, carried...) -> (carried..., what each round gave beside them, stacked)."""
    trips, condition, *carried = inputs
    going = condition is None or bool(condition)
    state = [_present(value, call) for value in carried]
    beside: list[list[Tensor]] = []
    number = 0
    while going and (trips is None or number < int(trips)):
        found = _results(function(Tensor(number), Tensor(True), *state))
        if len(found) <= len(state):
            raise GraphError(
                f"the body of Loop returns {len(found)} values",
                fix=f"a condition and {len(state)} carried ones, or more",
            )
        going, state = bool(found[0]), found[1 : 1 + len(state)]
        beside.append(found[1 + len(state) :])
        number += 1
    if not beside:
        return (*state, *_stacked_none(call, len(state)))
    return (*state, *_stacked(beside, [0] * len(beside[0])))


def _scan(call: Call, function: BodyFunction, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """(states..., scanned...) -> (states..., what each round gave beside them, stacked)."""
    count = call.attributes.get("num_scan_inputs")
    if not isinstance(count, int) or not 0 < count <= len(inputs):
        raise InputError(f"num_scan_inputs={count!r} is not possible for {len(inputs)} inputs", where="Scan")
    given = [_present(value, call) for value in inputs]
    state, scanned = given[: len(given) - count], given[len(given) - count :]
    axes, backwards = (_ints(call, name, count) for name in ("scan_input_axes", "scan_input_directions"))
    sizes = {_size(x, axis) for x, axis in zip(scanned, axes, strict=True)}
    if len(sizes) != 1:
        raise InputError(f"the scanned inputs have different lengths: {sorted(sizes)}", where="Scan")
    beside: list[list[Tensor]] = []
    (length,) = sizes
    for number in range(length):
        places = [length - 1 - number if back else number for back in backwards]
        slices = [_taken(x, axis, place) for x, axis, place in zip(scanned, axes, places, strict=True)]
        found = _results(function(*state, *slices))
        if len(found) < len(state):
            raise GraphError(f"the body of Scan returns {len(found)} values", fix=f"{len(state)} states, or more")
        state = found[: len(state)]
        beside.append(found[len(state) :])
    if not beside:
        return (*state, *_stacked_none(call, len(state)))
    kinds = len(beside[0])
    ends, reversed_ = (_ints(call, name, kinds) for name in ("scan_output_axes", "scan_output_directions"))
    columns = [[row[k] for row in (beside[::-1] if reversed_[k] else beside)] for k in range(kinds)]
    return (*state, *_stacked([list(row) for row in zip(*columns, strict=True)], ends))


def _ints(call: Call, name: str, count: int) -> list[int]:
    found = call.attributes.get(name)
    return [int(number) for number in found] if isinstance(found, list | tuple) else [0] * count


def _size(x: Tensor, axis: int) -> int:
    size = (x.shape or ())[axis]
    assert isinstance(size, int)
    return size


def _taken(x: Tensor, axis: int, place: int) -> Tensor:
    return _run("Gather", x, np.asarray(place), axis=axis)


def _stacked(rounds: Sequence[Sequence[Tensor]], axes: Sequence[int]) -> list[Tensor]:
    """Each column of values as one tensor with a new axis."""
    columns = zip(*rounds, strict=True)
    return [
        _run("Concat", *(_run("Unsqueeze", value, np.asarray([axis])) for value in column), axis=axis)
        for column, axis in zip(columns, axes, strict=True)
    ]


def _stacked_none(call: Call, states: int) -> list[Tensor]:
    """What no round gives beside the states: no elements, in the dtypes and shapes that the body would have."""
    tracer = GraphTracer(call.op_type)
    with tracing_with(tracer), recording_with(()):
        made = run_call(call)[states:]
    columns = []
    for value in made:
        kind, shape = value.element_type, value.shape
        if kind is None or shape is None:
            raise GraphError(f"what {call.op_type} gives without a round is not known", where=repr(value))
        columns.append(Tensor(np.zeros([size if isinstance(size, int) else 0 for size in shape], kind.numpy())))
    return columns


def _results(found: object) -> list[Tensor]:
    return [_tensor(value) for value in (found if isinstance(found, list | tuple) else [found])]


def _tensor(value: object) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _present(value: Tensor | None, call: Call) -> Tensor:
    if value is None:
        raise InputError(f"an input of {call.op_type} is missing")
    return value


def _run(op_type: str, *inputs: Operand | np.ndarray, **attributes: object) -> Tensor:
    found = apply(op_type, inputs, attributes, outputs=1)[0]
    assert isinstance(found, Tensor)
    return found
