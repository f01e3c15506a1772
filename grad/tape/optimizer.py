"""Optimizers on tensors: one step over all parameters is one graph, run at once or written into a traced function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, InputError, OptionError
from onnxgrad.engine.graph.operand import Call
from onnxgrad.engine.graph.signature import OPSET
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.optimizers import Optimizer
from onnxgrad.grad.tape.one_node import COMPOSITE, Composite
from onnxgrad.grad.tape.state import STATE, recording_with
from onnxgrad.grad.tape.tensor import Tensor, run_call


class TensorOptimizer:
    """Moves tensors by their gradients, which `x.grad` holds.

        optimizer = og.TensorOptimizer(og.optimizers.AdamW(1e-3), net.parameters())
        with gm:
            gm.backward(loss(net(x), y))
        optimizer.step()
        optimizer.zero_grad()

    parameters: tensors of floats, or a dict of them, whose names `state_dict` uses then; otherwise their numbers. One
    without a gradient stays as it is in that step, and so does what the optimizer keeps for it.
    """

    def __init__(self, rule: Optimizer, parameters: Iterable[Tensor] | Mapping[str, Tensor]) -> None:
        named = parameters if isinstance(parameters, Mapping) else {str(i): p for i, p in enumerate(parameters)}
        self.rule = rule
        self._parameters = {name: parameter for name, parameter in named.items() if isinstance(parameter, Tensor)}
        if not named or len(self._parameters) < len(named):
            raise OptionError("an optimizer wants tensors, at least one", fix="net.parameters()")
        if len({id(parameter) for parameter in self._parameters.values()}) < len(named):
            raise OptionError("a parameter is given twice", fix="give each once")
        for name, parameter in self._parameters.items():
            if parameter.element_type is None or not parameter.element_type.is_floating_point():
                raise GradientError("only tensors of floats have gradients", where=f"{name}: {parameter!r}")
        device = next(iter(self._parameters.values())).device
        self._number = float(rule.learning_rate)
        self._rate = Tensor(self._number, "float32", device)
        self._step = Tensor(0, "int64", device)
        self._slots = {
            name: {slot: _zeros_like(parameter) for slot in rule.slots} for name, parameter in self._parameters.items()
        }
        self._bodies: dict[tuple[str, ...], Composite] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors that are moved."""
        return list(self._parameters.values())

    @property
    def learning_rate(self) -> float:
        """The learning rate of the steps to come. May be set at any time; nothing is compiled anew for it."""
        if STATE.tracer is None and np.float32(self._number) != (rate := self._rate.item()):
            self._number = rate  # a traced function has set it
        return self._number

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        """See above."""
        self._number = float(value)
        self._rate.set(self._number)

    @property
    def steps(self) -> int:
        """How many steps were made."""
        return int(self._step.item())

    def step(self) -> None:
        """Let each parameter that has a gradient be the next value, by the rule."""
        with recording_with(()):
            grads = {name: grad for name, parameter in self._parameters.items() if (grad := parameter.grad) is not None}
            if not grads:
                return
            body = self._body(tuple(grads))
            targets = [self._step]
            inputs: list[Tensor] = [self._rate, self._step]
            for name, grad in grads.items():
                own = [self._parameters[name], *self._slots[name].values()]
                targets += own
                inputs += [*own, grad]
            values = run_call(Call(body.name, tuple(inputs), {"body": body}, len(targets), COMPOSITE))
            for target, value in zip(targets, values, strict=True):
                target.set(value)

    def zero_grad(self) -> None:
        """Forget the gradients: each `x.grad` is None."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of what the optimizer keeps: "step", "learning_rate", and "<parameter>.<slot>"."""
        return {name: np.array(tensor.numpy()) for name, tensor in self._state().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state_dict`. Raises: InputError for names or shapes that do not fit; nothing changes then."""
        own = self._state()
        wrong = sorted(set(own) ^ set(state))
        if wrong:
            raise InputError(f"the state is that of other parameters or another rule: {', '.join(wrong[:5])}")
        shapes = [name for name, tensor in own.items() if np.shape(state[name]) != tensor.shape]
        if shapes:
            raise InputError(f"the state has other shapes: {', '.join(shapes[:5])}")
        for name, tensor in own.items():
            tensor.set(np.asarray(state[name]))
        self._number = float(self._rate.item())

    def _state(self) -> dict[str, Tensor]:
        slots = {f"{name}.{slot}": value for name, kept in self._slots.items() for slot, value in kept.items()}
        return {"step": self._step, "learning_rate": self._rate, **slots}

    def _body(self, names: tuple[str, ...]) -> Composite:
        """The graph of a step in which these parameters have gradients."""
        if names not in self._bodies:
            self._bodies[names] = _build(self.rule, [self._parameters[name] for name in names])
        return self._bodies[names]


def _build(rule: Optimizer, parameters: Sequence[Tensor]) -> Composite:
    name = type(rule).__name__
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=name)
    op = Builder(graph, share=True)
    rate, step = _input(op, "learning_rate", ir.DataType.FLOAT, ()), _input(op, "step", ir.DataType.INT64, ())
    after = op.Add(step, 1)
    results = [after]
    scalars = rule.scalars(op, rate, after)
    for index, parameter in enumerate(parameters):
        kind, shape = parameter.element_type, parameter.shape or ()
        assert kind is not None
        value, *slots, grad = (_input(op, f"{name}{index}", kind, shape) for name in ("parameter", *rule.slots, "grad"))
        new, new_slots = rule.build(op, value, grad, dict(zip(rule.slots, slots, strict=True)), scalars)
        results += [new, *(new_slots[slot] for slot in rule.slots)]
    taken: set[ir.Value] = set()
    for value in results:
        graph.outputs.append(op.Identity(value) if value in taken or value.is_graph_input() else value)
        taken.add(value)
    return Composite(name, graph)


def _input(op: Builder, name: str, kind: ir.DataType, shape: Sequence[object]) -> ir.Value:
    sizes = ir.Shape([size for size in shape if isinstance(size, int)])
    value = ir.Value(name=op.names.fresh(name), type=ir.TensorType(kind), shape=sizes)
    op.graph.inputs.append(value)
    return value


def _zeros_like(parameter: Tensor) -> Tensor:
    kind, shape = parameter.element_type, [size for size in parameter.shape or () if isinstance(size, int)]
    assert kind is not None
    return Tensor(np.zeros(shape, kind.numpy()), kind, parameter.device)
