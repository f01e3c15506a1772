"""Kernels: one operator, for inputs of given types and ranks, as a session of onnxruntime; cached per thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, ModelError, OpsetError
from onnxgrad.engine.partition.known_bad import SUSPECTS, find_known_bad, is_suspect
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.direct import (
    DirectSession,
    PlanRunner,
    RawTensor,
    Runner,
    all_threads,
    device_of_raw,
    open_direct,
    raw_from_array,
)
from onnxgrad.engine.runtime.plan import SessionRegion
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.grad.tape.one_node import Spec, model_bytes, model_of, one_node

T = TypeVar("T")
KERNELS = 256
"""How many kernels a thread keeps: those not used for the longest time go."""
_LARGE = 64 * 1024  # bytes of all inputs from which on an operator gets all threads
_SMALL_CONSTANT = 64  # elements


class LeastRecent(Generic[T]):
    """A dict of bounded size: what was not used for the longest time goes first. For one thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def find(self, key: Hashable) -> T | None:
        """The value of `key`, or None."""
        found = self._entries.get(key)
        if found is not None and len(self._entries) * 2 > self._size:  # below that the order decides nothing soon
            self._entries.move_to_end(key)
        return found

    def keep(self, key: Hashable, value: T) -> T:
        """Add a value; the one not used for the longest time makes room for it."""
        self._entries[key] = value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries


class _Caches(threading.local):
    def __init__(self) -> None:
        self.kernels: LeastRecent[Kernel] = LeastRecent(KERNELS)
        self.constants: LeastRecent[RawTensor] = LeastRecent(4 * KERNELS)


CACHES = _Caches()


def clear_caches() -> None:
    """Drop the kernels and constants of this thread: sessions close once nothing else holds them."""
    CACHES.kernels.clear()
    CACHES.constants.clear()


class Kernel:
    """An operator for inputs of given types and ranks on one device. May be used by several threads."""

    __slots__ = ("__weakref__", "_device", "_fed", "_large", "_model", "_names", "_small", "_threads")

    def __init__(self, model: ir.Model, names: Sequence[str | None], device: Device) -> None:
        """`names`: of the input of the model that each value is for; None for a value that the model holds itself."""
        self._model, self._device = model, device
        self._names = [name for name in names if name is not None]
        self._fed = None if len(self._names) == len(names) else [i for i, name in enumerate(names) if name is not None]
        self._threads = all_threads() if device.kind == "cpu" else 1
        self._small: Runner | None = None
        self._large: Runner | None = None

    def run(self, values: Sequence[RawTensor | None]) -> list[RawTensor]:
        """The outputs. Raises: ExecutionError."""
        if self._fed is not None:
            values = [values[index] for index in self._fed]
        return self._runner(values).run(values)

    def run_into(self, values: Sequence[RawTensor | None], outputs: Sequence[RawTensor]) -> None:
        """Run, and write the outputs into memory of their dtype and shape. Raises: ExecutionError."""
        if self._fed is not None:
            values = [values[index] for index in self._fed]
        self._runner(values).run_into(values, outputs)

    def _runner(self, values: Sequence[RawTensor | None]) -> Runner:
        if self._threads > 1 and _size(values) > _LARGE:
            if self._large is None:
                self._large = self._open(self._threads)
            return self._large
        if self._small is None:
            self._small = self._open(1)
        return self._small

    def _open(self, threads: int) -> Runner:
        outputs = [value.name or "" for value in self._model.graph.outputs]
        on_cpu = self._device.kind == "cpu"
        strings = _has_strings(self._model)
        if not strings and not _is_known_bad(self._model, on_cpu):
            try:
                return open_direct(model_bytes(self._model), self._names, outputs, self._device, threads)
            except (ExecutionError, ModelError, OpsetError):
                pass  # what mends models is asked next, and says what is wrong if it cannot
        wanted = "cpu" if on_cpu else (self._device.kind, {"device": self._device.index})
        options = SessionOptions(wanted, threads if on_cpu else None, "basic", spinning=False)
        plan, _ = assemble(read_source(self._model), self._model, None, options)
        region = plan.regions[0] if len(plan.regions) == 1 else None
        if isinstance(region, SessionRegion) and region.outputs == plan.outputs and not strings:
            return DirectSession(region.session.ort, self._names, outputs, self._device)
        return PlanRunner(plan, self._names, self._device)


