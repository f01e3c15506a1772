"""The plan of a compiled function: regions in the order they run, each with its provider."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.runtime.boxes import box, unbox
from onnxgrad.engine.runtime.call_signature import Feed, TensorType, describe_all, is_plain
from onnxgrad.engine.runtime.failures import running_error
from onnxgrad.engine.runtime.session import SESSIONS, Session
from onnxgrad.engine.runtime.values import Array, to_ort


class Region(Protocol):
    """A part of a model that runs as one piece. `inputs` and `outputs` are names of values."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it reads: inputs of the model, or outputs of regions before it; those that are absent are left out."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it gives."""

    @property
    def providers(self) -> tuple[str, ...]:
        """What runs it, in order of preference."""

    @property
    def why(self) -> str:
        """Why it is a region of its own and runs as it does; "" where there is nothing to say."""

    def run(self, feeds: Mapping[str, Feed]) -> Sequence[Feed]:
        """The outputs for these inputs."""


@dataclass(frozen=True)
class Plan:
    """Regions in the order they run, and the outputs of the whole.

    `constants`: the values of outputs that are initializers; an input of the same name goes before.
    """

    regions: tuple[Region, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def run(self, feeds: dict[str, Feed]) -> dict[str, Feed]:
        """The outputs of the model by name, in their order."""
        if len(self.regions) == 1 and self.outputs == self.regions[0].outputs:
            return dict(zip(self.outputs, self.regions[0].run(feeds), strict=True))
        values: dict[str, Feed] = {**self.constants, **feeds}
        for region in self.regions:
            given = {name: values[name] for name in region.inputs if name in values}
            values.update(zip(region.outputs, region.run(given), strict=True))
        return {name: values[name] for name in self.outputs}

    def release(self) -> None:
        """Let go of sessions that nobody else uses; the plan is of no use any more."""
        for region in self.regions:
            if isinstance(region, SessionRegion):
                SESSIONS.release(region.session)


class SessionRegion:
    """A region that one onnxruntime session runs.

    `passed_on`: outputs that only other sessions read; they stay OrtValues in the memory of the device.
    """

    def __init__(self, session: Session, passed_on: Collection[str] = ()) -> None:
        self.session = session
        signature = session.signature
        self.inputs = tuple(port.name for port in signature.inputs)
        self.outputs = tuple(port.name for port in signature.outputs)
        self.providers = session.providers
        self.why = session.lowered_because
        self._names = list(self.outputs)
        self._run: Callable[..., Sequence[Feed]] = session.direct_run()
        self._options = session.run_options
        self._odd_inputs = {
            port.name: port.type.dtype
            for port in signature.inputs
            if isinstance(port.type, TensorType) and not is_plain(port.type)
        }
        self._types = {port.name: port.type for port in signature.inputs}
        tensors = {
            port.name
            for port in signature.outputs
            if isinstance(port.type, TensorType) and port.type.dtype != ir.DataType.STRING
        }
        self._passed_on = frozenset(passed_on) & tensors
        self._odd_outputs = any(not is_plain(port.type) for port in signature.outputs)

    def run(self, feeds: Mapping[str, Feed]) -> Sequence[Feed]:
        """The outputs for these inputs; raises ExecutionError with the node that failed."""
        try:
            if self._passed_on:
                return self._run_bound(feeds)
            if self._odd_outputs:
                return self._run_odd(feeds)
            if self._odd_inputs:
                feeds = {name: self._place(name, value) for name, value in feeds.items()}
            return self._run(self._names, feeds, self._options)
        except Exception as error:
            raise running_error(error, describe_all(feeds)) from error

    def _place(self, name: str, value: Feed) -> Feed:
        dtype = self._odd_inputs.get(name)
        return to_ort(value, dtype) if dtype is not None and isinstance(value, np.ndarray) else value

    def _run_bound(self, feeds: Mapping[str, Feed]) -> Sequence[Feed]:
        """With outputs that are left where they are made."""
        binding, device = self.session.ort.io_binding(), self.session.device
        for name, value in feeds.items():
            if value is not None:
                binding.bind_ortvalue_input(name, box(value, self._types[name]))
        for name in self._names:
            if name in self._passed_on:
                binding.bind_output(name, device.kind, device.index)
            else:
                binding.bind_output(name)
        binding.synchronize_inputs()
        self.session.ort.run_with_iobinding(binding, self._options)
        binding.synchronize_outputs()
        values = zip(self._names, binding.get_outputs(), strict=True)
        return [value if name in self._passed_on else unbox(value) for name, value in values]

    def _run_odd(self, feeds: Mapping[str, Feed]) -> Sequence[Feed]:
        """With outputs of types that onnxruntime does not turn into numpy arrays, such as bfloat16."""
        values = {name: box(value, self._types[name]) for name, value in feeds.items() if value is not None}
        return [unbox(value) for value in self.session.ort.run_with_ort_values(self._names, values, self._options)]
