"""Calls whose arrays stay: inputs are read where they are, outputs are written into the same arrays each time."""

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, OptionError
from onnxgrad.engine.runtime.call_signature import CallSignature, Feed, TensorType, ValueType, describe, describe_all
from onnxgrad.engine.runtime.failures import running_error
from onnxgrad.engine.runtime.plan import Plan, SessionRegion
from onnxgrad.engine.runtime.session import Session, graph_run_options
from onnxgrad.engine.runtime.values import Array, allocate, numpy_dtype, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import OrtValue


_SHAPE_DIFFERS = re.compile("shape verification failed|output OrtValue.*shape", re.IGNORECASE)
_GRAPHS = itertools.count(1)  # numbers of CUDA graphs: each set of bound addresses is a graph of its own


class BoundFunction:
    """A model with inputs and outputs that stay in place: `bound()` runs it on what the inputs hold now.

    `inputs`: the arrays that each call reads. An array that was given in the input's dtype, aligned and C-contiguous
    is the one that was given; anything else was copied once, and the next value goes into the copy. `outputs`: the
    arrays that each call writes, the same ones every time, so that a result lasts until the next call. Shapes stay
    those of the first call, which `bind` makes. Not for several threads at once: bind once for each thread.
    """

    def __init__(self, plan: Plan, signature: CallSignature, feeds: Mapping[str, Feed]) -> None:
        kinds = {port.name: port.type for port in signature.inputs}
        self.inputs: dict[str, Feed] = {
            name: _in_place(value) if isinstance(value, np.ndarray) else value
            for name, value in feeds.items()
            if value is not None
        }
        self.outputs: dict[str, Array] = {}
        self._plan = plan
        region = plan.regions[0] if len(plan.regions) == 1 else None
        whole = isinstance(region, SessionRegion) and region.outputs == plan.outputs
        kinds |= {port.name: port.type for port in signature.outputs}
        names = (*self.inputs, *plan.outputs)
        self._binding: _Binding | None = None
        if whole and isinstance(region, SessionRegion) and all(_can_be_bound(kinds[name]) for name in names):
            self._binding = _Binding(region.session, self.inputs, kinds)
            self.outputs = self._binding.arrays
        else:
            self._start()

    def __call__(self) -> dict[str, Array]:
        """Run once. The dict and its arrays are `outputs`: the next call writes into them.

        Raises: ExecutionError when a node fails, or an output would have another shape than before.
        """
        if self._binding is None:
            for name, value in self._plan.run(dict(self.inputs)).items():
                array = _as_array(name, value)
                if array.shape != self.outputs[name].shape:
                    raise _other_shape(f"output {name!r} is {describe(array)}, was {describe(self.outputs[name])}")
                np.copyto(self.outputs[name], array)
        else:
            self._binding.run(self.inputs)
        return self.outputs

    def _start(self) -> None:
        for name, value in self._plan.run(dict(self.inputs)).items():
            self.outputs[name] = _as_array(name, value).copy()


