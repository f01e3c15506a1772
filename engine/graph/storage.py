"""The memory behind SharedTensors: one tensor, a spare one to write the next value into, and what is still to come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.memory import copied, copy, element_type, fill_with_zeros, part_of, shape_of, write
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.values import Array, DeviceValue, allocate, to_numpy


@dataclass(frozen=True)
class Pending:
    """A value that is written when it is first read."""

    shape: tuple[int, ...]
    make: Callable[[], Array]


class Storage:
    """A tensor that SharedTensors own, alone or as aliases of each other. Every method may be called by any thread.

    The next value is written into `spare` while the present one is still read; `commit` lets the two change places.
    Once the address is known outside (a numpy view, DLPack, a pointer) or the memory belongs to other tensors too, it
    stays: `commit` copies then.
    """

    def __init__(self, kind: ir.DataType, device: Device) -> None:
        self.kind, self.device = kind, device
        self.lock = threading.RLock()
        self._value: DeviceValue | None = None
        self._spare: DeviceValue | None = None
        self._pending: Pending | None = None
        self._stays = False
        self._readers: dict[int, int] = {}  # id of a tensor -> how many runs read it

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The sizes; None while it is empty."""
        with self.lock:
            if self._pending is not None:
                return self._pending.shape
            return None if self._value is None else shape_of(self._value)

    @property
    def is_pending(self) -> bool:
        """Whether a value waits to be written."""
        return self._pending is not None

    @property
    def stays(self) -> bool:
        """Whether the address is known outside, or the memory belongs to other tensors too."""
        return self._stays

    def present(self) -> DeviceValue:
        """The tensor as it is now. Raises: GraphError while it is empty."""
        value = self._value
        if value is not None and self._pending is None:
            return value
        with self.lock:
            self.settle()
            if self._value is None:
                raise GraphError("a SharedTensor is read that has no value", fix="give it one: set(array)")
            return self._value

    def pin(self) -> DeviceValue:
        """The tensor as it is now, which keeps its elements until `unpin`: next values go elsewhere, while it may."""
        with self.lock:
            value = self.present()
            self._readers[id(value)] = self._readers.get(id(value), 0) + 1
            return value

    def unpin(self, value: DeviceValue) -> None:
        """The end of one `pin`."""
        with self.lock:
            count = self._readers[id(value)] - 1
            if count:
                self._readers[id(value)] = count
            else:
                del self._readers[id(value)]

    def writable(self) -> DeviceValue:
        """The tensor as it is now, to change elements of: a copy takes its place where a run reads it, while it may."""
        with self.lock:
            value = self.present()
            if id(value) in self._readers and not self._stays:
                value = copied(value)
                self._replace(value)
            return value

    def settle(self) -> None:
        """Write the value that waits, if there is one. Raises: InputError for a shape that was not announced."""
        with self.lock:
            if (pending := self._pending) is None:
                return
            array = np.asarray(pending.make())
            if array.shape != pending.shape:
                raise InputError(
                    f"a lazy value has shape {list(array.shape)}", why=f"it was announced as {list(pending.shape)}"
                )
            self.write(array)

    def defer(self, pending: Pending | None) -> None:
        """Let `pending` be the value, once somebody reads it."""
        with self.lock:
            self._pending = pending

    def write(self, array: Array) -> None:
        """Copy an array in, cast to the type of the elements; memory is new only where the shape is."""
        with self.lock:
            write(self._room_for(array.shape), array)

    def write_tensor(self, tensor: DeviceValue) -> None:
        """Copy a tensor of the same type in, from whatever device; memory is new only where the shape is."""
        with self.lock:
            copy(tensor, self._room_for(shape_of(tensor)))

    def resize(self, shape: tuple[int, ...]) -> None:
        """New memory for this shape, its elements not set."""
        with self.lock:
            self._replace(allocate(shape, self.kind, self.device))

    def zero(self) -> None:
        """Set every element to 0, in place. Raises: GraphError while it is empty."""
        with self.lock:
            shape = self.shape
            if shape is None:
                raise GraphError("a SharedTensor without a shape cannot be zeroed", fix="resize(shape) first")
            fill_with_zeros(self._room_for(shape))

    def adopt(self, tensor: DeviceValue, *, stays: bool = False) -> None:
        """Take over the memory of a tensor of the same type on the same device. `stays`: others know it too."""
        with self.lock:
            self._replace(tensor)
            self._stays = stays

    def stay(self) -> DeviceValue:
        """The present tensor, whose memory is no longer exchanged for another."""
        with self.lock:
            value = self.present()
            self._stays, self._spare = True, None
            return value

    def part(self, first: int, shape: tuple[int, ...]) -> DeviceValue:
        """A tensor over a part of the memory, which stays from now on."""
        with self.lock:
            return part_of(self.stay(), first, shape)

    def spare(self) -> DeviceValue:
        """A second tensor of the same type and shape, to write the next value into. Made once, until one is resized."""
        with self.lock:
            if self._spare is None or id(self._spare) in self._readers:
                self._spare = allocate(shape_of(self.present()), self.kind, self.device)
            return self._spare

    def commit(self, tensor: DeviceValue) -> None:
        """Let `tensor` be the value: the spare one, or one that nobody else writes to.

        What was the value becomes the spare one. Where memory stays, `tensor` is copied, and stays the spare one.
        Raises: GraphError for another type or shape.
        """
        with self.lock:
            present = self.present()
            if tensor is not self._spare:
                self._check(tensor, present)
            if self._stays:
                copy(tensor, present)
                self._spare = tensor
            else:
                self._value, self._spare = tensor, present

    def read(self) -> Array | None:
        """The elements, as an array of its own; None while it is empty."""
        with self.lock:
            if self.shape is None:
                return None
            value = self.present()
            array = to_numpy(value)
            return array.copy() if value.device_name() == "cpu" else array

    def _room_for(self, shape: tuple[int, ...]) -> DeviceValue:
        self._pending = None
        is_read = id(self._value) in self._readers and not self._stays
        if self._value is None or is_read or shape_of(self._value) != shape:
            self._replace(allocate(shape, self.kind, self.device))
        assert self._value is not None
        return self._value

    def _replace(self, value: DeviceValue) -> None:
        self._value, self._spare, self._pending, self._stays = value, None, None, False

    def _check(self, tensor: DeviceValue, present: DeviceValue) -> None:
        if (tensor.element_type(), tensor.shape()) != (present.element_type(), present.shape()):
            raise GraphError(
                f"the next value of a SharedTensor is {dtype_name(element_type(tensor))}{list(tensor.shape())}",
                why=f"it holds {dtype_name(self.kind)}{list(present.shape())}",
                fix="an update must keep the shape; a tensor must not be resized while a function runs",
            )


@contextmanager
def all_locked(*storages: Storage) -> Iterator[None]:
    """Hold the locks of several storages; always in one order, so that nobody waits for each other."""
    with ExitStack() as stack:
        for storage in sorted(set(storages), key=id):
            stack.enter_context(storage.lock)
        yield
