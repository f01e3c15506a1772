"""Memory on the host that values of a device are copied into, used again for the next value."""

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.values import Array, numpy_dtype, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import OrtValue


class HostBuffer:
    """One piece of memory that grows as it is needed. It holds one value at a time."""

    def __init__(self) -> None:
        self._storage = np.empty(0, np.uint8)

    def read(self, value: Feed) -> Array:
        """The elements of a value: its own memory where it is on the host already, else a copy in this buffer.

        Raises: GraphError for what is no tensor.
        """
        if isinstance(value, np.ndarray):
            return value
        if value is None or isinstance(value, list | dict) or not value.is_tensor():
            raise GraphError(f"a value is no tensor but a {type(value).__name__}", fix="take a tensor out of it")
        kind = ir.DataType(value.element_type())
        if value.device_name() == "cpu" or kind.bitwidth < 8:
            return to_numpy(value)
        array = self.take(tuple(value.shape()), numpy_dtype(kind))
        _copy(value, to_ort(array, kind))
        return array

    def take(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """An array over the memory, which grows if it is too small. Its elements are not set."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self._storage.nbytes < size:
            self._storage = np.empty(size, np.uint8)
        return self._storage[:size].view(dtype).reshape(shape)

    def dtype_of(self, value: "OrtValue") -> np.dtype[np.generic]:
        """The numpy dtype of a tensor."""
        return numpy_dtype(ir.DataType(value.element_type()))


def _copy(source: "OrtValue", target: "OrtValue") -> None:
    from onnxruntime import copy_tensors

    copy_tensors([source], [target])
