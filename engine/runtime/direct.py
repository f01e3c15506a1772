"""Small sessions with little between the caller and onnxruntime: tensors by position, not a check that can be spared.

A `RawTensor` is without the Python object that onnxruntime puts around its handles.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, InputError
from onnxgrad.engine.runtime.arena import use_shared_arena
from onnxgrad.engine.runtime.failures import loading_error, running_error
from onnxgrad.engine.runtime.plan import Plan
from onnxgrad.engine.runtime.providers import Device, choose_providers
from onnxgrad.engine.runtime.values import NUMPY_TYPES, Array, SupportsDLPack, allocate, from_dlpack, to_numpy, to_ort
from onnxgrad.engine.runtime.wrong_rewrites import wrong_rewrites

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding, OrtValue
    from onnxruntime.capi._pybind_state import OrtValue as NativeValue

RawTensor: TypeAlias = "NativeValue"
"""onnxruntime's handle of a tensor; an array of objects where the elements are strings."""

_MOST_THREADS = 8  # of one small session: hundreds of them may be open


class Runner(Protocol):
    """What runs a model on tensors given by position; None for an optional input that is absent."""

    def run(self, values: "Sequence[RawTensor | None]") -> "list[RawTensor]":
        """The outputs. Raises: ExecutionError."""

    def run_into(self, values: "Sequence[RawTensor | None]", outputs: "Sequence[RawTensor]") -> None:
        """Run, and write the outputs into memory that is there. Raises: ExecutionError."""


class DirectSession:
    """A session of onnxruntime that is called with raw tensors. May be used by several threads."""

    __slots__ = ("_device", "_names", "_outputs", "_range", "_run", "_session")

    def __init__(
        self, session: "InferenceSession", inputs: Sequence[str], outputs: Sequence[str], device: Device
    ) -> None:
        self._session = session
        self._names, self._outputs, self._device = tuple(inputs), list(outputs), device
        self._range = range(len(outputs))
        self._run = session._sess.run_with_ort_values

    def run(self, values: "Sequence[RawTensor | None]") -> "list[RawTensor]":
        """See Runner."""
        feeds = {name: value for name, value in zip(self._names, values, strict=True) if value is not None}
        try:
            if self._device.kind == "cpu":
                found = self._run(feeds, self._outputs, None)
                return [found[index] for index in self._range]  # to iterate over it takes 30 us
            binding = self._binding(feeds)
            for name in self._outputs:
                binding.bind_output(name, self._device.kind, self._device.index)
            self._session.run_with_iobinding(binding)
            return [value._ortvalue for value in binding.get_outputs()]
        except Exception as error:
            raise running_error(error, _describe(values)) from error

    def run_into(self, values: "Sequence[RawTensor | None]", outputs: "Sequence[RawTensor]") -> None:
        """See Runner."""
        feeds = {name: value for name, value in zip(self._names, values, strict=True) if value is not None}
        try:
            binding = self._binding(feeds)
            for name, value in zip(self._outputs, outputs, strict=True):
                binding.bind_ortvalue_output(name, wrapped(value))
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise running_error(error, _describe(values)) from error

    def _binding(self, feeds: "Mapping[str, RawTensor]") -> "IOBinding":
        binding = self._session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, wrapped(value))
        return binding


class PlanRunner:
    """A plan of several regions, or with types that onnxruntime does not take from outside, called with raw tensors."""

    def __init__(self, plan: Plan, inputs: Sequence[str], device: Device, outputs: Sequence[str] | None = None) -> None:
        """outputs: in which order to give them, also some twice; by default that of the plan."""
        self._plan, self._names, self._device = plan, tuple(inputs), device
        self._outputs = tuple(plan.outputs) if outputs is None else tuple(outputs)

    def run(self, values: "Sequence[RawTensor | None]") -> "list[RawTensor]":
        """See Runner."""
        feeds = {
            name: value if isinstance(value, np.ndarray) else to_numpy(wrapped(value))
            for name, value in zip(self._names, values, strict=True)
            if value is not None
        }
        found = self._plan.run(feeds)  # type: ignore[arg-type]
        return [self._placed(found[name]) for name in self._outputs]

    def run_into(self, values: "Sequence[RawTensor | None]", outputs: "Sequence[RawTensor]") -> None:
        """See Runner."""
        for made, output in zip(self.run(values), outputs, strict=True):
            copy_into(made, output)

    def _placed(self, value: object) -> "RawTensor":
        if isinstance(value, np.ndarray):
            return raw_from_array(value, self._device)
        if isinstance(value, list | dict) or value is None:
            raise ExecutionError(
                f"an output is no tensor but a {type(value).__name__}",
                why="operators that run at once take and give tensors",
                fix="compile a model for sequences, maps and optional values: og.compile",
            )
        return value._ortvalue  # type: ignore[attr-defined]


