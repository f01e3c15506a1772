"""The tracer: it takes the operators of a function in the place of execution, and writes them into a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.operand import Call, Dim, Operand
from onnxgrad.engine.graph.signature import OPSET
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.direct import RawTensor
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.grad.tape.one_node import COMPOSITE, Composite, attributes_of
from onnxgrad.grad.tape.operators import general_backward
from onnxgrad.grad.tape.payload import HOST, one_device
from onnxgrad.grad.tape.state import Traceable
from onnxgrad.grad.tape.tape import Backward, untracked
from onnxgrad.grad.tape.tensor import Tensor
from onnxgrad.grad.tape.trace_arguments import Axes, Leaf
from onnxgrad.grad.tape.trace_backward import kept, traced_backward
from onnxgrad.grad.tape.trace_inline import inline


@dataclass(eq=False)
class Given:
    """An input of the graph: a tensor of the arguments, or the gradient that it comes with."""

    element_type: ir.DataType
    static_shape: tuple[Dim, ...] | None
    source_name: str
    index: int
    is_grad: bool = False


@dataclass(eq=False)
class Held:
    """An input of the graph: the value, or the gradient, that a tensor has when the graph runs.

    tensor: None once nobody else has it; its value was `first` then and stays so.
    """

    element_type: ir.DataType
    static_shape: tuple[Dim, ...] | None
    source_name: str
    tensor: ReferenceType[Tensor]
    first: RawTensor
    device: Device
    is_grad: bool = False

    def present(self) -> RawTensor:
        """The value as it is now. Raises: GraphError for a gradient that is not there any more."""
        tensor = self.tensor()
        if tensor is None:
            return self.first
        if not self.is_grad:
            return tensor._concrete()
        grad = tensor.grad
        if grad is None:
            raise GraphError(f"the gradient of {self.source_name} is None while the function runs that reads it")
        return grad._concrete()


class GraphTracer:
    """A tracer that writes a graph. Tensors that were there before are not changed: it knows what they stand for.

    Tensors that nobody made inside are inputs of the graph, whose values are read at each run.
    """

    def __init__(self, name: str, opset: int = OPSET) -> None:
        self.graph = Graph(name, opset=opset)
        self.entered: dict[int, Traceable] = {}
        self.had_grad: WeakKeyDictionary[Tensor, bool] = WeakKeyDictionary()
        """Of which tensors the gradient was read before it was written, and whether there was one."""
        self.aliases: list[tuple[int, ReferenceType[Tensor]]] = []
        """Arguments that are tensors which the function also reaches by itself."""
        self.differentiated: list[ReferenceType[Tensor]] = []
        """Tensors that gradients were wanted of."""
        self.written: WeakKeyDictionary[Tensor, Var] = WeakKeyDictionary()
        """The last values of tensors that were set."""
        self.grads: WeakKeyDictionary[Tensor, Tensor | None] = WeakKeyDictionary()
        """The last gradients of tensors whose gradient was set."""
        self.devices: list[tuple[Device, int]] = []
        self.arguments: list[Tensor] = []
        """What the function gets in the places of the arguments; their payload is a variable."""
        self._read: WeakKeyDictionary[Tensor, Var] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[Tensor, str] = WeakKeyDictionary()
        self._inlined: dict[ir.Value, list[ir.Node]] = {}
        self._given: dict[int, Tensor] = {}
        self._places: dict[int, int] = {}

    # --- arguments ---

    def argument(self, path: str, leaf: Leaf, axes: Axes | None) -> Tensor:
        """The tensor that stands for an argument; the same one for the same tensor."""
        index = len(self.arguments)
        if id(leaf) in self._places:
            self.arguments.append(self.arguments[self._places[id(leaf)]])
            return self.arguments[-1]
        if isinstance(leaf, Tensor):
            kind, shape = leaf.element_type, leaf.shape
            assert kind is not None
            self.devices.append((leaf.device, leaf._code or leaf._find_code()))
        else:
            kind = ir.DataType.STRING if leaf.dtype.kind in "OSUT" else ir.DataType.from_numpy(leaf.dtype)
            shape = leaf.shape
        sizes = [axes[axis] if axes and axis in axes else size for axis, size in enumerate(shape or ())]
        tensor = Tensor._of(self.graph.add_source(Given(kind, tuple(sizes), path, index)))
        self.arguments.append(tensor)
        if isinstance(leaf, Tensor):
            self._given[index], self._places[id(leaf)] = leaf, index
        return tensor

    def place_of(self, tensor: Tensor) -> int | None:
        """The position of the argument that a tensor stands for."""
        return next((index for index, known in enumerate(self.arguments) if known is tensor), None)

    def _standing_for(self, tensor: Tensor) -> Tensor:
        place = self._places.get(id(tensor))
        if place is None:
            return tensor
        if not any(index == place for index, _ in self.aliases):
            self.aliases.append((place, ref(tensor)))
        return self.arguments[place]

    # --- what tensors ask ---

    def apply(self, call: Call) -> Sequence[Var]:
        """See Tracer."""
        inputs = tuple([None if value is None else self._operand(value, call) for value in call.inputs])
        if call.domain == COMPOSITE:
            body = call.attributes["body"]
            assert isinstance(body, Composite)
            values, nodes = inline(self.graph, body.graph, [self._as_value(value) for value in inputs])
            if values:
                self._inlined[values[0]] = nodes
            return tuple(Var(self.graph, value) for value in values)
        attributes = attributes_of(call.op_type, call.domain, call.attributes)
        return self.graph.add(Call(call.op_type, inputs, attributes, call.outputs, call.domain))

    def backward_of(
        self, call: Call, outputs: Sequence[Tensor], requires: Sequence[bool], level: int
    ) -> Backward | None:
        """See Tracer."""
        made = [self.value_of(output).value for output in outputs]
        producer = made[0].producer() if made else None
        nodes = self._inlined.get(made[0], []) if call.domain == COMPOSITE else [producer] if producer else []
        if not nodes:
            return None
        given = [self.value_of(value).value if isinstance(value, Tensor) else None for value in call.inputs]
        inner, results = kept(call, level), [untracked(output, level) for output in outputs]
        return traced_backward(
            self.graph, nodes, given, requires, made, lambda: general_backward(inner, results, requires, level)
        )

    def value_of(self, tensor: Tensor) -> Var:
        """See Tracer."""
        tensor = self._standing_for(tensor)
        for known in (self.written, self._read):
            found = known.get(tensor)
            if found is not None:
                return found
        payload = tensor._payload
        if isinstance(payload, Var):
            if payload.graph is not self.graph:
                raise GraphError(
                    f"{tensor!r} was left behind by a function that was traced before",
                    fix="return it from that function, or keep it in a tensor made outside: x.set(value)",
                )
            return payload
        read = self._read[tensor] = self.graph.add_source(self._held(tensor, tensor, payload))
        return read

    def write(self, tensor: Tensor, value: Tensor) -> None:
        """See Tracer."""
        var = self.value_of(value)
        tensor = self._standing_for(tensor)
        if not _may_be(var.shape, tensor.shape):
            raise InputError(f"a value of shape {var.shape} is set", where=repr(tensor), fix="a value of its shape")
        self.written[tensor] = var

    def attached(self, tensor: Tensor) -> Tensor:
        """See Tracer."""
        self.differentiated.append(ref(tensor))
        return self._standing_for(tensor)

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """See Tracer."""
        tensor = self._standing_for(tensor)
        if tensor in self.grads:
            return self.grads[tensor]
        place = self.place_of(tensor)
        owner = tensor if place is None else self._given[place]
        grad = owner._grad
        self.had_grad[tensor] = grad is not None
        if grad is None or isinstance(grad._payload, Var):
            return grad
        held = self._held(owner, grad, grad._payload, is_grad=True)
        source = held if place is None else Given(held.element_type, held.static_shape, held.source_name, place, True)
        standing = self.grads[tensor] = Tensor._of(self.graph.add_source(source))
        return standing

    def write_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """See Tracer."""
        self.grads[self._standing_for(tensor)] = grad

    def enter(self, called: Traceable) -> None:
        """See Tracer."""
        if id(called) not in self.entered:
            self.entered[id(called)] = called
            for name, tensor in called.named_tensors():
                self._names.setdefault(tensor, name)

    # --- the graph ---

    def name_of(self, tensor: Tensor) -> str:
        """What a tensor is called in the graph."""
        place = self.place_of(tensor)
        sources = self.graph.sources.values()
        given = (source.source_name for source in sources if isinstance(source, Given) and source.index == place)
        return next(given, self._names.get(tensor) or tensor.source_name)

    def device(self) -> Device:
        """Where the graph is to run. Raises: InputError for tensors on several devices."""
        return one_device(self.devices, f"the traced function {self.graph.name}") if self.devices else HOST

    def _operand(self, value: Operand | np.ndarray, call: Call) -> Var | np.ndarray:
        if isinstance(value, Tensor):
            return self.value_of(value)
        if isinstance(value, np.ndarray):
            return value
        raise GraphError(f"{value!r} is no tensor", where=call.op_type, fix="og.Tensor(value) makes one")

    def _as_value(self, value: Var | np.ndarray | None) -> ir.Value:
        assert value is not None, "graphs that are called have no optional inputs"
        return value.value if isinstance(value, Var) else self.graph.constant(value).value

    def _held(self, owner: Tensor, like: Tensor, payload: RawTensor, is_grad: bool = False) -> Held:
        kind = like.element_type
        assert kind is not None
        self.devices.append((like.device, like._code or like._find_code()))
        name = self._names.get(owner) or owner.source_name
        label = f"{name}.grad" if is_grad else name
        return Held(kind, like.shape, label, ref(owner), payload, like.device, is_grad)


def _may_be(given: tuple[Dim, ...] | None, wanted: tuple[Dim, ...] | None) -> bool:
    if given is None or wanted is None:
        return True
    sizes = zip(given, wanted, strict=False)
    return len(given) == len(wanted) and all(a == b for a, b in sizes if isinstance(a, int) and isinstance(b, int))
