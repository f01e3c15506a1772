"""Arrays in and out of onnxruntime: numpy, DLPack, and the element types that numpy lacks (bfloat16, float8, int4)."""

import ctypes
import math
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.runtime.providers import Device

if TYPE_CHECKING:
    from onnxruntime import OrtValue

Array: TypeAlias = np.ndarray

DeviceValue: TypeAlias = "OrtValue"
"""A tensor of onnxruntime, on the CPU or a device; other libraries read it by DLPack."""

NUMPY_TYPES = frozenset(
    ir.DataType[name]
    for name in (
        "FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    )
)  # fmt: skip
"""The element types that onnxruntime exchanges with numpy as they are."""


@runtime_checkable
class SupportsDLPack(Protocol):
    """A tensor of another library that can be shared without a copy (torch, cupy, jax)."""

    def __dlpack__(self) -> object:
        """The capsule of the DLPack protocol."""


@runtime_checkable
class SupportsDLPackDevice(Protocol):
    """A tensor of another library that says where its memory is."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number for the kind of device, and which one."""


@runtime_checkable
class SupportsArray(Protocol):
    """An object that numpy can read."""

    def __array__(self) -> Array:
        """The object as an array."""


def numpy_dtype(dtype: ir.DataType) -> np.dtype[np.generic]:
    """The numpy dtype of an ONNX element type; those that numpy lacks come from ml_dtypes; strings are objects."""
    return np.dtype(object) if dtype == ir.DataType.STRING else dtype.numpy()


def to_ort(array: Array, dtype: ir.DataType | None = None, device: Device = Device()) -> "OrtValue":  # noqa: B008  # frozen
    """An OrtValue with the elements of `array`.

    On the CPU it shares memory with a contiguous array of 8 bits an element or more, also with a read-only one;
    elsewhere it is a copy. `dtype` is the ONNX type, by default that of the array.

    Raises: InputError for strings, which onnxruntime keeps in no OrtValue made from outside.
    """
    from onnxruntime import OrtValue

    dtype = dtype or ir.DataType.from_numpy(array.dtype)
    if dtype == ir.DataType.STRING:
        raise InputError("strings cannot be placed in device memory", where=f"array {array.dtype}{list(array.shape)}")
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    if dtype in NUMPY_TYPES:
        return OrtValue.ortvalue_from_numpy(array, device.kind, device.index)
    if dtype.bitwidth < 8:
        value = allocate(array.shape, dtype)
        packed = pack(array, dtype.bitwidth)
        ctypes.memmove(value.data_ptr(), packed.ctypes.data, packed.nbytes)
    else:
        raw = array.view(np.uint8 if dtype.bitwidth == 8 else np.uint16)
        value = OrtValue.ortvalue_from_numpy_with_onnx_type(raw, int(dtype))
    return value if device.kind == "cpu" else _copy(value, device)


def to_numpy(value: "OrtValue") -> Array:
    """The elements of a tensor OrtValue. The array shares its memory (and keeps it alive) where it is the CPU's."""
    if value.device_name() != "cpu":
        value = _copy(value, Device())
    dtype = ir.DataType(value.element_type())
    if dtype in NUMPY_TYPES or dtype == ir.DataType.STRING:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    count = math.prod(shape)
    if count == 0:
        return np.zeros(shape, dtype.numpy())
    buffer = (ctypes.c_uint8 * value.tensor_size_in_bytes()).from_address(value.data_ptr())
    buffer.owner = value  # the array's base; the memory lives as long as it does
    raw = np.frombuffer(buffer, np.uint8)
    if dtype.bitwidth < 8:
        return unpack(raw, count, dtype).reshape(shape)
    return raw.view(dtype.numpy()).reshape(shape)


def allocate(shape: tuple[int, ...], dtype: ir.DataType, device: Device = Device()) -> "OrtValue":  # noqa: B008  # frozen
    """An OrtValue with memory of its own; its elements are not set."""
    from onnxruntime import OrtValue

    kind = dtype.numpy().type if dtype in NUMPY_TYPES else int(dtype)
    return OrtValue.ortvalue_from_shape_and_type(list(shape), kind, device.kind, device.index)


def from_dlpack(tensor: SupportsDLPack) -> "OrtValue":
    """An OrtValue that shares the memory of another library's tensor, on whatever device it is.

    Raises: InputError when the other library, or onnxruntime, cannot share it (gradients attached, strided, bool).
    """
    from onnxruntime import OrtValue

    try:
        return OrtValue.from_dlpack(tensor)
    except Exception as error:
        raise InputError(
            f"a {type(tensor).__module__}.{type(tensor).__name__} cannot be shared by DLPack",
            why=str(error).strip(),
            fix="pass a contiguous tensor without gradient, or a numpy array",
        ) from error


def pack(array: Array, bits: int) -> npt.NDArray[np.uint8]:
    """Elements of 4 or 2 bits, one a byte, as bytes full of them: the first in the lowest bits."""
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    per_byte = 8 // bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat
    columns = padded.reshape(-1, per_byte) << (np.arange(per_byte, dtype=np.uint8) * np.uint8(bits))
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(columns, axis=1)
    return packed


def unpack(packed: npt.NDArray[np.uint8], count: int, dtype: ir.DataType) -> Array:
    """The inverse of `pack`: `count` elements of `dtype`."""
    bits = dtype.bitwidth
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    flat = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if dtype in (ir.DataType.INT4, ir.DataType.INT2):
        top = np.int8(1 << (bits - 1))
        return ((flat.astype(np.int8) ^ top) - top).astype(dtype.numpy())
    return flat.view(dtype.numpy()) if dtype == ir.DataType.FLOAT4E2M1 else flat.astype(dtype.numpy())


def _copy(value: "OrtValue", device: Device) -> "OrtValue":
    from onnxruntime import copy_tensors

    result = allocate(tuple(value.shape()), ir.DataType(value.element_type()), device)
    copy_tensors([value], [result])
    return result
