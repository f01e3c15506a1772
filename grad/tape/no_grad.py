"""Running operators without recording them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Self

from onnxgrad.grad.tape.state import STATE, Recorder
from onnxgrad.grad.tape.tape import Tape


class _Suspended(threading.local):
    """What a thread recorded before it entered, the innermost last: one decorator serves all threads."""

    def __init__(self) -> None:
        self.recorders: list[tuple[Recorder, ...]] = []


class no_grad(ContextDecorator):  # noqa: N801  # read as a statement: `with og.no_grad():`
    """Record no gradients in this thread: `with og.no_grad():`, or `@og.no_grad()` on a function."""

    def __init__(self) -> None:
        self._before = _Suspended()

    def __enter__(self) -> Self:
        self._before.recorders.append(STATE.recorders)
        STATE.recorders = ()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        known = (*self._before.recorders.pop(), *STATE.recorders)
        STATE.recorders = tuple(r for r in known if not isinstance(r, Tape) or r.recording)


class suppressing:  # noqa: N801
    """Let some tapes record nothing inside of a `with`."""

    def __init__(self, tapes: Sequence[Tape]) -> None:
        self._tapes = tapes

    def __enter__(self) -> None:
        for tape in self._tapes:
            tape.suppress()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tape in self._tapes:
            tape.resume()
