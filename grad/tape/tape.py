"""The tape: which operators ran on tensors that gradients are wanted of, and the walk back through them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from weakref import ReferenceType, ref

import numpy as np

from onnxgrad.engine.errors import GradientError, InputError, TapeError
from onnxgrad.engine.graph.operand import Call
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.grad.tape.state import STATE, Recorder, recording_with
from onnxgrad.grad.tape.tensor import Tensor, run_call

Grads = Sequence[Tensor | None]
Callback = Callable[[Tensor], None]
_LEVELS = itertools.count()
_TRACKING = threading.Lock()


class Backward(Protocol):
    """The gradient of something that ran."""

    @property
    def input_has_grad(self) -> Sequence[bool]:
        """Which inputs get one."""

    @property
    def reads_output_grad(self) -> Sequence[bool]:
        """Of which outputs the gradient is read; others are not tracked."""

    def run(self, dys: Grads) -> Grads:
        """The gradients of those inputs, in their order; at least one of `dys`, one for each output, is not None."""


class BackwardSource(Protocol):
    """What finds the gradient of an operator."""

    def __call__(self, call: Call, outputs: Sequence[Tensor], requires: Sequence[bool], level: int) -> Backward | None:
        """The gradient of a call; None where it has none."""


class Slot:
    """A tracked value: its gradient, what made it, and what to do once its gradient is complete."""

    __slots__ = ("__weakref__", "callback", "entry", "grad", "pending")

    def __init__(self, entry: Entry | None, callback: Callback | None = None) -> None:
        self.entry, self.callback = entry, callback
        self.grad: Tensor | None = None
        self.pending = 0
        """How many uses of the value have not been walked through yet."""

    def add(self, grad: Tensor) -> None:
        """Count in one part of the gradient."""
        known = self.grad
        self.grad = grad if known is None else run_call(Call("Add", (known, grad), {}, 1))[0]

    def __repr__(self) -> str:
        what = "leaf" if self.entry is None else "value"
        return f"<{what}, {self.pending} uses to go, {'with' if self.grad is not None else 'without'} gradient>"


class Entry:
    """One operator on the tape. Its outputs keep it alive, and it keeps alive what made its inputs."""

    __slots__ = ("__weakref__", "backward", "dests", "name", "slots")

    def __init__(self, name: str, backward: Backward, dests: tuple[Slot | None, ...]) -> None:
        self.name = name
        self.backward: Backward | None = backward
        self.dests = dests
        self.slots: tuple[ReferenceType[Slot] | None, ...] = ()

    def clear(self) -> None:
        """Let go of tensors and of what came before."""
        self.backward, self.dests, self.slots = None, (), ()

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.slots)} outputs, gradients of {sum(d is not None for d in self.dests)} inputs>"


_Step = tuple[Entry, list[Slot | None]]
"""An entry and the slots of its outputs, which nothing else keeps alive on the way back."""


class Tape:
    """Records what runs in its thread, from `begin` on, on values that depend on attached ones; once.

    find_backward gives the gradient of an operator.
    """

    def __init__(self, find_backward: BackwardSource) -> None:
        self._find_backward = find_backward
        self._entries: list[ReferenceType[Entry]] = []
        self._leaves: list[Slot] = []
        self._suppressed = 0
        self.level = next(_LEVELS)
        self.recording = False

    def begin(self) -> None:
        """Start to record, inside of the tapes that record already."""
        self.recording = True
        STATE.recorders = (*STATE.recorders, self)

    def suppress(self) -> None:
        """Record nothing until `resume` was called as often."""
        self._suppressed += 1

    def resume(self) -> None:
        """Take back one `suppress`."""
        if not self._suppressed:
            raise TapeError("resume without suppress")
        self._suppressed -= 1

    # --- recording ---

    def attach(self, tensor: Tensor, callback: Callback | None = None) -> None:
        """Track a tensor; `callback` gets its gradient once that is complete.

        Raises: GradientError for a tensor that is tracked already, attached or computed from attached ones.
        """
        if not self.recording:
            raise TapeError("a tensor is attached to a tape that does not record", where=repr(tensor))
        kind = tensor.element_type
        if kind is None or not kind.is_floating_point():
            raise GradientError("only tensors of floats have gradients", where=repr(tensor))
        if self.slot_of(tensor) is not None:
            raise GradientError(
                "the tensor is tracked already: it was attached, or computed from what was attached",
                where=repr(tensor),
                fix="attach it once; for the gradient of a computed value attach x.detach() and go on with that",
            )
        slot = Slot(None, callback)
        self._leaves.append(slot)
        self._track(tensor, slot)
        if STATE.tracer is not None and (argument := STATE.tracer.attached(tensor)) is not tensor:
            self._track(argument, slot)

    def slot_of(self, value: object) -> Slot | None:
        """The slot of a value that is tracked here."""
        if not self.recording or not isinstance(value, Tensor) or value._slots is None:
            return None
        return value._slots.get(self)

    def _track(self, tensor: Tensor, slot: Slot) -> None:
        with _TRACKING:  # tapes of several threads may attach one tensor
            slots = tensor._slots
            alive = {} if slots is None else {k: v for k, v in slots.items() if not isinstance(k, Tape) or k.recording}
            alive[self] = slot
            tensor._slots = alive

    def record(self, call: Call, outputs: Sequence[Tensor]) -> None:
        """See Recorder."""
        if self._suppressed or not self.recording:
            return
        dests: list[Slot | None] | None = None
        for index, operand in enumerate(call.inputs):
            if isinstance(operand, Tensor) and operand._slots is not None:
                slot = operand._slots.get(self)
                if slot is not None:
                    if dests is None:
                        dests = [None] * len(call.inputs)
                    dests[index] = slot
        if dests is None:
            return
        if call.op_type == "Identity" and call.domain == "":
            self.alias(call.inputs[0], outputs[0])
            return
        backward = self._find_backward(call, outputs, [slot is not None for slot in dests], self.level)
        if backward is not None:
            self._write(call.op_type, backward, dests, outputs)

    def alias(self, source: object, result: Tensor) -> None:
        """See Recorder."""
        slot = self.slot_of(source)
        if slot is not None and not self._suppressed:
            self._track(result, slot)

    def moved(self, source: Tensor, result: Tensor) -> None:
        """See Recorder."""
        if self.slot_of(source) is not None:
            self.set_grad("to", _Move(source.device), [source], [result])

    def set_grad(self, name: str, backward: Backward, inputs: Sequence[object], outputs: Sequence[Tensor]) -> None:
        """Track `outputs`, whose gradients `backward` turns into those of `inputs`. Links of outputs are replaced.

        Raises: InputError without an output.
        """
        if not outputs:
            raise InputError(f"{name} gives no output", fix="return at least one tensor")
        if self.recording and not self._suppressed:
            self._write(name, backward, [self.slot_of(value) for value in inputs], outputs)

    def _write(self, name: str, backward: Backward, dests: Sequence[Slot | None], outputs: Sequence[Tensor]) -> None:
        kept = [slot if has else None for slot, has in zip(dests, backward.input_has_grad, strict=True)]
        entry = Entry(name, backward, tuple(kept))
        slots: list[ReferenceType[Slot] | None] = []
        for output, read in zip(outputs, backward.reads_output_grad, strict=True):
            if not read:
                slots.append(None)
                continue
            slot = Slot(entry)
            slots.append(ref(slot))
            if output._slots is None:
                output._slots = {self: slot}
            else:
                output._slots[self] = slot
        entry.slots = tuple(slots)
        self._entries.append(ref(entry))

    # --- the way back ---

    def backward_closure(self, ys: Sequence[Tensor]) -> Closure:
        """What turns gradients of `ys` into gradients of the attached tensors. Recording ends here."""
        if not self.recording:
            raise TapeError("no computation history: the tape does not record", fix="record, compute, then go back")
        slots = [self.slot_of(y) for y in ys]
        return Closure(self, self._freeze(), slots, ys)

    def _freeze(self) -> list[_Step]:
        """The entries that something alive depends on, in order. Nothing is recorded or tracked from now on."""
        entries = [entry for entry in (weak() for weak in self._entries) if entry is not None]
        for slot in itertools.chain.from_iterable(entry.dests for entry in entries):
            if slot is not None:
                slot.pending += 1
        self._stop()
        return [(entry, [None if weak is None else weak() for weak in entry.slots]) for entry in entries]

    def _stop(self) -> None:
        self.recording = False
        STATE.recorders = tuple(recorder for recorder in STATE.recorders if recorder is not self)

    def release(self) -> None:
        """Stop, and let go of everything that was recorded. Does nothing the second time."""
        self._stop()
        for weak in self._entries:
            if (entry := weak()) is not None:
                entry.clear()
        self._drop()

    def _drop(self) -> None:
        self._entries.clear()
        for slot in self._leaves:
            slot.callback = slot.grad = None
        self._leaves.clear()

    def walk(self, steps: list[_Step]) -> None:
        """Go back through `steps`, which are cleared one by one."""
        try:
            while steps:
                _go_back(*steps.pop())
            for slot in self._leaves:
                _fire(slot)  # what was differentiated itself
        finally:
            for entry, _ in steps:
                entry.clear()
            self._drop()


def _go_back(entry: Entry, slots: Sequence[Slot | None]) -> None:
    backward, dests = entry.backward, entry.dests
    dys = [_taken(slot) for slot in slots]
    entry.clear()
    if backward is None or not dys:
        raise TapeError(f"invalid backward of {entry!r}", why="the tape was walked through before")
    if any(dy is not None for dy in dys):
        with_grad = [slot for slot, has in zip(dests, backward.input_has_grad, strict=True) if has]
        for slot, grad in zip(with_grad, backward.run(dys), strict=True):
            if slot is not None and grad is not None:
                slot.add(grad)
    for slot in dests:
        if slot is not None:
            slot.pending -= 1
            _fire(slot)


def _taken(slot: Slot | None) -> Tensor | None:
    if slot is None:
        return None
    grad, slot.grad = slot.grad, None
    return grad


def _fire(slot: Slot) -> None:
    callback, grad = slot.callback, slot.grad
    if slot.entry is None and callback is not None and grad is not None and not slot.pending:
        slot.callback = slot.grad = None
        callback(grad)


class _Move:
    """y = x on another device:  dx = dy on the device of x"""

    input_has_grad = reads_output_grad = (True,)

    def __init__(self, device: Device) -> None:
        self._device = device

    def run(self, dys: Grads) -> Grads:
        """See Backward."""
        return [None if dy is None else dy.to(self._device) for dy in dys]


class Closure:
    """Gradients of some values to gradients of what was attached: `closure(dys)`, once."""

    def __init__(self, tape: Tape, steps: list[_Step], slots: Sequence[Slot | None], ys: Sequence[Tensor]) -> None:
        self._tape = tape
        self._steps: list[_Step] | None = steps
        self._slots: Sequence[Slot | None] = list(slots)
        self._shapes = [(y.shape, y.element_type) for y in ys]

    def __call__(self, dys: Sequence[Tensor]) -> None:
        """Call the callbacks of attached tensors with their gradients; several gradients of one value add up.

        Raises: TapeError for the second call; InputError for gradients that do not fit the values.
        """
        if self._steps is None:
            raise TapeError("a backward closure is called twice", fix="compute the values again")
        if len(dys) != len(self._slots):
            raise InputError(f"{len(self._slots)} values need as many gradients, not {len(dys)}")
        steps, self._steps = self._steps, None
        try:
            for slot, dy, (shape, kind) in zip(self._slots, dys, self._shapes, strict=True):
                if dy.element_type != kind or not _same_shape(dy.shape, shape):
                    raise InputError(f"the gradient {dy!r} is for a value of {kind} and shape {shape}")
                if slot is not None:
                    slot.add(dy)
        except InputError:
            self._tape.release()
            raise
        self._slots = ()
        self._tape.walk(steps)


def _same_shape(given: Sequence[object] | None, wanted: Sequence[object] | None) -> bool:
    if given is None or wanted is None:
        return True
    sizes = zip(given, wanted, strict=False)
    return len(given) == len(wanted) and all(a == b for a, b in sizes if isinstance(a, int) and isinstance(b, int))


def tapes() -> tuple[Tape, ...]:
    """The tapes that record in this thread, the outermost first."""
    return tuple(recorder for recorder in STATE.recorders if isinstance(recorder, Tape))


def innermost_tape(values: Iterable[object]) -> Tape | None:
    """The innermost tape that tracks one of `values`."""
    given = list(values)
    return next((t for t in reversed(tapes()) if any(t.slot_of(v) is not None for v in given)), None)


def untracked(tensor: Tensor, level: int) -> Tensor:
    """The tensor as tapes outside of that level see it: what a tape keeps must not keep the tape's own steps."""
    result = Tensor._of(tensor._value(), tensor.device)
    if tensor._slots is not None:
        outer: dict[Recorder, Slot] = {
            key: slot
            for key, slot in tensor._slots.items()
            if isinstance(key, Tape) and key.level < level and key.recording
        }
        result._slots = outer or None
    return result


def ones_like(tensor: Tensor) -> Tensor:
    """Ones of the shape, dtype and device of a tensor."""
    kind = tensor.element_type
    assert kind is not None
    shape = run_call(Call("Shape", (tensor,), {}, 1))[0]
    with recording_with(()):
        return run_call(Call("Expand", (np.ones((), kind.numpy()), shape), {}, 1))[0].to(tensor.device)