def open_direct(
    model: bytes, inputs: Sequence[str], outputs: Sequence[str], device: Device, threads: int
) -> DirectSession:
    """A session for a small model. threads: of one operator; idle ones sleep. Raises: as create_session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if device.kind == "cpu":
        use_shared_arena(options)
    wanted = None if device.kind == "cpu" else (device.kind, {"device": device.index})
    providers = [(choice.name, dict(choice.options)) for choice in choose_providers(wanted or "cpu")]
    try:
        session = onnxruntime.InferenceSession(
            model, options, providers=providers, enable_fallback=0, disabled_optimizers=wrong_rewrites(model)
        )
    except Exception as error:  # onnxruntime raises Exception itself and RuntimeError for all that goes wrong
        raise loading_error(error) from error
    session._model_bytes = None
    return DirectSession(session, inputs, outputs, device)


def seed_dropout(number: int) -> None:
    """Let Dropout, in all sessions, draw from now on what it draws after any other `seed_dropout(number)`.

    Random operators have generators of their own for each session, which this does not reach.
    """
    import onnxruntime

    onnxruntime.set_seed(number)


def all_threads() -> int:
    """How many threads one operator on large tensors gets."""
    return min(os.cpu_count() or 1, _MOST_THREADS)


def wrapped(value: "RawTensor") -> "OrtValue":
    """A raw tensor as onnxruntime's Python object."""
    from onnxruntime import OrtValue

    return OrtValue(value)


def raw_from_array(array: Array, device: Device = Device(), dtype: ir.DataType | None = None) -> "RawTensor":  # noqa: B008  # frozen
    """A copy of `array` in memory of its own; arrays of strings are kept as they are."""
    if array.dtype.kind in "OSUT":
        return array.astype(object)
    kind = dtype or ir.DataType.from_numpy(array.dtype)
    if device.kind != "cpu":
        return to_ort(array, kind, device)._ortvalue
    value = allocate(array.shape, kind)
    if array.size:
        if kind in NUMPY_TYPES:
            value._ortvalue.update_inplace(np.ascontiguousarray(array))
        else:
            source = to_ort(array, kind)  # owns, or keeps, the memory that is read
            copy_into(source._ortvalue, value._ortvalue)
    return value._ortvalue


def lent(array: Array) -> "tuple[RawTensor, object]":
    """The memory of an array as a tensor, where it can be shared, and what must live as long as it is used."""
    if array.dtype.kind in "OSUT":
        return array.astype(object), None
    owner = to_ort(array)
    return owner._ortvalue, owner


def is_ort_value(value: object) -> bool:
    """Whether this is onnxruntime's Python object around a value."""
    from onnxruntime import OrtValue

    return isinstance(value, OrtValue)


def raw_from_value(value: object) -> "RawTensor":
    """The tensor of an OrtValue, or of another library by DLPack: shared, unless numpy owns its memory."""
    from onnxruntime import OrtValue

    if not isinstance(value, OrtValue):
        assert isinstance(value, SupportsDLPack)
        return from_dlpack(value)._ortvalue
    if not value.is_tensor():
        raise InputError(f"an OrtValue that holds a {value.data_type()} is no tensor")
    if value._numpy_obj is None:
        return value._ortvalue
    return raw_from_array(to_numpy(value), dtype=ir.DataType(value.element_type()))


def raw_to_array(value: "RawTensor") -> Array:
    """The elements, read-only: the memory of the tensor itself where that is the CPU's."""
    array = value if isinstance(value, np.ndarray) else to_numpy(wrapped(value))
    array.flags.writeable = False
    return array


def raw_empty(shape: Sequence[int], dtype: ir.DataType, device: Device) -> "RawTensor":
    """Memory for a tensor; its elements are not set."""
    return allocate(tuple(shape), dtype, device)._ortvalue


def device_of_raw(value: "RawTensor") -> Device:
    """Where the memory of a tensor is."""
    if isinstance(value, np.ndarray) or value.device_name().lower() == "cpu":
        return Device()
    return Device(value.device_name().lower(), int(value.__dlpack_device__()[1]))


def copy_into(source: "RawTensor", target: "RawTensor") -> None:
    """Copy elements between tensors of one dtype and shape, also from one device to another."""
    if device_of_raw(source).kind == device_of_raw(target).kind == "cpu":
        ctypes.memmove(target.data_ptr(), source.data_ptr(), source.tensor_size_in_bytes())
        return
    from onnxruntime import copy_tensors

    copy_tensors([wrapped(source)], [wrapped(target)])


def _describe(values: "Sequence[RawTensor | None]") -> str:
    shown = []
    for value in values:
        if value is None:
            shown.append("-")
        elif isinstance(value, np.ndarray):
            shown.append(f"string{list(value.shape)}")
        else:
            shown.append(f"{value.data_type().removeprefix('tensor(').removesuffix(')')}{list(value.shape())}")
    return ", ".join(shown)
