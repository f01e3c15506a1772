"""What stands between an operator and its execution, in each thread: recorders of gradients, and a tracer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from onnxgrad.engine.graph.operand import Call
    from onnxgrad.engine.graph.var import Var
    from onnxgrad.grad.tape.tape import Backward
    from onnxgrad.grad.tape.tensor import Tensor


class Recorder(Protocol):
    """One layer that watches what runs; it writes down the operators whose inputs it tracks."""

    def record(self, call: Call, outputs: Sequence[Tensor]) -> None:
        """An operator has run."""

    def alias(self, source: Tensor, result: Tensor) -> None:
        """`result` is `source` under another name: it is tracked as that is."""

    def moved(self, source: Tensor, result: Tensor) -> None:
        """`result` is `source` on another device."""


class Traceable(Protocol):
    """An object with state of its own that a traced function calls, such as a module."""

    @property
    def trace_version(self) -> int:
        """Another number when something has changed that what was captured may depend on."""

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Its tensors, with the names that they are to have."""


class Tracer(Protocol):
    """What takes operators in the place of execution: they become nodes, and tensors stand for variables.

    Tensors that were there before are not changed: the tracer knows what they stand for, and what they would be.
    """

    def apply(self, call: Call) -> Sequence[Var]:
        """The variables of the outputs; inputs that are no variables yet are captured."""

    def value_of(self, tensor: Tensor) -> Var:
        """The variable that a tensor stands for now."""

    def write(self, tensor: Tensor, value: Tensor) -> None:
        """Let a tensor stand for another value."""

    def attached(self, tensor: Tensor) -> Tensor:
        """A gradient of the tensor is wanted: the argument that stands for it, or itself."""

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """The gradient of a tensor."""

    def write_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Let a tensor have another gradient."""

    def backward_of(
        self, call: Call, outputs: Sequence[Tensor], requires: Sequence[bool], level: int
    ) -> Backward | None:
        """The gradient of a call that was traced; None to have it as if it had run."""

    def enter(self, called: Traceable) -> None:
        """An object is called: what is captured holds as long as it does not change."""


class State(threading.local):
    """The layers of one thread. recorders: the outermost first; those that are suppressed are not among them."""

    def __init__(self) -> None:
        self.recorders: tuple[Recorder, ...] = ()
        self.tracer: Tracer | None = None


STATE = State()


@contextmanager
def recording_with(recorders: tuple[Recorder, ...]) -> Iterator[None]:
    """Let these, and no others, record what this thread runs."""
    before, STATE.recorders = STATE.recorders, recorders
    try:
        yield
    finally:
        STATE.recorders = before


@contextmanager
def tracing_with(tracer: Tracer | None) -> Iterator[None]:
    """Give the operators of this thread to `tracer`; None runs them."""
    before, STATE.tracer = STATE.tracer, tracer
    try:
        yield
    finally:
        STATE.tracer = before
