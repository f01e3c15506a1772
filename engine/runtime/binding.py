"""Training state on the device: a session that runs step after step, the outputs of one being inputs of the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.runtime.call_signature import (
    CallSignature,
    Feed,
    TensorType,
    ValueType,
    describe_all,
    dtype_name,
    is_plain,
)
from onnxgrad.engine.runtime.failures import running_error
from onnxgrad.engine.runtime.feeds import FeedReader
from onnxgrad.engine.runtime.session import Session
from onnxgrad.engine.runtime.values import NUMPY_TYPES, Array, allocate, numpy_dtype, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import IOBinding, OrtValue

State = Mapping[str, "tuple[str | None, Array | OrtValue]"]


@dataclass
class _Cell:
    """One piece of state: two buffers that take turns, or the same one twice where it does not change."""

    output: str | None
    buffers: "tuple[OrtValue, OrtValue]"
    dtype: ir.DataType
    shape: tuple[int, ...]

    @property
    def moves(self) -> bool:
        return self.buffers[0] is not self.buffers[1]


class StepRunner:
    """Runs a session again and again with state that stays on the device.

    state: input name -> (output name that gives its next value, initial value). With None, or the input's own name, as
    output the value stays as it is and has one buffer. An array is copied; an OrtValue is taken over and written to.
    fetches: the outputs that `step` returns, as numpy arrays. Not for several threads at once.

    A step reads one set of buffers and writes the other; nothing is copied. After a step that failed the state is that
    before the step.
    """

    def __init__(self, session: Session, state: State, fetches: Sequence[str] = ()) -> None:
        self.session = session
        self._fetches = list(fetches)
        self._check_names(state)
        ports = {port.name: port.type for port in session.signature.inputs}
        self._cells = {name: self._cell(name, ports[name], *entry) for name, entry in state.items()}
        free = tuple(port for port in session.signature.inputs if port.name not in state)
        self._reader = FeedReader(CallSignature(free, session.signature.outputs))
        self._plain = {port.name for port in free if port.required and is_plain(port.type)}
        self._on_cpu = session.device.kind == "cpu"
        self._turn = 0
        self._bindings = [self._bind(0), self._bind(1)]
        self._optional = frozenset(port.name for port in free if not port.required)
        self._bound = [frozenset[str](), frozenset[str]()]

    def step(self, feeds: Mapping[str, object] | None = None, /, **named: object) -> dict[str, Array]:
        """Run once with these inputs (all that are not state) and return the fetches; the state moves on.

        Raises: InputError for inputs that do not fit, ExecutionError when a node fails.
        """
        given = self._reader.read(() if feeds is None else (feeds,), named)
        binding = self._binding_for(given)
        try:
            for name, value in given.items():
                if isinstance(value, np.ndarray) and name in self._plain:
                    binding.bind_cpu_input(name, value if value.flags.c_contiguous else value.copy(order="C"))
                elif isinstance(value, np.ndarray):
                    binding.bind_ortvalue_input(name, to_ort(value))
                else:
                    binding.bind_ortvalue_input(name, value)
            for name in self._fetches:
                binding.bind_output(name)  # again at each step: a new array, of the shape that this batch gives
            self._run(binding)
        except Exception as error:
            raise running_error(error, describe_all(given)) from error
        self._turn = 1 - self._turn
        values = binding.get_outputs_as_ortvaluevector()
        return {name: self._fetched(values[index]) for index, name in enumerate(self._fetches)}

    def rewind(self) -> None:
        """Take back the last step: the state is that before it. Not twice in a row."""
        self._turn = 1 - self._turn

    def state(self, name: str) -> Array:
        """The present value of a piece of state, as an array of its own."""
        return to_numpy(self.value(name)).copy()

    def value(self, name: str) -> "OrtValue":
        """The present value of a piece of state where it is, not copied; the next step but one overwrites it."""
        return self._known(name).buffers[self._turn]

    def set_state(self, name: str, array: Array) -> None:
        """Replace the present value of a piece of state. Raises: InputError for another dtype or shape."""
        cell = self._known(name)
        array = np.asarray(array)
        if array.shape != cell.shape or array.dtype != numpy_dtype(cell.dtype):
            wanted = f"{dtype_name(cell.dtype)}{list(cell.shape)}"
            raise InputError(f"state {name!r} is {wanted}, not {array.dtype.name}{list(array.shape)}")
        _write(cell.buffers[self._turn], array, cell.dtype)

    def _binding_for(self, given: dict[str, Feed]) -> "IOBinding":
        """The binding of this turn; a new one when it still holds an optional input that is absent now."""
        for name in [name for name, value in given.items() if value is None]:
            del given[name]
        if self._optional:
            optional = frozenset(given) & self._optional
            if self._bound[self._turn] - optional:
                self._bindings[self._turn] = self._bind(self._turn)
            self._bound[self._turn] = optional
        return self._bindings[self._turn]

    def _run(self, binding: "IOBinding") -> None:
        if self._on_cpu:
            self.session.ort.run_with_iobinding(binding, self.session.run_options)
            return
        binding.synchronize_inputs()
        self.session.ort.run_with_iobinding(binding, self.session.run_options)
        binding.synchronize_outputs()

    def _fetched(self, value: object) -> Array:
        from onnxruntime import OrtValue

        return to_numpy(OrtValue(value))

    def _bind(self, turn: int) -> "IOBinding":
        """The binding of every other step: reads the buffers of `turn`, writes the others."""
        binding = self.session.ort.io_binding()
        for name in self._fetches:
            binding.bind_output(name)
        for name, cell in self._cells.items():
            binding.bind_ortvalue_input(name, cell.buffers[turn])
            if cell.moves:
                binding.bind_ortvalue_output(cell.output, cell.buffers[1 - turn])
        return binding

    def _cell(self, name: str, kind: ValueType, output: str | None, initial: "Array | OrtValue") -> _Cell:
        if not isinstance(kind, TensorType):
            raise OptionError(f"state {name!r} is no tensor but {kind}")
        device = self.session.device
        if isinstance(initial, np.ndarray | np.generic | float | int | list):
            array = np.asarray(initial)
            if array.dtype != numpy_dtype(kind.dtype):
                raise InputError(f"state {name!r} wants {dtype_name(kind.dtype)}, not {array.dtype.name}")
            first = allocate(array.shape, kind.dtype, device)
            _write(first, array, kind.dtype)
        else:
            first = initial
            if first.element_type() != int(kind.dtype):
                raise InputError(f"state {name!r} wants {dtype_name(kind.dtype)}, not {first.data_type()}")
        shape = tuple(first.shape())
        if kind.shape is not None and not _agrees(shape, kind.shape):
            raise InputError(f"state {name!r} has shape {list(shape)}, the model wants {kind}")
        fixed = output is None or output == name
        second = first if fixed else allocate(shape, kind.dtype, device)
        return _Cell(output, (first, second), kind.dtype, shape)

    def _check_names(self, state: State) -> None:
        inputs = {port.name for port in self.session.signature.inputs}
        outputs = {port.name for port in self.session.signature.outputs}
        written = [output for name, (output, _) in state.items() if output is not None and output != name]
        for name, known, what in (
            *((name, inputs, "input") for name in state),
            *((name, outputs, "output") for name in (*written, *self._fetches)),
        ):
            if name not in known:
                raise OptionError(f"the model has no {what} {name!r}", fix=f"one of {', '.join(sorted(known))}")
        twice = {name for name in (*written, *self._fetches) if (*written, *self._fetches).count(name) > 1}
        if twice:
            raise OptionError(f"output {min(twice)!r} is used twice, as state or fetch", fix="use each output once")

    def _known(self, name: str) -> _Cell:
        if name not in self._cells:
            raise OptionError(f"there is no state {name!r}", fix=f"one of {', '.join(self._cells)}")
        return self._cells[name]


def _agrees(shape: tuple[int, ...], wanted: Sequence[int | str | None]) -> bool:
    if len(shape) != len(wanted):
        return False
    return all(not isinstance(dim, int) or dim == size for size, dim in zip(shape, wanted, strict=True))


def _write(buffer: "OrtValue", array: Array, dtype: ir.DataType) -> None:
    """Copy the elements of `array` into the memory of `buffer`."""
    buffer.update_inplace(array if dtype in NUMPY_TYPES else to_ort(array, dtype))
