"""Captures: a traced function for arguments of some dtypes and shapes, as a graph that runs as one session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import ReferenceType, ref

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, GraphError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.lowering import Lowered, lower
from onnxgrad.engine.graph.signature import OPSET
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.direct import (
    DirectSession,
    PlanRunner,
    RawTensor,
    Runner,
    lent,
    raw_to_array,
)
from onnxgrad.engine.runtime.plan import SessionRegion
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.grad.tape.state import Traceable, recording_with, tracing_with
from onnxgrad.grad.tape.tensor import Tensor
from onnxgrad.grad.tape.trace_arguments import Leaf, Reader, rebuilt, replace_leaves
from onnxgrad.grad.tape.tracer import Given, GraphTracer, Held

Target = int | Tensor
"""A tensor that changes: the position of an argument, or one that the function reaches by itself."""
Port: TypeAlias = "Tensor | Given | GradOf"


@dataclass(frozen=True)
class Place:
    """Where an output of the graph stands in what the function returns."""

    index: int


@dataclass(frozen=True, eq=False)
class GradOf:
    """An input of the graph: the gradient that a tensor has when the graph runs."""

    tensor: Tensor

    def present(self) -> RawTensor:
        """The gradient. Raises: GraphError where another thread has taken it away."""
        grad = self.tensor.grad
        if grad is None:
            raise GraphError(f"the gradient of {self.tensor!r} is None while a function runs that reads it")
        return grad._concrete()


@dataclass
class Capture:
    """What a run of the function did.

    result: what it returned, with Places for tensors. values: what the graph computes. writes, grads: the tensors whose
    value or gradient changes, with the position of the next one; None takes a gradient away. described: the arguments.
    graph: let go of when `prepare` has made a runner, which takes the values of `ports`. lock: held by runs that write.
    """

    graph: Graph | None
    device: Device
    result: object
    values: list[Var]
    writes: list[tuple[Target, int]]
    grads: list[tuple[Target, int | None]]
    described: Mapping[str, str]
    guards: Guards
    reason: str = ""
    runs: int = 0
    runner: Runner | None = None
    ports: list[Port] = field(default_factory=list)
    nodes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    checked: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Guards:
    """What a capture depends on besides the arguments."""

    entered: Sequence[tuple[ReferenceType[Traceable], int]]
    had_grad: Sequence[tuple[Target, bool, str]]
    aliases: Mapping[int, ReferenceType[Tensor]]
    own: Mapping[int, ReferenceType[Tensor]]
    """Tensors, by id, that must not be arguments as well: the function writes, or wants gradients of them."""

    def broken(self, leaves: Sequence[Leaf]) -> str:
        """What has changed since; "" if the capture holds."""
        for weak, version in self.entered:
            called = weak()
            if called is not None and called.trace_version != version:
                return f"an attribute of a {type(called).__name__} was set (train, eval, ...)"
        for target, had, name in self.had_grad:
            tensor = leaves[target] if isinstance(target, int) else target
            if isinstance(tensor, Tensor) and (tensor.grad is not None) != had:
                return f"the gradient of {name} was {'there' if had else 'None'}"
        for index, known in self.aliases.items():
            if leaves[index] is not known():
                return f"argument {index} was a tensor that the function also reaches by itself"
        if self.own:
            for index, leaf in enumerate(leaves):
                own = self.own.get(id(leaf))
                if own is not None and own() is leaf:
                    return f"argument {index} is a tensor that the function also reaches by itself"
        return ""


def capture(
    function: Callable[..., object],
    name: str,
    reader: Reader,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    opset: int = OPSET,
) -> Capture:
    """Run a function of Python once, on tensors that stand for variables, and keep what it did.

    Nothing that was there before is changed, also where it raises.
    """
    tracer = GraphTracer(name, opset)
    names = [*reader.names, *(f"argument{i}" for i in range(len(reader.names), len(args)))]
    pairs = [*zip(names, args, strict=False), *kwargs.items()]
    with tracing_with(tracer), recording_with(()):
        given = [replace_leaves(v, label, tracer.argument, reader.dynamic.get(label)) for label, v in pairs]
        result = function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
    del given
    values: dict[Var, int] = {}
    found = replace_leaves(result, "", lambda _, leaf, __: _placed(tracer, leaf, values))
    del result
    writes: list[tuple[Target, int]] = []
    for tensor, var in tracer.written.items():
        if not _is_own(tracer, tensor, var, is_grad=False):
            writes.append((_target(tracer, tensor), values.setdefault(var, len(values))))
    grads: list[tuple[Target, int | None]] = []
    for tensor, grad in tracer.grads.items():
        if grad is None:
            grads.append((_target(tracer, tensor), None))
        elif not _is_own(tracer, tensor, var := tracer.value_of(grad), is_grad=True):
            grads.append((_target(tracer, tensor), values.setdefault(var, len(values))))
    guards = _guards(tracer, [target for target, _ in (*writes, *grads)])
    return Capture(tracer.graph, tracer.device(), found, list(values), writes, grads, {}, guards)


def _placed(tracer: GraphTracer, leaf: Leaf, values: dict[Var, int]) -> object:
    """What stands for a tensor that is returned: itself, if it is one from outside that has not changed."""
    if not isinstance(leaf, Tensor):
        return leaf
    var = tracer.value_of(leaf)
    source = tracer.graph.sources.get(var.value)
    if isinstance(source, Held) and source.tensor() is leaf and not source.is_grad:
        return leaf
    return Place(values.setdefault(var, len(values)))


def _is_own(tracer: GraphTracer, tensor: Tensor, var: Var, is_grad: bool) -> bool:
    """Whether a tensor was set to the value, or given the gradient, that it had."""
    source = tracer.graph.sources.get(var.value)
    if isinstance(source, Given):
        return tracer.arguments[source.index] is tensor and source.is_grad == is_grad
    return isinstance(source, Held) and source.tensor() is tensor and source.is_grad == is_grad


def _target(tracer: GraphTracer, tensor: Tensor) -> Target:
    place = tracer.place_of(tensor)
    return tensor if place is None else place


def _guards(tracer: GraphTracer, changed: Sequence[Target]) -> Guards:
    own = [tensor for weak in tracer.differentiated if (tensor := weak()) is not None]
    if changed:
        held = [source.tensor() for source in tracer.graph.sources.values() if isinstance(source, Held)]
        own += [tensor for tensor in (*held, *changed) if isinstance(tensor, Tensor)]
    aliases = [known() for _, known in tracer.aliases]
    others = [tensor for tensor in own if not any(tensor is known for known in aliases)]
    return Guards(
        [(ref(called), called.trace_version) for called in tracer.entered.values()],
        [(_target(tracer, tensor), had, tracer.name_of(tensor)) for tensor, had in tracer.had_grad.items()],
        dict(tracer.aliases),
        {id(tensor): ref(tensor) for tensor in others},
    )


def prepare(found: Capture, options: SessionOptions) -> None:
    """Make a capture ready to run. The tensors that nobody else has any more become constants."""
    graph, found.graph = found.graph, None
    assert graph is not None
    found.nodes = len(graph.ir)
    found.checked = [number for number, (_, index) in enumerate(found.writes) if not _is_sized(found.values[index])]
    values, found.values = found.values, []
    if not values:
        return
    lowered = with_constants(lower(graph, [var.value for var in values]))
    model = lowered.model
    place = "cpu" if found.device.kind == "cpu" else (found.device.kind, {"device": found.device.index})
    plan, _ = assemble(read_source(model), model, None, replace(options, providers=place))
    names = [value.name or "" for value in model.graph.inputs]
    found.ports = [_port(lowered.sources[name]) for name in names]
    outputs = list(lowered.targets)
    region = plan.regions[0] if len(plan.regions) == 1 else None
    if isinstance(region, SessionRegion) and region.outputs == plan.outputs:
        found.runner = DirectSession(region.session.ort, names, outputs, found.device)
    else:
        found.runner = PlanRunner(plan, names, found.device, outputs)


def _is_sized(var: Var) -> bool:
    return var.shape is not None and all(isinstance(size, int) for size in var.shape)


def _port(source: object) -> Port:
    if isinstance(source, Given):
        return source
    assert isinstance(source, Held)
    tensor = source.tensor()
    assert tensor is not None, "it would be a constant"
    return GradOf(tensor) if source.is_grad else tensor


def with_constants(lowered: Lowered, all_held: bool = False) -> Lowered:
    """With initializers in the places of the tensors that only the capture holds, or of all from outside."""
    graph = lowered.model.graph
    sources = dict(lowered.sources)
    for name, source in lowered.sources.items():
        if not isinstance(source, Held):
            continue
        tensor = source.tensor()
        if tensor is not None and not all_held:
            continue
        value = next(value for value in graph.inputs if value.name == name)
        graph.inputs.remove(value)
        array = np.array(raw_to_array(source.first if tensor is None else source.present()))
        value.const_value = ir.tensor(array, dtype=value.dtype, name=name)
        graph.register_initializer(value)
        del sources[name]
    return replace(lowered, sources=sources)


def run(found: Capture, leaves: Sequence[Leaf]) -> object:
    """Run a capture: the result of the function; tensors that it sets have their next values."""
    if found.writes or found.grads:
        with found.lock:
            return _run(found, leaves)
    return _run(found, leaves)


def _run(found: Capture, leaves: Sequence[Leaf]) -> object:
    found.runs += 1
    made: list[RawTensor] = []
    if found.runner is not None:
        values, kept = _inputs(found.ports, leaves)
        made = found.runner.run(values)
        del kept
    for number in found.checked:
        _check_shape(*found.writes[number], made, leaves)
    for target, index in found.writes:
        tensor = leaves[target] if isinstance(target, int) else target
        if isinstance(tensor, Tensor):
            tensor._payload, tensor._slots = made[index], None
    for target, place in found.grads:
        tensor = leaves[target] if isinstance(target, int) else target
        if isinstance(tensor, Tensor):
            tensor.grad = None if place is None else Tensor._of(made[place], found.device)
    return _filled(found.result, made, found.device, {})


def _inputs(ports: Sequence[Port], leaves: Sequence[Leaf]) -> tuple[list[RawTensor | None], list[object]]:
    """The inputs of the graph, and what must stay alive for them."""
    values: list[RawTensor | None] = []
    kept: list[object] = []
    for port in ports:
        if isinstance(port, Tensor):
            payload = port._payload
            assert not isinstance(payload, Var), "tracers do not change tensors that were there before"
            values.append(payload)
        elif isinstance(port, Given):
            leaf = leaves[port.index]
            if isinstance(leaf, Tensor):
                tensor = leaf.grad if port.is_grad else leaf
                assert tensor is not None
                values.append(tensor._concrete())
            else:
                raw, owner = lent(leaf)
                values.append(raw)
                kept.append(owner)
        else:
            values.append(port.present())
    return values, kept


def _check_shape(target: Target, index: int, made: Sequence[RawTensor], leaves: Sequence[Leaf]) -> None:
    tensor, value = leaves[target] if isinstance(target, int) else target, made[index]
    shape = value.shape if isinstance(value, np.ndarray) else tuple(value.shape())
    if isinstance(tensor, Tensor) and shape != tensor.shape:
        raise ExecutionError(
            f"a value of shape {shape} is set in a traced function", where=repr(tensor), fix="a value of its shape"
        )


def _filled(result: object, made: Sequence[RawTensor], device: Device, known: dict[int, Tensor]) -> object:
    """The result with tensors in their places."""
    if isinstance(result, Place):
        if result.index not in known:
            known[result.index] = Tensor._of(made[result.index], device)
        return known[result.index]
    if isinstance(result, list | tuple):
        return rebuilt(result, [_filled(entry, made, device, known) for entry in result])
    if isinstance(result, dict):
        return {name: _filled(entry, made, device, known) for name, entry in result.items()}
    return result
