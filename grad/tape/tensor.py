"""Tensors that run at once: each operator on them is executed when it is written, on onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.operand import Call, Dim, Operand, run_without_operands
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.direct import RawTensor, raw_to_array, wrapped
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.grad.tape.kernels import code_of, constant, find_kernel
from onnxgrad.grad.tape.payload import HOST, DeviceLike, device_named, moved, one_device, payload_of
from onnxgrad.grad.tape.state import STATE, Recorder

if TYPE_CHECKING:
    from onnxgrad.engine.runtime.values import DeviceValue
    from onnxgrad.grad.tape.tape import Slot


class Tensor(Operand):
    """A tensor in the memory of the host or a device, to which operators are applied at once.

    `og.Tensor([1.0, 2.0])`: Python floats are float32 and ints int64; numpy arrays keep their dtype and are copied;
    OrtValues and tensors that speak DLPack are shared, on the device where they are. dtype and device convert.

    A tensor is a value: no operator changes one. `x.set(value)` and `x[key] = value` make the name `x` stand for
    another value; what was computed from the old one, and gradients of it, stay as they are. `x += y` is `x = x + y`.
    `==` compares identity, as dicts need it; `og.op.Equal` compares elements.

    """

    __slots__ = ("__weakref__", "_code", "_grad", "_payload", "_shape", "_slots", "device")

    _grad: Tensor | None
    _payload: RawTensor | Var
    _code: int
    _shape: tuple[int, ...] | None
    _slots: dict[Recorder, Slot] | None
    device: Device
    """Where the memory is: kind "cpu" or "cuda", and index."""

    def __init__(self, value: object, dtype: object = None, device: DeviceLike | None = None) -> None:
        if isinstance(value, Tensor):
            source = value.astype(dtype) if dtype is not None else value
            source = source.to(device) if device is not None else source
            self._payload, self.device = source._value(), source.device
        else:
            self._payload, self.device = payload_of(value, dtype, device)
        self._code, self._shape = 0, None
        self._slots = None
        self._grad = None

    @classmethod
    def _of(cls, payload: RawTensor | Var, device: Device = HOST) -> Self:
        """A tensor on a payload that is there already."""
        tensor = cls.__new__(cls)
        tensor._payload, tensor.device = payload, device
        tensor._code, tensor._shape, tensor._slots, tensor._grad = 0, None, None, None
        return tensor

    @property
    def element_type(self) -> ir.DataType | None:
        """The ONNX type of the elements; None only while a function is traced, where it may be unknown."""
        if isinstance(self._payload, Var):
            return self._payload.element_type
        return ir.DataType((self._code or self._find_code()) & 255)

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The sizes: ints, but while a function is traced, where they may have names."""
        if isinstance(self._payload, Var):
            return self._payload.shape
        if self._shape is None:
            raw = self._payload
            self._shape = raw.shape if isinstance(raw, np.ndarray) else tuple(raw.shape())
        return self._shape

    def _find_code(self) -> int:
        """The code of dtype and rank, see kernels.code_of."""
        raw = self._payload
        if isinstance(raw, np.ndarray):
            self._code = code_of(int(ir.DataType.STRING), raw.ndim)
        elif isinstance(raw, Var):
            kind = raw.element_type
            if kind is None or raw.shape is None:
                raise _traced(self)
            self._code = code_of(int(kind), raw.ndim)
        else:
            self._shape = tuple(raw.shape())
            self._code = code_of(raw.element_type(), len(self._shape))
        return self._code

    @property
    def _weight(self) -> int:
        return 2

    def _apply(self, call: Call) -> tuple[Operand, ...]:
        return run_call(call)

    @property
    def grad(self) -> Tensor | None:
        """Where GradManager.backward adds gradients up; None before."""
        tracer = STATE.tracer
        return self._grad if tracer is None else tracer.read_grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        """Let it be another tensor, or None."""
        tracer = STATE.tracer
        if tracer is None:
            self._grad = value
        else:
            tracer.write_grad(self, value)

    @property
    def static_shape(self) -> tuple[Dim, ...] | None:
        """See Source: a computing graph may read a tensor, as it reads a SharedTensor."""
        return self.shape

    @property
    def source_name(self) -> str:
        """See Source."""
        return "tensor"

    # --- values out ---

    @property
    def ort_value(self) -> DeviceValue:
        """The tensor as onnxruntime's object, not copied. It must not be written to."""
        return wrapped(self._concrete())

    def numpy(self) -> np.ndarray:
        """The elements as a read-only array: on the host the memory itself, not a copy; np.array(x) copies."""
        return raw_to_array(self._concrete())

    def item(self) -> float:
        """The only element as a Python value: a float, int, bool or str. Raises: InputError where there are more."""
        array = self.numpy()
        if array.size != 1:
            raise InputError(f"a tensor of {array.size} elements has no single value", where=repr(self), fix="numpy()")
        found: float = array.item()
        return found

    def tolist(self) -> object:
        """The elements as nested lists."""
        return self.numpy().tolist()

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: object = None, **_: object) -> object:
        return self._concrete().__dlpack__(stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._concrete().__dlpack_device__()
        return int(kind), int(index)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        kind = self.element_type
        if kind is None or not kind.is_integer():
            raise TypeError(f"{self!r} is no index: its elements are no integers")
        return int(self.item())

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError(f"{self!r} has no length")
        if not isinstance(shape[0], int):
            raise _traced(self)
        return shape[0]

    def __iter__(self) -> Iterator[Self]:  # type: ignore[override]  # of graphs alone the length is not known
        return (self[index] for index in range(len(self)))

    # --- other tensors on the same elements ---

    def detach(self) -> Tensor:
        """The same elements, for which no gradient is recorded (nor through them)."""
        return Tensor._of(self._value(), self.device)

    def to(self, device: DeviceLike) -> Self:
        """The tensor on a device; itself if it is there. Gradients come back to the device of this tensor."""
        place = device_named(device)
        if place == self.device or isinstance(self._payload, Var):
            return self
        result = type(self)._of(moved(self._concrete(), place), place)
        for recorder in STATE.recorders:
            recorder.moved(self, result)
        return result

    # --- another value under the same name ---

    def set(self, value: object) -> None:
        """Let this tensor be another value, of its dtype and shape, on its device.

        Gradients go to what the value was computed from. Raises: InputError for another shape.
        """
        source = value if isinstance(value, Tensor) else Tensor(value, self.element_type, self.device)
        if source.element_type != self.element_type:
            source = source.astype(self.element_type)
        source = source.to(self.device)
        if source.shape != self.shape and not (source._is_traced or self._is_traced):
            raise InputError(f"a value of shape {source.shape} is set", where=repr(self), fix="a value of its shape")
        if STATE.tracer is not None:
            STATE.tracer.write(self, source)
        else:
            self._payload, self._code, self._shape = source._payload, source._code, source._shape
        self._slots = None if source._slots is None else dict(source._slots)

    def __setitem__(self, key: object, value: object) -> None:
        from onnxgrad.grad.tape.assign import assigned

        self.set(assigned(self, key, value))

    @property
    def _is_traced(self) -> bool:
        return isinstance(self._payload, Var)

    def _concrete(self) -> RawTensor:
        """The tensor in memory, for somebody who wants to see its elements."""
        if STATE.tracer is not None or isinstance(self._payload, Var):
            raise _traced(self)
        return self._payload

    def _value(self) -> RawTensor | Var:
        """What the tensor is now, to be kept: while a function is traced, the variable that it stands for."""
        tracer = STATE.tracer
        return self._payload if tracer is None else tracer.value_of(self)

    def __repr__(self) -> str:
        if isinstance(self._payload, Var):
            return f"<Tensor {self._payload!r}>"
        if STATE.tracer is not None:
            return f"<Tensor {self.element_type}{list(self.shape or ())}>"
        place = "" if self.device == HOST else f", {self.device.kind}:{self.device.index}"
        text = np.array2string(self.numpy(), separator=", ", threshold=20, edgeitems=2, prefix="Tensor(")
        return f"Tensor({text}, {self.numpy().dtype.name}{list(self.shape or ())}{place})"

    def __reduce__(self) -> tuple[type[Self], tuple[np.ndarray]]:
        return type(self), (np.array(self.numpy()),)


def _traced(tensor: Tensor) -> GraphError:
    return GraphError(
        f"{tensor!r} has no elements yet: it stands for a value of a function that is being traced",
        fix="keep what depends on elements (item, numpy, bool, len) out of the traced function",
    )


_WITH_BODIES = frozenset(("If", "Loop", "Scan"))


def run_call(call: Call) -> tuple[Tensor, ...]:
    """The outputs of an operator on tensors: executed, or handed to the tracer; then recorders see it."""
    state = STATE
    if call.op_type in _WITH_BODIES:
        from onnxgrad.grad.tape.bodies import run_bodies

        found = run_bodies(call)
        if found is not None:
            return found
    if state.tracer is None:
        outputs = execute(call)
    else:
        outputs = tuple(Tensor._of(value) for value in state.tracer.apply(call))
    for recorder in state.recorders:
        recorder.record(call, outputs)
    return outputs


def execute(call: Call) -> tuple[Tensor, ...]:
    """Run an operator on tensors with elements. Raises: ShapeError, InputError, ExecutionError."""
    values, codes, device = gather(call)
    kernel = find_kernel(call.op_type, call.domain, call.attributes, call.outputs, codes, values, device)
    of = Tensor._of
    return tuple([of(value, device) for value in kernel.run(values)])


def gather(call: Call) -> tuple[list[RawTensor | None], tuple[int, ...], Device]:
    """The tensors of a call, their codes (0: absent), and the device that it runs on."""
    values: list[RawTensor | None] = []
    codes: list[int] = []
    on_host = True
    for operand in call.inputs:
        if isinstance(operand, Tensor):
            values.append(operand._payload)
            codes.append(operand._code or operand._find_code())
            on_host = on_host and operand.device is HOST
        elif operand is None:
            values.append(None)
            codes.append(0)
        elif isinstance(operand, np.ndarray):
            raw = constant(operand)
            values.append(raw)
            codes.append(code_of(_kind(raw), operand.ndim))
        else:
            raise GraphError(f"{operand!r} is no tensor", where=call.op_type, fix="og.Tensor(value) makes one")
    if on_host:
        return values, tuple(codes), HOST
    places = [(v.device, code) for v, code in zip(call.inputs, codes, strict=True) if isinstance(v, Tensor)]
    return values, tuple(codes), one_device(places, call.op_type)


def _kind(raw: RawTensor) -> int:
    return int(ir.DataType.STRING) if isinstance(raw, np.ndarray) else raw.element_type()


def as_tensors(values: Sequence[object]) -> list[Tensor]:
    """Each value as a tensor. Raises: TypeError for what is none."""
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"a {type(value).__name__} where a Tensor is wanted")
    return [value for value in values if isinstance(value, Tensor)]


run_without_operands(run_call, innermost=False)
