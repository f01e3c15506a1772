"""Parameters: tensors outside of graphs, which graphs read and updates write."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError, OptionError
from onnxgrad.engine.graph.given import CallbackValue, LazyInitializer, natural_array
from onnxgrad.engine.graph.operand import Call, Dim, Operand, apply_in_graph, element_type_of
from onnxgrad.engine.graph.regions import Region, copy_in, copy_out
from onnxgrad.engine.graph.signature import as_type, whole_numbers
from onnxgrad.engine.graph.storage import Pending, Storage, all_locked
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.memory import device_holding, device_name, element_type, parse_device
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.values import Array, DeviceValue, numpy_dtype, to_numpy

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph
    from onnxgrad.engine.graph.var import Var

_LOG = logging.getLogger(__name__)


class SharedTensor(Operand):
    """A tensor that lives outside of graphs: parameters, states, whatever outlasts a run.

    A graph reads it through its variable (`graph.param(shared)`, or as an operand: `x @ shared`); `og.add_update`
    writes it. The dtype is that of `dtype`, or of the first value (Python floats are float32, ints int64), and never
    changes; the shape is that of the last value. Give a value, or a shape (elements are not set), or neither: it is
    empty then. May be used by several threads.
    """

    def __init__(
        self,
        value: object = None,
        dtype: object = None,
        shape: tuple[int, ...] | None = None,
        name: str = "",
        device: str | Device = "cpu",
    ) -> None:
        if value is not None and shape is not None:
            raise OptionError("a SharedTensor takes its shape from its value", fix="give a value or a shape")
        array = None if value is None else natural_array(value)
        if dtype is None:
            dtype = "float32" if array is None else array.dtype
        kind = element_type_of(dtype)
        if kind == ir.DataType.STRING:
            raise OptionError("a SharedTensor holds numbers, no strings", fix="graph.input(name, str) for strings")
        self._begin(kind, name, parse_device(device))
        if array is not None:
            self.set(array)
        elif shape is not None:
            self.init_shape(shape)

    def _begin(self, kind: ir.DataType, name: str, device: Device) -> None:
        self.name = name
        self._storage = Storage(kind, device)
        self._lazy: LazyInitializer | None = None
        self._volatile = VolatileTensor(self)

    @staticmethod
    def from_var(var: Var) -> SharedTensor:
        """The tensor that a variable reads: itself, no copy. Raises: GraphError for any other variable."""
        source = var.graph.sources.get(var.value)
        if isinstance(source, VolatileTensor):
            return source.tensor
        if isinstance(source, SharedTensor):
            return source
        node = var.value.producer()
        kind = node.op_type if node is not None else "Constant" if source is None else type(source).__name__
        raise GraphError(f"cannot convert from {kind}", where=repr(var), fix="the Var of a SharedTensor")

    @property
    def element_type(self) -> ir.DataType:
        """See Operand."""
        return self._storage.kind

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy dtype of the elements (of ml_dtypes where numpy has none)."""
        return numpy_dtype(self.element_type)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The sizes; None while it is empty."""
        return self._storage.shape

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """See Source: the shape that it has now, which the graph holds it to."""
        return self._storage.shape

    @property
    def source_name(self) -> str:
        """See Source."""
        return self.name or "param"

    @property
    def device(self) -> str:
        """Where its memory is: "cpu", "cuda:0"."""
        return device_name(self._storage.device)

    @property
    def is_empty(self) -> bool:
        """Whether it has no shape and no value yet."""
        return self._storage.shape is None

    def var(self, graph: Graph, name: str = "", *, volatile: bool = False) -> Var:
        """The variable that reads this tensor in a graph; the same one when it is asked for again.

        volatile: the shape may change between runs. Raises: GraphError for a fixed one while it is empty.
        """
        if not volatile and self.shape is None:
            raise GraphError(
                "a SharedTensor without a shape cannot be in a graph", where=repr(self), fix="set it, or volatile=True"
            )
        return graph.add_source(self._volatile if volatile else self, name)

    def _apply(self, call: Call) -> tuple[Operand, ...]:
        return apply_in_graph(call)

    @property
    def _weight(self) -> int:
        return 0

    @property
    def storage(self) -> Storage:
        """The memory behind it. A run that updates the tensor holds its lock from beginning to end."""
        return self._storage

    @property
    def ort_value(self) -> DeviceValue:
        """The tensor as it is now, not copied. Raises: GraphError while it is empty."""
        return self._storage.present()

    def spare(self) -> DeviceValue:
        """A second tensor of the same shape, to write the next value into; see `commit`."""
        return self._storage.spare()

    def commit(self, tensor: DeviceValue) -> None:
        """Let `tensor`, mostly the spare one, be the value; what it was becomes the spare one.

        It is copied instead where the memory is shared or its address was given out. Raises: GraphError for another
        dtype or shape.
        """
        self._storage.commit(tensor)

    def get(self) -> Array | None:
        """A copy of the value on the host; None while it is empty."""
        return self._storage.read()

    def numpy(self) -> Array:
        """The memory itself as an array: writes to it are seen by graphs, updates are seen in it.

        Until the tensor gets another shape. Raises: GraphError while it is empty, or on another device than the CPU.
        """
        if self._storage.device.kind != "cpu" or self.element_type.bitwidth < 8:
            raise GraphError(f"numpy cannot share the memory of {self!r}", fix="get() for a copy")
        return to_numpy(self._storage.stay())

    def set(self, value: object, *, sync: bool = True, inplace: bool = False, share: bool = False) -> None:
        """Replace the value: by an array, another SharedTensor, or the value that a callback is given.

        It is cast to the dtype of this tensor, which takes its shape. sync=False copies an array when the value is
        first read (or by `sync`): until then it must not change. inplace: from a SharedTensor of the same shape only.
        share: take the memory of a callback's value instead of a copy.

        Raises: OptionError for a combination that makes no sense; InputError for what does not fit.
        """
        if value is self:
            return
        if inplace and not isinstance(value, SharedTensor):
            raise OptionError("inplace=True needs a SharedTensor to copy from", where=repr(self))
        if share and not isinstance(value, CallbackValue):
            raise OptionError("share=True needs the value of a callback", where=repr(self))
        if isinstance(value, SharedTensor):
            self.copy_from(value, inplace=inplace)
        elif isinstance(value, CallbackValue):
            self._take(value, share)
        else:
            array = natural_array(value)
            if array.dtype != self.dtype:
                array = as_type(array, self.element_type, self.name)
            self._lazy = None
            if sync:
                self._storage.write(array)
            else:
                self._storage.defer(Pending(array.shape, lambda: array))

    def sync(self) -> bool:
        """Write a value that was set without; whether there was one."""
        waits = self._storage.is_pending
        self._storage.settle()
        return waits

    @property
    def lazy_initializer(self) -> LazyInitializer | None:
        """What makes the first value when it is first read; it can be given while the tensor is empty."""
        return self._lazy if self._storage.is_pending else None

    @lazy_initializer.setter
    def lazy_initializer(self, value: LazyInitializer | None) -> None:
        """None takes it back. Raises: GraphError for a tensor that is not empty."""
        if not self.is_empty and self.lazy_initializer is None:
            raise GraphError("a lazy initializer is for an empty SharedTensor", where=repr(self))
        self._lazy = value
        self._storage.defer(None if value is None else Pending(_checked(value.get_shape()), value.get_value))

    def init_shape(self, shape: tuple[int, ...]) -> None:
        """Give an empty tensor its shape, the elements not set. Raises: GraphError if it is not empty."""
        if not self.is_empty:
            raise GraphError("a SharedTensor gets its first shape once", where=repr(self), fix="resize(shape)")
        self._storage.resize(_checked(shape))

    def resize(self, *shape: int | Sequence[int]) -> SharedTensor:
        """New memory, the elements not set: resize(2, 3) or resize((2, 3)). Returns itself."""
        self._storage.resize(_checked(shape))
        return self

    def zero(self) -> SharedTensor:
        """Set every element to 0, where it is. Returns itself. Raises: GraphError while it is empty."""
        self._storage.zero()
        return self

    def data_ptr(self) -> int:
        """The address of the first element, which holds until the tensor gets another shape."""
        address: int = self._storage.stay().data_ptr()
        return address

    def __dlpack__(self, *, stream: object = None) -> object:
        """The memory itself, for other libraries: torch.from_dlpack(shared)."""
        value = self._storage.stay()
        if self.element_type == ir.DataType.BOOL and self._storage.device.kind == "cpu":
            return self.numpy().__dlpack__()  # onnxruntime calls them bytes
        capsule: object = value.__dlpack__(stream=stream)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self._storage.stay().__dlpack_device__()
        return place

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> Array:
        array = self.get()
        if array is None:
            raise GraphError("a SharedTensor is read that has no value", where=repr(self))
        return array if dtype is None else array.astype(dtype, copy=False)

    def copy_from(self, other: SharedTensor, *, inplace: bool = False) -> None:
        """Copy the value of another tensor, from whatever device, and take its shape.

        Raises: InputError for another dtype, or with `inplace` another shape.
        """
        with all_locked(self._storage, other._storage):
            self._check_dtype(other)
            if inplace and other.shape != self.shape:
                raise InputError(f"the shapes differ: {other!r} cannot be copied in place into {self!r}")
            self._lazy = None
            if other._storage is not self._storage:
                self._storage.write_tensor(other.ort_value)

    def copy_to_sub(self, axis: int | None, begin: int, end: int, source: SharedTensor, step: int = 1) -> None:
        """self[..., begin:end:step, ...] = source, along `axis`; with None, of all elements in a row.

        Raises: InputError for another dtype or shape, or a range that does not exist.
        """
        with all_locked(self._storage, source._storage):
            self._check_dtype(source)
            copy_in(self._storage, Region(axis, begin, end, step), source.ort_value)

    def copy_from_sub(self, source: SharedTensor, axis: int | None, begin: int, end: int, step: int = 1) -> None:
        """self = source[..., begin:end:step, ...], along `axis`; with None, of all elements in a row.

        Raises: InputError for another dtype, or a range that does not exist.
        """
        with all_locked(self._storage, source._storage):
            self._check_dtype(source)
            copy_out(source.ort_value, Region(axis, begin, end, step), self._storage)

    def share_memory_from(self, other: SharedTensor, offset: int = 0) -> None:
        """Be a part of the memory of another tensor, from its element `offset` on, in this tensor's own shape.

        It ends when either of them gets a new shape.
        Raises: GraphError for itself, another device, or while this one is empty; InputError for another dtype, or a
        part that is not inside.
        """
        if other._storage is self._storage:
            raise GraphError("a SharedTensor cannot share the memory of itself", where=repr(self))
        with all_locked(self._storage, other._storage):
            self._check_alike(other)
            if self.shape is None:
                raise GraphError("a SharedTensor needs a shape to share memory", where=repr(self), fix="init_shape")
            self._storage.adopt(other._storage.part(offset, self.shape), stays=True)

    def reset_to(self, other: SharedTensor) -> None:
        """Become an alias: what one is set to, the other is.

        Raises: GraphError for another device, InputError for another dtype.
        """
        self._check_alike(other)
        self._storage = other._storage

    def _take(self, value: CallbackValue, share: bool) -> None:
        if value.is_eager:
            _LOG.warning(
                "a SharedTensor is set from a value that was copied to the host for nothing: use a lazy callback",
                stack_info=True,
                stacklevel=3,
            )
        tensor = value.ort_value()
        if element_type(tensor) != self.element_type:
            raise InputError(f"a value of dtype {dtype_name(element_type(tensor))} does not fit {self!r}")
        if not share:
            self._storage.write_tensor(tensor)
        elif device_holding(tensor) == self._storage.device:
            self._storage.adopt(tensor)
        else:
            raise GraphError(f"{self!r} cannot take memory of {device_holding(tensor).kind}", fix="share=False")

    def _check_alike(self, other: SharedTensor) -> None:
        self._check_dtype(other)
        if other.device != self.device:
            raise GraphError(f"{self!r} and {other!r} are on different devices", fix="copy_from copies")

    def _check_dtype(self, other: SharedTensor) -> None:
        if other.element_type != self.element_type:
            raise InputError(
                f"the dtypes differ: {self!r} and {other!r}", fix="set(other.get()) copies with a conversion"
            )

    def __getstate__(self) -> dict[str, object]:
        return {"value": self.get(), "dtype": self.element_type.name, "name": self.name, "device": self.device}

    def __setstate__(self, state: dict[str, object]) -> None:
        kind = ir.DataType[str(state["dtype"])]
        self._begin(kind, str(state["name"]), parse_device(str(state["device"])))
        if isinstance(value := state["value"], np.ndarray):
            self._storage.write(value)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        shape = ", empty" if self.shape is None else str(list(self.shape))
        return f"<SharedTensor{name}: {dtype_name(self.element_type)}{shape} on {self.device}>"


class VolatileTensor:
    """A SharedTensor as a graph sees it that lets its shape change: a Source of its own."""

    def __init__(self, tensor: SharedTensor) -> None:
        self.tensor = tensor

    @property
    def element_type(self) -> ir.DataType:
        """See Source."""
        return self.tensor.element_type

    @property
    def static_shape(self) -> tuple[Dim, ...] | None:
        """See Source: as many axes as it has now."""
        shape = self.tensor.shape
        return None if shape is None else (None,) * len(shape)

    @property
    def source_name(self) -> str:
        """See Source."""
        return self.tensor.source_name

    @property
    def ort_value(self) -> DeviceValue:
        """See SharedTensor."""
        return self.tensor.ort_value

    def spare(self) -> DeviceValue:
        """See SharedTensor."""
        return self.tensor.spare()

    def commit(self, tensor: DeviceValue) -> None:
        """See SharedTensor."""
        self.tensor.commit(tensor)


def _checked(shape: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    sizes = whole_numbers(shape, "size")
    if any(size < 0 for size in sizes):
        raise InputError(f"{sizes} is no shape")
    return tuple(sizes)
