"""What a SharedTensor can be given as a value."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from onnxgrad.engine.graph.signature import as_array
from onnxgrad.engine.runtime.values import Array, DeviceValue, SupportsArray, SupportsDLPack, from_dlpack, to_numpy


@runtime_checkable
class LazyInitializer(Protocol):
    """What makes the first value of a parameter when it is needed."""

    def get_shape(self) -> tuple[int, ...]:
        """The shape of the value, without making it."""

    def get_value(self) -> Array:
        """The value."""


@runtime_checkable
class CallbackValue(Protocol):
    """A value that a callback of a compiled function is given."""

    @property
    def is_eager(self) -> bool:
        """Whether it was copied to the host before the callback was called."""

    def ort_value(self) -> DeviceValue:
        """The tensor on the device, as long as the callback runs."""

    def get(self) -> Array:
        """The elements on the host."""


def natural_array(value: object) -> Array:
    """An array; Python's floats as float32, its ints as int64; a tensor of another library by DLPack."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, SupportsDLPack) and not isinstance(value, SupportsArray):
        return to_numpy(from_dlpack(value))
    array = as_array(value)
    if isinstance(value, bool | int | float | list | tuple):
        array = array.astype({"i": np.int64, "f": np.float32}.get(array.dtype.kind, array.dtype))
    return array
