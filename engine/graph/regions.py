"""A range along one axis of the memory of a SharedTensor: copied into, and copied out of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.graph.storage import Storage
from onnxgrad.engine.runtime.memory import copied, copy, part_of, shape_of
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.values import Array, DeviceValue, to_numpy


@dataclass(frozen=True)
class Region:
    """Elements begin, begin + step, ... below end, of an axis, or (axis None) of all elements in a row."""

    axis: int | None
    begin: int
    end: int
    step: int

    def check(self, shape: tuple[int, ...]) -> None:
        """Raises: InputError for an axis or a range that a tensor of this shape does not have."""
        if self.axis is not None and not 0 <= self.axis < len(shape):
            raise InputError(
                f"a tensor of shape {list(shape)} has no axis {self.axis}", fix="axis=None for all in a row"
            )
        size = math.prod(shape) if self.axis is None else shape[self.axis]
        if not 0 <= self.begin <= self.end <= size or self.step < 1:
            raise InputError(
                f"begin={self.begin}, end={self.end}, step={self.step} is no range of {size} elements",
                fix="0 <= begin <= end <= size, and a positive step",
            )

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what it takes from a tensor."""
        count = len(range(self.begin, self.end, self.step))
        return (count,) if self.axis is None else (*whole[: self.axis], count, *whole[self.axis + 1 :])

    def of(self, array: Array) -> Array:
        """The elements of a contiguous array, as a view."""
        chosen = slice(self.begin, self.end, self.step)
        return array.reshape(-1)[chosen] if self.axis is None else array[(slice(None),) * self.axis + (chosen,)]

    def first(self, whole: tuple[int, ...]) -> int | None:
        """The number of its first element, if its elements lie side by side; else None."""
        axis = self.axis or 0
        if self.step > 1 or (self.axis is not None and math.prod(whole[:axis]) != 1):
            return None
        return self.begin * (1 if self.axis is None else math.prod(whole[axis + 1 :]))


def copy_in(storage: Storage, region: Region, tensor: DeviceValue) -> None:
    """Copy a tensor of the region's shape into the region. Raises: InputError for another shape."""
    target = storage.writable()
    whole = shape_of(target)
    region.check(whole)
    if shape_of(tensor) != region.shape(whole):
        raise InputError(
            f"a tensor of shape {list(tensor.shape())} does not fit", why=f"the part has {list(region.shape(whole))}"
        )
    first = region.first(whole)
    if storage.device.kind == "cpu" and storage.kind.bitwidth >= 8:
        region.of(to_numpy(target))[...] = to_numpy(tensor)
    elif first is not None and storage.kind.bitwidth >= 8:
        copy(tensor, part_of(target, first, shape_of(tensor)))
    else:
        array = to_numpy(copied(target, Device()))
        region.of(array)[...] = to_numpy(tensor)
        storage.write(array)


def copy_out(tensor: DeviceValue, region: Region, storage: Storage) -> None:
    """Let the region of a tensor be the value of a storage, which takes its shape."""
    whole = shape_of(tensor)
    region.check(whole)
    first = region.first(whole)
    if tensor.device_name() == "cpu" or first is None or storage.kind.bitwidth < 8:
        storage.write(region.of(to_numpy(tensor)))
    else:
        storage.write_tensor(part_of(tensor, first, region.shape(whole)))
