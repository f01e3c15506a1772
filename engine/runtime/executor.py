"""Runs a plan whose outputs go different ways: to numpy arrays, left on the device, or into memory that is given."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError
from onnxgrad.engine.runtime.call_signature import Feed, TensorType, ValueType, describe_all, is_plain
from onnxgrad.engine.runtime.failures import running_error
from onnxgrad.engine.runtime.memory import copy
from onnxgrad.engine.runtime.plan import Plan, SessionRegion
from onnxgrad.engine.runtime.session import Session
from onnxgrad.engine.runtime.values import Array, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import IOBinding, OrtValue

_BINDINGS = 4  # for as many sets of addresses are bindings kept: two take turns where parameters are updated


@dataclass(frozen=True)
class Wiring:
    """Names of inputs and outputs. `held`: inputs that are given as OrtValues, by position. `arrays`: outputs to be
    numpy arrays. `kept`: outputs that stay OrtValues where they are made. `written`: outputs that go into memory that
    each call gives, by position. Other outputs are computed and forgotten.
    """

    held: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


class Executor(Protocol):
    """A plan with its wiring. Not for several threads at once."""

    def run(self, feeds: Mapping[str, Feed], held: "Sequence[Feed]", buffers: "Sequence[OrtValue]") -> dict[str, Feed]:
        """The arrays and what is kept, by name. Raises: ExecutionError; what was written is then of no value."""


def make_executor(plan: Plan, wiring: Wiring) -> Executor:
    """One that binds all memory once where the plan is one session of tensors; else one that hands values around."""
    region = plan.regions[0] if len(plan.regions) == 1 else None
    if isinstance(region, SessionRegion) and region.outputs == plan.outputs:
        ports = (*region.session.signature.inputs, *region.session.signature.outputs)
        if all(_can_be_bound(port.type) for port in ports):
            return _BoundExecutor(region.session, wiring)
    return _PlanExecutor(plan, wiring)


def _can_be_bound(kind: ValueType) -> bool:
    return isinstance(kind, TensorType) and kind.dtype != ir.DataType.STRING and kind.dtype.bitwidth >= 8


class _BoundExecutor:
    """One session: addresses of inputs and buffers are bound once for each set of them."""

    def __init__(self, session: Session, wiring: Wiring) -> None:
        from onnxruntime import OrtValue

        self._session, self._wiring = session, wiring
        self._device = session.device
        self._on_cpu = session.device.kind == "cpu"
        known = {*wiring.arrays, *wiring.kept, *wiring.written}
        forgotten = tuple(port.name for port in session.signature.outputs if port.name not in known)
        self._stays = (*wiring.kept, *forgotten)
        plain_outputs = {port.name for port in session.signature.outputs if is_plain(port.type)}
        self._arrays = [(name, name in plain_outputs) for name in wiring.arrays]
        self._wrap = OrtValue
        self._plain = {port.name: is_plain(port.type) for port in session.signature.inputs}
        self._bindings: OrderedDict[tuple[int, ...], tuple[IOBinding, Sequence[Feed], Sequence[OrtValue]]] = (
            OrderedDict()
        )

    def run(self, feeds: Mapping[str, Feed], held: "Sequence[Feed]", buffers: "Sequence[OrtValue]") -> dict[str, Feed]:
        """See Executor."""
        key = (*map(id, held), *map(id, buffers))
        entry = self._bindings.get(key)
        try:
            binding = self._bind(key, held, buffers) if entry is None else entry[0]
            for name, value in feeds.items():
                if isinstance(value, np.ndarray):
                    if self._plain[name]:
                        binding.bind_cpu_input(name, value if value.flags.c_contiguous else value.copy(order="C"))
                    else:
                        binding.bind_ortvalue_input(name, to_ort(value))
                else:
                    binding.bind_ortvalue_input(name, value)
            self._run(binding)
            return self._results(binding)
        except Exception as error:
            self._bindings.pop(key, None)
            raise running_error(error, describe_all(feeds)) from error

    def _bind(self, key: tuple[int, ...], held: "Sequence[Feed]", buffers: "Sequence[OrtValue]") -> "IOBinding":
        binding = self._session.ort.io_binding()
        for name, value in zip(self._wiring.held, held, strict=True):
            binding.bind_ortvalue_input(name, value)
        self._bind_made(binding)
        for name, value in zip(self._wiring.written, buffers, strict=True):
            binding.bind_ortvalue_output(name, value)
        self._bindings[key] = (binding, tuple(held), tuple(buffers))
        if len(self._bindings) > _BINDINGS:
            self._bindings.popitem(last=False)
        return binding

    def _bind_made(self, binding: "IOBinding") -> None:
        """Let the outputs be new memory at the next run; what was made before is not held on to."""
        for name in self._wiring.arrays:
            binding.bind_output(name)
        for name in self._stays:
            binding.bind_output(name, self._device.kind, self._device.index)

    def _run(self, binding: "IOBinding") -> None:
        if self._on_cpu:
            self._session.ort.run_with_iobinding(binding, self._session.run_options)
            return
        binding.synchronize_inputs()
        self._session.ort.run_with_iobinding(binding, self._session.run_options)
        binding.synchronize_outputs()

    def _results(self, binding: "IOBinding") -> dict[str, Feed]:
        values = binding.get_outputs_as_ortvaluevector()
        found: dict[str, Feed] = {}
        for index, (name, plain) in enumerate(self._arrays):
            found[name] = values[index].numpy() if plain else to_numpy(self._wrap(values[index]))
        for index, name in enumerate(self._wiring.kept, len(self._arrays)):
            found[name] = self._wrap(values[index])
        self._bind_made(binding)
        return found


class _PlanExecutor:
    """Any plan: values are handed around, and copied into the memory that is given."""

    def __init__(self, plan: Plan, wiring: Wiring) -> None:
        self._plan, self._wiring = plan, wiring

    def run(self, feeds: Mapping[str, Feed], held: "Sequence[Feed]", buffers: "Sequence[OrtValue]") -> dict[str, Feed]:
        """See Executor."""
        values = self._plan.run({**feeds, **dict(zip(self._wiring.held, held, strict=True))})
        for name, buffer in zip(self._wiring.written, buffers, strict=True):
            _copy_into(buffer, _placed(values[name]))
        kept = {name: _placed(values[name]) for name in self._wiring.kept}
        return {name: as_array(values[name]) for name in self._wiring.arrays} | kept


def _copy_into(buffer: "OrtValue", value: Feed) -> None:
    from onnxruntime import OrtValue

    assert isinstance(value, OrtValue), "only tensors of numbers are written into memory that is given"
    if value.shape() != buffer.shape():
        raise ExecutionError(f"an output has shape {value.shape()}, the memory for it {buffer.shape()}")
    copy(value, buffer)


def _placed(value: Feed) -> Feed:
    """An OrtValue for a tensor of numbers; other values as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OSUT":
        return to_ort(value)
    return value


def as_array(value: Feed) -> Array:
    """The elements of a tensor; sequences and maps as they are."""
    from onnxruntime import OrtValue

    if isinstance(value, OrtValue) and value.is_tensor():
        return to_numpy(value)
    array: Array = value  # type: ignore[assignment]  # or lists and dicts, as the callers' documentation says
    return array
