"""What stands behind `graph.input(...)`: an array on the host that every call may replace."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.operand import Dim
from onnxgrad.engine.graph.signature import as_type
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.values import Array, DeviceValue, numpy_dtype, to_ort

if TYPE_CHECKING:
    from onnxgrad.engine.graph.var import Var

SILENCE = "ONNXGRAD_DISABLE_SET_VALUE_WARN"
"""The environment variable that, when it is neither empty nor 0, silences the warnings about slow values."""

_LARGE = 1024  # elements: what is smaller is converted without a word


class HostTensor:
    """The value of one input of a graph, and of its counterpart in every clone of that graph.

    It has a dtype and, as far as the input was declared with one, a shape. `set` copies into memory of its own, or
    borrows the caller's array where that was asked for. `static_infer`: whether its present value may be used to infer
    values of variables. May be used by several threads.
    """

    def __init__(
        self,
        name: str,
        element_type: ir.DataType,
        shape: tuple[Dim, ...] | None = None,
        *,
        value: object = None,
        static_infer: bool = True,
    ) -> None:
        self.name, self.static_infer = name, static_infer
        self.borrow_on_cpu = False
        self._type, self._shape = element_type, shape
        self._dtype = numpy_dtype(element_type)
        self._is_packed = element_type != ir.DataType.STRING and element_type.bitwidth < 8  # no view of the array
        self._array: Array | None = None
        self._ort: DeviceValue | None = None
        self._is_borrowed = False
        self._warned: set[str] = set()
        self._lock = threading.RLock()
        if value is not None:
            self.set(value)
            if shape is None:
                self._shape = (None,) * self.array.ndim

    @staticmethod
    def from_var(var: Var) -> HostTensor:
        """The tensor behind the variable of an input. Raises: GraphError for any other variable."""
        source = var.graph.source_of(var)
        if not isinstance(source, HostTensor):
            raise GraphError(
                f"{var!r} is no input on the host", why=f"it is {source!r}", fix="SharedTensor.from_var for parameters"
            )
        return source

    @property
    def element_type(self) -> ir.DataType:
        """See Source."""
        return self._type

    @property
    def static_shape(self) -> tuple[Dim, ...] | None:
        """See Source."""
        return self._shape

    @property
    def source_name(self) -> str:
        """See Source."""
        return self.name

    @property
    def is_empty(self) -> bool:
        """Whether it has no value yet."""
        return self._array is None

    @property
    def is_borrowed(self) -> bool:
        """Whether the value is an array of the caller's, not a copy."""
        return self._is_borrowed

    @property
    def array(self) -> Array:
        """The present value itself: read only what no call is about to replace. Raises: InputError if there is none."""
        if self._array is None:
            raise InputError(f"input {self.name!r} has no value", fix="give it one in the call, or with set()")
        return self._array

    @property
    def ort_value(self) -> DeviceValue:
        """The present value as a tensor over the same memory. Raises: InputError if there is none, or of strings."""
        with self._lock:
            if self._ort is None:
                self._ort = to_ort(self.array, self._type)
            return self._ort

    def set(self, value: object, *, borrow: bool = False) -> None:
        """Replace the value: by a copy, or with `borrow` by the caller's array itself.

        An array is borrowed only where `borrow_on_cpu` is set, as a run on the CPU reads it where it is: it must not
        change until the run is over. What is no contiguous array of the right dtype is converted, with a warning where
        that is slow.

        Raises: InputError for a shape that is not the declared one, or numbers that the dtype cannot hold.
        """
        if type(value) is np.ndarray and value.dtype == self._dtype and value.flags.c_contiguous:
            array = value
        else:
            array = self._converted(value)
            borrow = borrow and array is value
        self._check_shape(array.shape)
        with self._lock:
            if borrow and self.borrow_on_cpu:
                self._array, self._ort, self._is_borrowed = array, None, True
                return
            self._make_room(array.shape)
            np.copyto(self.array, array)
            if self._is_packed:
                self._ort = None

    def ensure_own_storage(self) -> None:
        """Let go of a borrowed array: the value, unchanged, in memory of its own."""
        with self._lock:
            if self._is_borrowed:
                self._array, self._ort, self._is_borrowed = self.array.copy(), None, False

    def resize(self, shape: tuple[int, ...]) -> None:
        """Memory of its own for this shape, with elements that are not set. Raises: InputError as `set` does."""
        self._check_shape(shape)
        with self._lock:
            self._make_room(shape)

    def _make_room(self, shape: tuple[int, ...]) -> None:
        if self._array is None or self._is_borrowed or self._array.shape != shape:
            self._array, self._ort, self._is_borrowed = np.empty(shape, self._dtype), None, False

    def _converted(self, value: object) -> Array:
        given = value if isinstance(value, np.ndarray) else np.asarray(value)
        if given.size >= _LARGE:
            self._warn_of_slow_path(value, given)
        if self._type == ir.DataType.STRING:
            return given.astype(str).astype(object)
        array = given if given.dtype == self._dtype else as_type(given, self._type, self.name)
        return array if array.flags.c_contiguous else array.copy(order="C")

    def _warn_of_slow_path(self, value: object, given: Array) -> None:
        reasons = []
        if not isinstance(value, np.ndarray):
            reasons.append(f"a {type(value).__name__} is no numpy array")
        if given.dtype != self._dtype:
            reasons.append(f"{given.dtype} is converted to {self._dtype}")
        if not given.flags.c_contiguous:
            reasons.append("the array is not contiguous")
        fresh = [reason for reason in reasons if reason not in self._warned]
        if fresh and os.environ.get(SILENCE, "0") in ("", "0"):
            self._warned.update(fresh)
            warnings.warn(
                f"setting input {self.name!r} is slow: {', '.join(fresh)} (said once; {SILENCE}=1 silences it)",
                stacklevel=4,
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        wanted = self._shape
        if wanted is None:
            return
        if len(shape) == len(wanted):
            for size, dim in zip(shape, wanted, strict=True):
                if isinstance(dim, int) and dim != size:
                    break
            else:
                return
        kind = f"{dtype_name(self._type)}[{', '.join('?' if dim is None else str(dim) for dim in wanted)}]"
        raise InputError(f"input {self.name!r} is {kind}, a value of shape {list(shape)} does not fit")

    def __repr__(self) -> str:
        shape = "[?]" if self._shape is None else f"[{', '.join('?' if d is None else str(d) for d in self._shape)}]"
        state = "empty" if self._array is None else "borrowed" if self._is_borrowed else "set"
        return f"<HostTensor of input {self.name!r}: {dtype_name(self._type)}{shape}, {state}>"