class _Binding:
    """One session with buffers bound to it."""

    def __init__(self, session: Session, inputs: Mapping[str, Feed], kinds: Mapping[str, ValueType]) -> None:
        self._session = session
        self._binding = session.ort.io_binding()
        self._on_cpu = session.device.kind == "cpu"
        self._sent: dict[str, OrtValue] = {}  # copies on the device of inputs on the host
        for name, value in inputs.items():
            self._bind_input(name, value, kinds[name])
        names = [port.name for port in session.signature.outputs]
        for name in names:
            self._binding.bind_output(name, session.device.kind, session.device.index)
        self._run(session.run_options, inputs)  # to learn the shapes
        self._options = None if session.run_options is None else graph_run_options(next(_GRAPHS))
        self._fetched = [self._output(name, value) for name, value in zip(names, self._results(), strict=True)]
        self.arrays = {name: array for name, (array, _, _) in zip(names, self._fetched, strict=True)}
        for name, (_, _, on_device) in zip(names, self._fetched, strict=True):
            self._binding.bind_ortvalue_output(name, on_device)

    def run(self, inputs: Mapping[str, Feed]) -> None:
        """Read the inputs again, run, and fill the arrays."""
        for name, value in self._sent.items():
            source = inputs[name]
            assert isinstance(source, np.ndarray)
            _copy(to_ort(source, ir.DataType(value.element_type())), value)
        self._run(self._options, inputs)
        if not self._on_cpu:
            for _, on_host, on_device in self._fetched:
                _copy(on_device, on_host)

    def _bind_input(self, name: str, value: Feed, kind: ValueType) -> None:
        if isinstance(value, np.ndarray) and isinstance(kind, TensorType):
            placed = to_ort(value, kind.dtype, self._session.device)
            if not self._on_cpu:
                self._sent[name] = placed
        else:
            placed = value
        self._binding.bind_ortvalue_input(name, placed)

    def _output(self, name: str, value: "OrtValue") -> "tuple[Array, OrtValue, OrtValue]":
        """The array of an output, its memory as an OrtValue, and the OrtValue that the session writes."""
        dtype = ir.DataType(value.element_type())
        array: Array = np.empty(tuple(value.shape()), numpy_dtype(dtype))
        np.copyto(array, to_numpy(value))
        on_host = to_ort(array, dtype)
        on_device = on_host if self._on_cpu else allocate(array.shape, dtype, self._session.device)
        return array, on_host, on_device

    def _results(self) -> "list[OrtValue]":
        from onnxruntime import OrtValue

        values = self._binding.get_outputs_as_ortvaluevector()
        return [OrtValue(values[index]) for index in range(len(self._session.signature.outputs))]

    def _run(self, options: object, inputs: Mapping[str, Feed]) -> None:
        try:
            if self._on_cpu:
                self._session.ort.run_with_iobinding(self._binding, options)
                return
            self._binding.synchronize_inputs()
            self._session.ort.run_with_iobinding(self._binding, options)
            self._binding.synchronize_outputs()
        except Exception as error:
            if _SHAPE_DIFFERS.search(str(error)):
                raise _other_shape(str(error).strip()) from error
            raise running_error(error, describe_all(inputs)) from error


def run_on_device(plan: Plan, feeds: Mapping[str, Feed]) -> "dict[str, OrtValue]":
    """The outputs as OrtValues in the memory of the device that made them; those of other regions are taken there.

    Raises: ExecutionError when a node fails, or an output is no tensor of numbers.
    """
    region = plan.regions[0] if len(plan.regions) == 1 else None
    if not isinstance(region, SessionRegion) or region.outputs != plan.outputs or any(map(_is_boxed, feeds.values())):
        return {name: _placed(name, value) for name, value in plan.run(dict(feeds)).items()}
    from onnxruntime import OrtValue

    session = region.session
    types = {port.name: port.type for port in session.signature.inputs}
    binding = session.ort.io_binding()
    try:
        for name, value in feeds.items():
            kind = types[name]
            if isinstance(value, np.ndarray) and isinstance(kind, TensorType):
                value = to_ort(value, kind.dtype)
            if value is not None:
                binding.bind_ortvalue_input(name, value)
        for name in plan.outputs:
            binding.bind_output(name, session.device.kind, session.device.index)
        binding.synchronize_inputs()
        session.ort.run_with_iobinding(binding, session.run_options)
        binding.synchronize_outputs()
    except Exception as error:
        raise running_error(error, describe_all(feeds)) from error
    values = binding.get_outputs_as_ortvaluevector()
    return {name: OrtValue(values[index]) for index, name in enumerate(plan.outputs)}


def _placed(name: str, value: Feed) -> "OrtValue":
    from onnxruntime import OrtValue

    return value if isinstance(value, OrtValue) else to_ort(_as_array(name, value))


def _is_boxed(value: Feed) -> bool:
    """Whether onnxruntime takes such a value only as a Python object: strings, sequences, maps."""
    return isinstance(value, list | dict) or (isinstance(value, np.ndarray) and value.dtype.kind in "OSUT")


def _can_be_bound(kind: ValueType) -> bool:
    return isinstance(kind, TensorType) and kind.dtype != ir.DataType.STRING and kind.dtype.bitwidth >= 8


def _in_place(array: Array) -> Array:
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")


def _as_array(name: str, value: Feed) -> Array:
    if isinstance(value, np.ndarray):
        return value
    raise OptionError(
        f"output {name!r} is no tensor but {describe(value)}, which has no memory to stay in",
        fix="call the function itself, or compile it with outputs=[...] that are tensors",
    )


def _other_shape(why: str) -> ExecutionError:
    return ExecutionError(
        "an output does not have the shape that it had when the arrays were bound",
        why=why,
        fix="bind again for other shapes; where shapes depend on the values of inputs, call the function itself",
    )


def _copy(source: "OrtValue", target: "OrtValue") -> None:
    from onnxruntime import copy_tensors

    copy_tensors([source], [target])
