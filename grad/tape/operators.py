"""The gradient of an operator that ran: a rule made for tensors if there is one, else its backward graph."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, GradientRuleMissing, ShapeError
from onnxgrad.engine.graph.operand import Call, Dim, Operand, apply
from onnxgrad.grad.registry import RULES, changes
from onnxgrad.grad.tape.backward_graph import BackwardGraph, Operator, ShapeQuery, make_backward_graph
from onnxgrad.grad.tape.kernels import LeastRecent, attributes_key, code_of
from onnxgrad.grad.tape.one_node import COMPOSITE, Spec
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.tape import Backward, Grads, untracked
from onnxgrad.grad.tape.tensor import Tensor, run_call

GRAPHS = 512
"""How many backward graphs a thread keeps, those that there are not among them."""
_FLOATS = frozenset(int(kind) for kind in ir.DataType if kind.is_floating_point())
_SMALL = 64  # elements of a literal that a graph may be made for

# Literals that gradients are computed from as they come; for other small ones of integers a graph is made each.
_DYNAMIC: Mapping[str, tuple[int, ...]] = {
    "Expand": (1,),
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "Reshape": (1,),
    "ScatterElements": (1,),
    "ScatterND": (1,),
    "Slice": (1, 2),
    "TopK": (1,),
    "Where": (0,),
}
# Literals of floats that decide which formula holds.
_STATIC_FLOATS: Mapping[str, tuple[int, ...]] = {"Dropout": (1,), "Pow": (1,), "Resize": (1, 2)}


@dataclass(frozen=True)
class CustomBackward:
    """The gradient of an operator, as a function of tensors.

    function: (gradient of each output, or None) -> one gradient, or None, for each input that has one.
    """

    function: Callable[[Grads], Grads]
    input_has_grad: Sequence[bool]
    reads_output_grad: Sequence[bool]

    def run(self, dys: Grads) -> Grads:
        """See Backward. Raises: GradientError for another number of gradients than there are inputs that have one."""
        grads = self.function(dys)
        if len(grads) != sum(self.input_has_grad):
            raise GradientError(f"a rule gives {len(grads)} gradients for {sum(self.input_has_grad)} inputs")
        return grads


GradRule = Callable[[Call, Sequence[Tensor], Sequence[bool]], CustomBackward | None]
_GRAD_RULES: dict[tuple[str, str], GradRule] = {}
_OF_SHAPES: set[GradRule] = set()
"""Rules that keep no tensor."""


def register_grad_rule(op_type: str, rule: GradRule, domain: str = "", *, keeps_tensors: bool = True) -> bool:
    """Give an operator on tensors a gradient of its own. The first rule of an operator stays; says whether it is this.

    rule: (call, outputs, which inputs require a gradient) -> CustomBackward, or None to decline, whereupon the operator
    has the gradient that the graph of it would have. It gets all gradients of outputs, also those that are None. The
    tensors of `call` and `outputs` may be kept, for they are not those that the program has; a rule that keeps none is
    spared the making of these.
    """
    if not keeps_tensors:
        _OF_SHAPES.add(rule)
    return _GRAD_RULES.setdefault((domain, op_type), rule) is rule


def lookup_grad_rule(op_type: str, domain: str = "") -> GradRule | None:
    """The rule that `register_grad_rule` was given for an operator."""
    return _GRAD_RULES.get((domain, op_type))


class _Cache(threading.local):
    def __init__(self) -> None:
        self.graphs: LeastRecent[_Entry] = LeastRecent(GRAPHS)


CACHE = _Cache()


def find_backward(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool], level: int) -> Backward | None:
    """The gradient of a call, for a tape of that level; None where no input has one. See tape.BackwardSource."""
    if not (_is_float(outputs[0]) or any(map(_is_float, outputs))):
        return None
    rule = _GRAD_RULES.get((call.domain, call.op_type))
    if rule is not None and not _is_overruled(call):
        if rule in _OF_SHAPES:
            found = rule(call, outputs, requires)
        else:
            inputs = tuple([untracked(v, level) if isinstance(v, Tensor) else v for v in call.inputs])
            inner = Call(call.op_type, inputs, call.attributes, call.outputs, call.domain)
            found = rule(inner, [untracked(output, level) for output in outputs], requires)
        if found is not None:
            return found
    if STATE.tracer is not None:
        traced = STATE.tracer.backward_of(call, outputs, requires, level)
        if traced is not None:
            return traced
    return general_backward(call, outputs, requires, level)


def general_backward(
    call: Call, outputs: Sequence[Tensor], requires: Sequence[bool], level: int
) -> _GraphBackward | _Missing | None:
    """The gradient of a call as its backward graph."""
    graph = backward_graph_of(call, outputs, requires)
    if isinstance(graph, GradientRuleMissing):
        return _Missing(graph, len(call.inputs), len(outputs))
    return None if graph is None else _GraphBackward(graph, call, outputs, level)


def _is_float(output: Tensor) -> bool:
    kind = output._code & 255
    if kind == 0:  # not asked for yet
        known = output.element_type
        return known is None or int(known) in _FLOATS
    return kind in _FLOATS


def _is_overruled(call: Call) -> bool:
    """Whether the program has registered a gradient for graphs, which then holds for tensors too."""
    rules = RULES.get((call.domain, call.op_type))
    if not changes() or not rules:
        return False
    function = rules[0].function
    return function is not None and not function.__module__.startswith("onnxgrad.grad.")


def backward_graph_of(
    call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]
) -> BackwardGraph | GradientRuleMissing | None:
    """The backward graph of a call, made when there is none yet; an error where one cannot be made.

    The key holds all that the graph depends on, and no shapes: only how those of operands that are broadcast agree.
    """
    known = [_known_value(call, index) for index in range(len(call.inputs))]
    codes = tuple([_code(value) for value in call.inputs])
    pattern = _broadcast_pattern(call, outputs)
    key = (
        call.op_type,
        call.domain,
        attributes_key(call.attributes),
        codes,
        tuple([_code(output) for output in outputs]),
        tuple(requires),
        _bytes_of(known),
        pattern,
        changes(),
    )
    found = CACHE.graphs.find(key) or CACHE.graphs.keep(key, _make(call, outputs, requires, known, pattern))
    if found is _Made.FOR_SHAPES:
        shapes = [None if v is None else v.shape for v in (*call.inputs, *outputs)]
        known = [v if isinstance(v, np.ndarray) and v.dtype.kind in "iub" else None for v in call.inputs]
        exact = _Pattern(tuple(shapes[: len(call.inputs)]), tuple(shapes[len(call.inputs) :]))
        by_shape = (key, exact, _bytes_of(known))
        found = CACHE.graphs.find(by_shape) or CACHE.graphs.keep(by_shape, _make(call, outputs, requires, known, exact))
    return None if isinstance(found, _Made) else found


def _bytes_of(values: Sequence[np.ndarray | None]) -> tuple[bytes | None, ...]:
    return tuple([None if value is None else value.tobytes() for value in values])


class _Made(Enum):
    """What is known of an operator that has no backward graph."""

    NOTHING = "nothing to compute"
    FOR_SHAPES = "a graph for all shapes cannot be made, one for each can"


def _make(
    call: Call,
    outputs: Sequence[Tensor],
    requires: Sequence[bool],
    known: Sequence[np.ndarray | None],
    pattern: _Pattern | None,
) -> _Entry:
    dims = [*pattern.inputs, *pattern.outputs] if pattern is not None else [None] * (len(call.inputs) + len(outputs))
    given = zip(call.inputs, dims, known, strict=False)
    specs = tuple([None if v is None else _spec(v, d, value) for v, d, value in given])
    made = tuple([_spec(output, d, None) for output, d in zip(outputs, dims[len(specs) :], strict=False)])
    operator = Operator(call.op_type, call.domain, call.attributes, specs, made)
    try:
        return make_backward_graph(operator, requires) or _Made.NOTHING
    except GradientRuleMissing as error:
        return GradientRuleMissing(error.what, where=error.where, why=error.why, fix=error.fix)
    except ShapeError:
        shapes = [value.shape for value in (*call.inputs, *outputs) if value is not None]
        if not all(map(_is_static, shapes)) or all(spec is None or _is_static(spec.dims) for spec in (*specs, *made)):
            raise
        return _Made.FOR_SHAPES


def _is_static(shape: Sequence[Dim] | None) -> bool:
    return shape is not None and all(isinstance(size, int) for size in shape)


def _spec(value: Operand | np.ndarray, dims: tuple[Dim, ...] | None, known: np.ndarray | None) -> Spec:
    if known is not None:
        return Spec(ir.DataType.from_numpy(known.dtype), known.shape, known)
    kind = value.element_type if isinstance(value, Operand) else ir.DataType.from_numpy(value.dtype)
    assert kind is not None
    return Spec(kind, dims if dims is not None else (None,) * value.ndim)


def _code(value: Operand | np.ndarray | None) -> int:
    if isinstance(value, Tensor):
        return value._code or value._find_code()
    if value is None:
        return 0
    assert isinstance(value, np.ndarray)
    return code_of(int(ir.DataType.from_numpy(value.dtype)) if value.dtype != object else 8, value.ndim)


def _known_value(call: Call, index: int) -> np.ndarray | None:
    """The literal that a graph is made for."""
    value = call.inputs[index]
    if not isinstance(value, np.ndarray) or value.size > _SMALL:
        return None
    if call.domain == COMPOSITE:
        return None  # shapes, which a graph is not to be made for if one does for all
    if value.dtype.kind in "iub":
        return None if index in _DYNAMIC.get(call.op_type, ()) else value
    return value if index in _STATIC_FLOATS.get(call.op_type, ()) else None


@dataclass(frozen=True)
class _Pattern:
    """How the shapes of operands agree with that of the output: names of its axes, 1 where they are broadcast.

    Or all sizes, where a graph is made for them.
    """

    inputs: tuple[tuple[Dim, ...] | None, ...]
    outputs: tuple[tuple[Dim, ...] | None, ...]


def _broadcast_pattern(call: Call, outputs: Sequence[Tensor]) -> _Pattern | None:
    rules = RULES.get((call.domain, call.op_type))
    if not rules or not rules[0].broadcasts or len(outputs) != 1:
        return None
    shape = outputs[0].shape
    if shape is None:
        return None
    axes = tuple([f"s{axis}" for axis in range(len(shape))])
    aligned = len(shape) - 2 if call.op_type == "MatMul" else len(shape)
    inputs = tuple([_aligned(value, shape, axes, aligned) for value in call.inputs])
    return _Pattern(inputs, (axes,))


def _aligned(
    value: Operand | np.ndarray | None, shape: tuple[Dim, ...], axes: tuple[str, ...], aligned: int
) -> tuple[Dim, ...] | None:
    own = None if value is None else value.shape
    if own is None:
        return None
    if own == shape and aligned == len(shape):
        return axes
    lead = len(shape) - len(own)
    found: list[Dim] = []
    for axis, size in enumerate(own, lead):
        if axis < 0 or axis >= aligned or size is None:
            found.append(None)
        elif size == shape[axis]:
            found.append(axes[axis])
        else:
            found.append(1 if size == 1 else None)
    return tuple(found)


class _Missing:
    """An operator without a rule: an error, once a gradient is to go through it."""

    def __init__(self, error: GradientRuleMissing, inputs: int, outputs: int) -> None:
        self._error = error
        self.input_has_grad = (True,) * inputs
        self.reads_output_grad = (True,) * outputs

    def run(self, dys: Grads) -> Grads:
        """Raises: GradientRuleMissing."""
        error = self._error
        raise GradientRuleMissing(error.what, where=error.where, why=error.why, fix=error.fix)


class _GraphBackward:
    """A backward graph with what it reads of one run of the operator."""

    __slots__ = ("_graph", "_outputs", "_saved", "_zeros", "input_has_grad", "reads_output_grad")

    def __init__(self, graph: BackwardGraph, call: Call, outputs: Sequence[Tensor], level: int) -> None:
        self._graph, self._outputs = graph, len(outputs)
        self.input_has_grad = graph.input_has_grad
        values = (*call.inputs, *outputs)
        self.reads_output_grad = graph.save[len(values) :]
        self._saved: list[Operand | np.ndarray] = [_answer(query, values[query.place]) for query in graph.queries]
        for value, kept in zip(values, graph.save, strict=False):
            if kept:
                assert value is not None
                self._saved.append(untracked(value, level) if isinstance(value, Tensor) else value)
        self._zeros = [_Zeros(output) for output in outputs] if len(outputs) > 1 else None

    def run(self, dys: Grads) -> Grads:
        """See Backward."""
        graph = self._graph
        given = [dy if read else None for dy, read in zip(dys, self.reads_output_grad, strict=True)]
        if all(dy is None for dy in given):
            return [None] * len(graph.results)
        if self._zeros is not None:
            pairs = zip(given, self._zeros, self.reads_output_grad, strict=True)
            given = [zeros.make() if dy is None and read else dy for dy, zeros, read in pairs]
        found: Sequence[Tensor] = ()
        if graph.body is not None:
            inputs = (*self._saved, *(dy for dy in given if dy is not None))
            count = len(graph.body.graph.outputs)
            found = run_call(Call(graph.body.name, inputs, {"body": graph.body}, count, COMPOSITE))
        return [found[place] if place >= 0 else given[-1 - place] for place in graph.results]


class _Zeros:
    """What stands for the gradient of an output that has none."""

    __slots__ = ("_device", "_kind", "_shape")

    def __init__(self, output: Tensor) -> None:
        self._kind, self._device, self._shape = output.element_type, output.device, shape_of(output)

    def make(self) -> Tensor:
        """Zeros of the output's shape, dtype and device."""
        assert self._kind is not None
        zeros = apply("Expand", (np.zeros((), self._kind.numpy()), self._shape), outputs=1)[0]
        assert isinstance(zeros, Tensor)
        return zeros.to(self._device)


def shape_of(value: Operand | np.ndarray) -> np.ndarray | Operand:
    """The shape, to be kept in the place of the tensor; an operand while a function is traced and it is not known."""
    if _is_static(value.shape):
        return np.asarray(value.shape, np.int64)
    return apply("Shape", (value,), outputs=1)[0]


def _answer(query: ShapeQuery, value: Operand | np.ndarray | None) -> np.ndarray | Operand:
    assert value is not None
    shape = value.shape
    if not _is_static(shape):
        attributes = {} if query.op_type == "Size" else {"start": query.start, "end": query.end}
        return apply(query.op_type, (value,), attributes, outputs=1)[0]
    assert shape is not None
    if query.op_type == "Size":
        return np.asarray(math.prod(size for size in shape if isinstance(size, int)), np.int64)
    return np.asarray(shape[query.start : query.end], np.int64)


_Entry = BackwardGraph | GradientRuleMissing | _Made