def _is_known_bad(model: ir.Model, on_cpu: bool) -> bool:
    """Whether a node falls, or may fall, under the table of what onnxruntime gets wrong."""
    inner = (node for function in model.functions.values() for node in function.all_nodes())
    return any(find_known_bad(node, on_cpu) for node in model.graph.all_nodes()) or any(is_suspect(n) for n in inner)


def _has_strings(model: ir.Model) -> bool:
    return any(value.dtype == ir.DataType.STRING for value in (*model.graph.inputs, *model.graph.outputs))


def _size(values: Sequence[RawTensor | None]) -> int:
    size = 0
    for value in values:
        if value is not None and not isinstance(value, np.ndarray):
            size += value.tensor_size_in_bytes()
    return size


def find_kernel(
    op_type: str,
    domain: str,
    attributes: Mapping[str, object],
    outputs: int,
    codes: tuple[int, ...],
    values: Sequence[RawTensor | None],
    device: Device,
) -> Kernel:
    """The kernel of a call. codes: of each input its `code_of`, 0 where it is absent; shapes are not in the key.

    Only operators that onnxruntime gets wrong for some sizes or constants have a kernel for each of those.
    """
    key: tuple[object, ...] = (op_type, domain, outputs, codes, device)
    if attributes:
        key = (*key, attributes_key(attributes))
    if op_type in SUSPECTS:
        key = (*key, *(None if v is None else (tuple(v.shape()), constant_bytes(v)) for v in values))
    kernels = CACHES.kernels
    found = kernels.find(key)
    return found or kernels.keep(key, _make(op_type, domain, attributes, outputs, codes, values, device))


def _make(
    op_type: str,
    domain: str,
    attributes: Mapping[str, object],
    outputs: int,
    codes: tuple[int, ...],
    values: Sequence[RawTensor | None],
    device: Device,
) -> Kernel:
    known = values if op_type in SUSPECTS else [None] * len(codes)
    specs = [None if code == 0 else _spec(code, value) for code, value in zip(codes, known, strict=True)]
    made = one_node(op_type, domain, attributes, outputs, specs)
    names = [f"absent{i}" if v is None else None if v.producer() else v.name for i, v in enumerate(made.inputs)]
    return Kernel(model_of(made), names, device)


def _spec(code: int, value: RawTensor | None) -> Spec:
    kind, rank = ir.DataType(code & 255), (code >> 8) - 1
    if value is None:
        return Spec(kind, (None,) * rank)
    elements = constant_bytes(value)
    array = None if elements is None else np.frombuffer(elements, kind.numpy()).reshape(value.shape())
    return Spec(kind, tuple(value.shape()), array)


def code_of(kind: int, rank: int) -> int:
    """Type and rank of an input as one number, never 0."""
    return kind | (rank + 1) << 8


def attributes_key(attributes: Mapping[str, object]) -> tuple[object, ...]:
    """Equal for equal attributes, by all of their content; graphs and functions count by identity."""
    return tuple(sorted((name, _frozen(value)) for name, value in attributes.items())) if attributes else ()


def _frozen(value: object) -> Hashable:
    if isinstance(value, list | tuple):
        return ("list", *(_frozen(entry) for entry in value))
    if isinstance(value, np.ndarray | np.generic):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, int | float | str):
        return (type(value).__name__, value)
    return ("object", _Identity(value))


class _Identity:
    """An object as a key: kept alive, equal to nothing else."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __lt__(self, other: object) -> bool:
        return id(self) < id(other)


def constant_bytes(value: RawTensor) -> bytes | None:
    """The elements of a small tensor of integers or bools on the CPU, which graphs may depend on."""
    if isinstance(value, np.ndarray):
        return None
    kind = ir.DataType(value.element_type())
    if device_of_raw(value).kind != "cpu" or not (kind.is_integer() or kind == ir.DataType.BOOL):
        return None
    array = value.numpy()
    return bytes(array.tobytes()) if array.size <= _SMALL_CONSTANT else None


def constant(array: np.ndarray) -> RawTensor:
    """A literal of a call as a tensor; small ones are kept."""
    if array.size > _SMALL_CONSTANT or array.dtype == object:
        return raw_from_array(array)
    key = (array.dtype, array.shape, array.tobytes())
    constants = CACHES.constants
    return constants.find(key) or constants.keep(key, raw_from_array(array))
