"""From what a program has to a tensor in memory: numbers, lists, arrays, and tensors of other libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, ProviderError
from onnxgrad.engine.graph.operand import element_type_of
from onnxgrad.engine.runtime.direct import (
    RawTensor,
    copy_into,
    device_of_raw,
    is_ort_value,
    raw_empty,
    raw_from_array,
    raw_from_value,
    raw_to_array,
)
from onnxgrad.engine.runtime.providers import Device, why_not_cuda
from onnxgrad.engine.runtime.values import SupportsArray, SupportsDLPack

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = Device()
DeviceLike = Device | str
_DEVICE = re.compile(r"(cpu|cuda)(?::(\d+))?")


def device_named(device: DeviceLike) -> Device:
    """ "cpu", "cuda" or "cuda:1" as a Device. Raises: InputError for another name, ProviderError without CUDA."""
    if isinstance(device, str):
        found = _DEVICE.fullmatch(device)
        if found is None or (found[1] == "cpu" and found[2]):
            raise InputError(f"there is no device {device!r}", fix='"cpu", "cuda" or "cuda:1"')
        device = Device(found[1], int(found[2] or 0))
    if device.kind == "cuda" and (why := why_not_cuda()):
        raise ProviderError(f"there is no device {device.kind}:{device.index} here", why=why, fix='device="cpu"')
    return known_device(device)


def known_device(device: Device) -> Device:
    """HOST itself for the host, which is told by identity where it must be quick."""
    return HOST if device.kind == "cpu" else device


def payload_of(value: object, dtype: object = None, device: DeviceLike | None = None) -> tuple[RawTensor, Device]:
    """The tensor that holds `value`, and where it is.

    Python floats are float32, ints int64; arrays keep their dtype and are copied. An OrtValue, and a tensor of another
    library that speaks DLPack, is shared where it is. Raises: InputError for what is none of these.
    """
    wanted = None if dtype is None else element_type_of(dtype)
    place = None if device is None else device_named(device)
    if is_ort_value(value) or (isinstance(value, SupportsDLPack) and not isinstance(value, np.ndarray | np.generic)):
        raw = raw_from_value(value)
        here = known_device(device_of_raw(raw))
        if wanted is not None and int(wanted) != raw.element_type():
            raw = raw_from_array(_cast(raw_to_array(raw), wanted), here, wanted)
        return (raw, here) if place is None or place == here else (moved(raw, place), place)
    array = _array(value)
    kind = wanted or ir.DataType.from_numpy(array.dtype) if array.dtype != object else ir.DataType.STRING
    target = place or HOST
    if wanted is not None:
        array = _cast(array, wanted)
    return raw_from_array(array, target, kind), target


def _array(value: object) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
    elif isinstance(value, bool | int | float | str | list | tuple):
        array = np.asarray(value)
        array = array.astype({"f": np.float32, "i": np.int64}.get(array.dtype.kind, array.dtype))
    elif isinstance(value, SupportsArray):
        array = np.asarray(value)
    else:
        fix = "numbers, lists of them, a numpy array, an OrtValue, or a tensor that speaks DLPack"
        raise InputError(f"a {type(value).__name__} is no tensor", fix=fix)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype == object and not all(isinstance(entry, str) for entry in array.flat):
        raise InputError("an array of Python objects is no tensor", why="its elements are no numbers and no strings")
    if array.dtype.kind in "mMc":
        raise InputError(f"there are no tensors of {array.dtype}")
    return array


def _cast(array: np.ndarray, wanted: ir.DataType) -> np.ndarray:
    dtype = np.dtype(object) if wanted == ir.DataType.STRING else wanted.numpy()
    return array if array.dtype == dtype else array.astype(dtype)


def moved(raw: RawTensor, device: Device) -> RawTensor:
    """A copy on another device."""
    if isinstance(raw, np.ndarray):
        raise InputError("strings stay in the memory of the host")
    result = raw_empty(raw.shape(), ir.DataType(raw.element_type()), device)
    if 0 not in raw.shape():
        copy_into(raw, result)
    return result


def one_device(places: Sequence[tuple[Device, int]], what: str) -> Device:
    """The device that a call runs on. places: device and code (see kernels.code_of) of each tensor.

    Shapes and other short vectors of integers may stay on the host. Raises: InputError for tensors on two devices.
    """
    found = {place for place, _ in places if place.kind != "cpu"}
    stray = [code for place, code in places if place.kind == "cpu" and not _is_index(code)]
    if len(found) > 1 or (found and stray):
        names = ", ".join(f"{place.kind}:{place.index}" if place.kind != "cpu" else "cpu" for place, _ in places)
        raise InputError(f"the inputs of {what} are on different devices", where=names, fix='x.to("cuda")')
    return found.pop() if found else HOST


def _is_index(code: int) -> bool:
    kind, rank = ir.DataType(code & 255), (code >> 8) - 1
    return rank <= 1 and (kind.is_integer() or kind == ir.DataType.BOOL)
