"""Memory that stays: parts of it under another shape, copies into it, and where it is."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.providers import Device, choose_providers, device_of
from onnxgrad.engine.runtime.values import Array, allocate, numpy_dtype, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import OrtValue

_CPU = Device()
_KINDS = {"cpu": 1, "cuda": 2}  # DLPack's numbers of devices
_CODES = {"INT": 0, "UINT": 1, "FLOAT": 2, "DOUBLE": 2, "BFLOAT": 4, "BOOL": 1}  # and of kinds of elements


def parse_device(device: str | Device) -> Device:
    """The device of a name: "cpu", "cuda" or "cuda:1".

    Raises: OptionError for another name; ProviderError where CUDA does not work.
    """
    if isinstance(device, Device):
        return device
    kind, colon, number = device.partition(":")
    if kind not in _KINDS or (colon and not number.isdecimal()) or (kind == "cpu" and int(number or 0) > 0):
        raise OptionError(f"there is no device {device!r}", fix='"cpu", "cuda" or "cuda:1"')
    if kind == "cpu":
        return _CPU
    return device_of(choose_providers([("cuda", {"device": int(number or 0)})]))


def device_name(device: Device) -> str:
    """What `parse_device` reads: "cpu", "cuda:0"."""
    return "cpu" if device.kind == "cpu" else f"{device.kind}:{device.index}"


def device_holding(value: OrtValue) -> Device:
    """Where the memory of a tensor is."""
    kind = value.device_name()
    return _CPU if kind == "cpu" else Device(kind, value.__dlpack_device__()[1])


def shape_of(value: OrtValue) -> tuple[int, ...]:
    """The sizes of a tensor."""
    return tuple(value.shape())


def element_type(value: OrtValue) -> ir.DataType:
    """The ONNX type of the elements of a tensor."""
    return ir.DataType(value.element_type())


def write(target: OrtValue, array: Array) -> None:
    """Copy an array of the same shape into a tensor, its elements cast to the tensor's type."""
    kind = element_type(target)
    if target.device_name() == "cpu" and kind.bitwidth >= 8:
        np.copyto(to_numpy(target), array, casting="unsafe")
        return
    target.update_inplace(to_ort(np.ascontiguousarray(array.astype(numpy_dtype(kind), copy=False)), kind))


def copy(source: OrtValue, target: OrtValue) -> None:
    """Copy a tensor into another of the same type and shape, on whatever devices they are."""
    size = target.tensor_size_in_bytes()
    if source.device_name() == target.device_name() == "cpu":
        ctypes.memmove(target.data_ptr(), source.data_ptr(), size)
    elif size > 0:
        from onnxruntime import copy_tensors

        copy_tensors([source], [target])


def copied(source: OrtValue, device: Device | None = None) -> OrtValue:
    """A tensor of its own with the same elements; by default where the other one is."""
    where = device_holding(source) if device is None else device
    result = allocate(shape_of(source), element_type(source), where)
    copy(source, result)
    return result


def fill_with_zeros(value: OrtValue) -> None:
    """Set every element to 0."""
    if value.device_name() == "cpu":
        ctypes.memset(value.data_ptr(), 0, value.tensor_size_in_bytes())
        return
    zeros = allocate(shape_of(value), element_type(value))
    fill_with_zeros(zeros)
    copy(zeros, value)


def part_of(value: OrtValue, first: int, shape: Sequence[int]) -> OrtValue:
    """A tensor over the memory of another one, from its element `first` on. It keeps that memory alive.

    Raises: InputError for a part that is not inside, or for elements that DLPack does not know (float8, 4 bits).
    """
    kind, count = element_type(value), math.prod(shape)
    if first < 0 or first + count > math.prod(value.shape()):
        raise InputError(
            f"{count} elements from element {first} on are not inside of {dtype_name(kind)}{list(value.shape())}"
        )
    name = kind.name.rstrip("0123456789")
    if name not in _CODES or kind.bitwidth < 8:
        raise InputError(f"memory of {dtype_name(kind)} elements cannot be shared in parts", fix="copy the elements")
    if count == 0:
        return allocate(tuple(shape), kind, device_holding(value))
    from onnxruntime import OrtValue

    address = value.data_ptr() + first * kind.bitwidth // 8
    described = _Described(address, device_holding(value), (_CODES[name], kind.bitwidth, 1), tuple(shape), value)
    return OrtValue.from_dlpack(_Part(described, numpy_dtype(kind)))


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLPack's DLManagedTensor, the DLTensor in it written out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Described:
    """A DLManagedTensor and what must live as long as it does."""

    def __init__(
        self, data: int, device: Device, kind: tuple[int, int, int], shape: tuple[int, ...], owner: OrtValue
    ) -> None:
        self.owner, self.sizes = owner, (ctypes.c_int64 * len(shape))(*shape)
        sizes = ctypes.cast(self.sizes, ctypes.POINTER(ctypes.c_int64))
        place = _Device(_KINDS[device.kind], device.index)
        deleter = ctypes.cast(_release, ctypes.c_void_p)
        self.tensor = _Tensor(data, place, len(shape), _Type(*kind), sizes, None, 0, None, deleter)


_LENT: dict[int, _Described] = {}  # by address, as long as somebody reads them


def _forget(address: int, lent: dict[int, _Described] = _LENT) -> None:
    lent.pop(address, None)


_release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_forget)


class _Part:
    """What `from_dlpack` takes; `dtype` tells bools from bytes, which DLPack's older form does not."""

    def __init__(self, described: _Described, dtype: np.dtype[np.generic]) -> None:
        self._described, self.dtype = described, dtype

    def __dlpack__(self) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        address = ctypes.addressof(self._described.tensor)
        _LENT[address] = self._described
        capsule: object = new(address, b"dltensor", None)
        return capsule
