"""The update of a parameter: dest = alpha * dest + beta * delta + bias, in a graph or at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError, ShapeError
from onnxgrad.engine.graph.expansion import DOMAIN, EXPANSIONS, Expanding
from onnxgrad.engine.graph.given import CallbackValue
from onnxgrad.engine.graph.inplace import update_in_place
from onnxgrad.engine.graph.operand import Call
from onnxgrad.engine.graph.shared_scalar import SharedScalar
from onnxgrad.engine.graph.shared_tensor import SharedTensor, VolatileTensor
from onnxgrad.engine.graph.signature import as_type
from onnxgrad.engine.graph.update_formula import next_value, working_type
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.values import numpy_dtype

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph

Coefficient: TypeAlias = float | SharedScalar | Var
Literal: TypeAlias = np.ndarray | float | Sequence[float]
_NEUTRAL = {"alpha": 1.0, "beta": 1.0, "bias": 0.0, "disable": 0}


class _Number(SharedScalar):
    """A coefficient that was given as a number, in the dtype of the tensor that it works on."""

    def __init__(self, value: object, kind: ir.DataType) -> None:
        self._kind = kind
        SharedScalar.__init__(self, as_type(np.asarray(value), kind))
        self.lock_dtype()

    def _as_scalar(self, value: object) -> np.generic:
        number: np.generic = as_type(np.asarray(value), self._kind).flat[0]
        return number


@overload
def add_update(
    dest: Var,
    delta: Var | SharedTensor | Literal,
    alpha: Coefficient = ...,
    beta: Coefficient = ...,
    bias: Coefficient = ...,
    *,
    disable: int | SharedScalar | Var = ...,
) -> Var: ...


@overload
def add_update(
    dest: SharedTensor,
    delta: Var,
    alpha: Coefficient = ...,
    beta: Coefficient = ...,
    bias: Coefficient = ...,
    *,
    disable: int | SharedScalar | Var = ...,
) -> Var: ...


@overload
def add_update(
    dest: SharedTensor,
    delta: SharedTensor | CallbackValue | Literal,
    alpha: float | SharedScalar = ...,
    beta: float | SharedScalar = ...,
    bias: float | SharedScalar = ...,
    *,
    disable: int | SharedScalar = ...,
) -> None: ...


def add_update(
    dest: Var | SharedTensor,
    delta: object,
    alpha: Coefficient = 1.0,
    beta: Coefficient = 1.0,
    bias: Coefficient = 0.0,
    *,
    disable: int | SharedScalar | Var = 0,
) -> Var | None:
    """dest = alpha * dest + beta * delta + bias, for a SharedTensor `dest`.

    Where `dest` or `delta` is a Var this adds an operator to its graph: a function that computes the variable returned,
    the next value, stores it after the run. All else that reads `dest` in that run reads the old value. Without a Var
    it is done at once, in the memory of `dest`.

    delta is broadcast to the shape of dest; in a graph it is cast to its dtype, else it must have it. Where alpha is 0
    the old value is not read: what is NaN does not stay NaN. disable: 1 leaves `dest` as it is, 0 does not; nothing
    else is allowed. For a pair of variables that has an update, this only sets the coefficients: numbers that differ
    from the defaults are seen by the next run of functions that exist, defaults that change by functions that are
    compiled from then on.

    Raises: GraphError for a `dest` that is no parameter; InputError for dtypes, shapes or numbers that do not fit.
    """
    given = {"alpha": alpha, "beta": beta, "bias": bias, "disable": disable}
    if isinstance(dest, Var) or isinstance(delta, Var) or any(isinstance(value, Var) for value in given.values()):
        return _in_graph(dest, delta, given)
    numbers = {
        name: value.get() if isinstance(value, SharedScalar) else value
        for name, value in given.items()
        if not isinstance(value, Var)
    }
    if numbers["disable"] not in (0, 1):
        raise _bad_switch(numbers["disable"])
    if numbers["disable"] == 0:
        update_in_place(dest, delta, numbers["alpha"], numbers["beta"], numbers["bias"])
    return None


def _in_graph(dest: Var | SharedTensor, delta: object, given: dict[str, Coefficient]) -> Var:
    graph = next(v.graph for v in (dest, delta, *given.values()) if isinstance(v, Var))
    if len(graph.builders) > 1:
        raise GraphError("a parameter cannot be updated inside of a body", fix="call add_update outside of it")
    target = dest.var(graph) if isinstance(dest, SharedTensor) else dest
    kind = _updatable(graph, target)
    change = _as_var(graph, delta, kind)
    if change.element_type != kind:
        change = change.astype(kind)
    _check_fits(target, change)
    known = next((node for node in target.value.consumers() if _is_update(node, target.value, change.value)), None)
    if known is not None:
        known.resize_inputs(2 + len(given))
        for index, (name, value) in enumerate(given.items(), 2):
            _set_again(graph, known, index, name, value)
        return Var(graph, known.outputs[0])
    copies = [given[name] for name in ("alpha", "beta", "bias")] == [0, 1, 0]
    coefficients = [
        graph.constant(np.zeros((), numpy_dtype(working_type(kind))))
        if copies and name == "alpha"
        else None
        if _is_number(value) and value == _NEUTRAL[name]
        else _as_operand(graph, name, value, kind)
        for name, value in given.items()
    ]
    (result,) = graph.add(Call("AddUpdate", (target, change, *coefficients), {}, 1, DOMAIN))
    assert isinstance(result, Var)
    return result


def _updatable(graph: Graph, dest: Var) -> ir.DataType:
    """The type of the elements of a parameter. Raises: GraphError for a variable that is none."""
    source = graph.sources.get(dest.value)
    if not isinstance(source, SharedTensor | VolatileTensor):
        what = "a constant" if dest.value.const_value is not None else "no SharedTensor"
        raise GraphError(f"{dest!r} cannot be updated", why=f"it is {what}", fix="dest: the Var of a SharedTensor")
    return source.element_type


def _as_var(graph: Graph, delta: object, kind: ir.DataType) -> Var:
    if isinstance(delta, Var):
        return delta
    if isinstance(delta, SharedTensor):
        return delta.var(graph)
    return graph.constant(as_type(np.asarray(delta), kind, "delta"))


def _check_fits(dest: Var, delta: Var) -> None:
    """Raises: ShapeError where it is known that delta is not broadcast to the shape of dest."""
    wanted, given = dest.shape, delta.shape
    if wanted is None or given is None:
        return
    pairs = list(zip(reversed(wanted), reversed(given), strict=False))
    clash = any(isinstance(a, int) and isinstance(b, int) and b not in (1, a) for a, b in pairs)
    if len(given) > len(wanted) or clash:
        raise ShapeError(f"{delta!r} cannot be broadcast to {dest!r}", fix="an update keeps the shape of dest")


def _is_update(node: ir.Node, dest: ir.Value, delta: ir.Value) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, "AddUpdate") and node.inputs[:2] == (dest, delta)


def _set_again(graph: Graph, node: ir.Node, index: int, name: str, value: Coefficient) -> None:
    """Let a coefficient of an update that is there be `value`."""
    present = node.inputs[index]
    source = None if present is None else graph.sources.get(present)
    if _is_number(value):
        if isinstance(source, _Number):
            source.set(value)
            return
        fixed = None if present is None else present.const_value
        if source is None and value == (_NEUTRAL[name] if fixed is None else fixed.numpy()):
            return
    kind = node.inputs[0].dtype  # type: ignore[union-attr]  # an update has a dest, which has a dtype
    assert kind is not None
    given = _as_operand(graph, name, value, kind).value
    if given.producer() is not None and given is not present:
        raise GraphError(
            f"{name} of an update cannot become {given.name!r}", why="it is computed after it", fix="give it at first"
        )
    node.replace_input_with(index, given)


def _as_operand(graph: Graph, name: str, value: Coefficient, kind: ir.DataType) -> Var:
    """A coefficient as a variable; a number is one that can be set later."""
    if isinstance(value, Var):
        return value
    if name == "disable":
        switch = value if isinstance(value, SharedScalar) else _Number(value, ir.DataType.INT32)
        if switch.element_type != ir.DataType.INT32 or switch.get() not in (0, 1):
            raise _bad_switch(switch)
        return switch.var(graph, name)
    return (value if isinstance(value, SharedScalar) else _Number(value, working_type(kind))).var(graph, name)


def _is_number(value: Coefficient) -> bool:
    return not isinstance(value, SharedScalar | Var)


def _bad_switch(value: object) -> InputError:
    return InputError(f"disable is {value!r}", why="it must be an int32 of 0 or 1", fix="SharedScalar(0)")


def _expand(graph: Expanding, node: ir.Node) -> Sequence[ir.Value]:
    """The next value by standard operators, and that it is to be stored; a second update starts from the first's."""
    dest, delta, *rest = node.inputs
    assert dest is not None and delta is not None and dest.name is not None
    name = _name_of_same_tensor(graph, dest.name)
    coefficients = [*rest, None, None, None, None][:4]
    y = next_value(graph.op, graph.updates.get(name, dest), delta, *coefficients)
    graph.updates[name] = y
    return (y,)


def _name_of_same_tensor(graph: Expanding, name: str) -> str:
    """The input that is updated already and whose source is the same tensor, or an alias; else `name` itself."""
    storages = {known: storage_of(graph.sources[known]) for known in (*graph.updates, name)}
    return next(known for known in storages if storages[known] is storages[name])


def storage_of(source: object) -> object:
    """The memory that a source reads, which aliases have in common; of what has none, the source itself."""
    tensor = source.tensor if isinstance(source, VolatileTensor) else source
    return tensor.storage if isinstance(tensor, SharedTensor) else source


EXPANSIONS["AddUpdate"] = _expand
