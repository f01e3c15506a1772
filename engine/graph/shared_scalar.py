"""A number that graphs read when they run: a learning rate, a momentum, a switch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.graph.operand import Call, Operand, apply_in_graph
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.memory import parse_device
from onnxgrad.engine.runtime.memory import write as write_into
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.values import DeviceValue, allocate

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph
    from onnxgrad.engine.graph.var import Var

_NARROW = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.float32)}


class SharedScalar(Operand):
    """One number outside of graphs, which they read each time they run: `x * lr`, then `lr.set(0.01)`.

    Python ints are int32, floats float32. The dtype may change with the value until it is locked: by `lock_dtype`, or
    by the first graph that uses it. May be used by several threads.
    """

    def __init__(self, value: object) -> None:
        self._begin(self._as_scalar(value), dtype_locked=False)

    def _begin(self, value: np.generic, dtype_locked: bool) -> None:
        self._lock = threading.RLock()
        self._value, self._dtype_locked = value, dtype_locked
        self._mirrors: dict[Device, DeviceValue] = {}

    @property
    def element_type(self) -> ir.DataType:
        """See Source."""
        return ir.DataType.from_numpy(self._value.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """(): it is one number."""
        return ()

    @property
    def static_shape(self) -> tuple[int, ...]:
        """See Source."""
        return ()

    @property
    def source_name(self) -> str:
        """See Source."""
        return "scalar"

    @property
    def dtype_locked(self) -> bool:
        """Whether `set` takes only values of the present dtype."""
        return self._dtype_locked

    def lock_dtype(self) -> None:
        """Let the dtype be what it is for good."""
        with self._lock:
            self._dtype_locked = True

    def get(self) -> bool | int | float:
        """The number, as Python's."""
        number: bool | int | float = self._value.item()
        return number

    def set(self, value: object) -> None:
        """Replace the number, on every device where it is; functions that are compiled read it at their next run.

        Raises: InputError for more than one element, or another dtype where it is locked.
        """
        scalar = self._as_scalar(value)
        with self._lock:
            if self._dtype_locked and scalar.dtype != self._value.dtype:
                locked, given = self._value.dtype, scalar.dtype
                raise InputError(
                    f"dtype for SharedScalar has been locked as {locked}, but attempt to set it to {given}",
                    fix=f"set(np.{locked}(...))" if locked.kind != "f" else "a float: 1.0, not 1",
                )
            if scalar.dtype != self._value.dtype:
                self._mirrors.clear()
            self._value = scalar
            for mirror in self._mirrors.values():
                write_into(mirror, np.asarray(scalar))

    @property
    def ort_value(self) -> DeviceValue:
        """The number in the memory of the CPU: the same tensor each time, once the dtype is locked."""
        return self.value_on("cpu")

    def value_on(self, device: str | Device) -> DeviceValue:
        """The number in the memory of a device: the same tensor each time, once the dtype is locked."""
        place = parse_device(device)
        with self._lock:
            if place not in self._mirrors:
                self._mirrors[place] = allocate((), self.element_type, place)
                write_into(self._mirrors[place], np.asarray(self._value))
            return self._mirrors[place]

    def var(self, graph: Graph, name: str = "", *, volatile: bool = False) -> Var:
        """The variable of this number in a graph, which locks its dtype. It is always read anew."""
        self.lock_dtype()
        return graph.add_source(self, name)

    def _as_scalar(self, value: object) -> np.generic:
        """What `value` is as a number of numpy. Raises: InputError, OptionError for what is none."""
        return _scalar(value)

    def _apply(self, call: Call) -> tuple[Operand, ...]:
        return apply_in_graph(call)

    @property
    def _weight(self) -> int:
        return 0

    def __getstate__(self) -> dict[str, object]:
        return {"value": self._value, "dtype_locked": self._dtype_locked}

    def __setstate__(self, state: dict[str, object]) -> None:
        self._begin(self._as_scalar(state["value"]), bool(state.get("dtype_locked", True)))

    def __repr__(self) -> str:
        locked = ", dtype locked" if self._dtype_locked else ""
        return f"<SharedScalar {self.get()!r}: {dtype_name(self.element_type)}{locked}>"


def _scalar(value: object) -> np.generic:
    if isinstance(value, SharedScalar):
        return value._value
    array = np.asarray(value)
    if array.shape not in ((), (1,)):
        raise InputError(f"value for SharedScalar must be scalar; got shape {array.shape}")
    try:
        ir.DataType.from_numpy(array.dtype)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{value!r} is no number", why=str(error)) from error
    if array.dtype == object or array.dtype.kind in "USc":
        raise OptionError(f"{value!r} is no number")
    scalar: np.generic = _NARROW.get(array.dtype, array.dtype).type(array.item())
    return scalar
