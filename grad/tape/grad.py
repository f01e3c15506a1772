"""Gradients of what runs inside of a `with`, to any order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self
from weakref import ReferenceType, ref

from onnxgrad.engine.errors import InputError
from onnxgrad.grad.tape import rules  # noqa: F401  (fills the table)
from onnxgrad.grad.tape.no_grad import suppressing
from onnxgrad.grad.tape.operators import find_backward
from onnxgrad.grad.tape.tape import Tape, ones_like
from onnxgrad.grad.tape.tensor import Tensor, as_tensors


class _Grouping(threading.local):
    def __init__(self) -> None:
        self.group: list[ReferenceType[Grad]] | None = None


_GROUPING = _Grouping()


class Grad:
    """Gradients of what runs inside of `with Grad() as grad:` on the tensors given to `grad.wrt`.

    Inside of each other, the outer one records what the inner one computes on the way back: gradients of gradients.

        with og.Grad() as outer, og.Grad() as inner:
            outer.wrt(x, callback=second.append)
            inner.wrt(x, callback=first.append)
            inner(f(x))
            outer(first[0])
    """

    def __init__(self) -> None:
        self._tape = Tape(find_backward)
        self._group: list[ReferenceType[Grad]] = [ref(self)]

    @staticmethod
    def begin_group() -> None:
        """Those entered from now on form a group: while one of them goes back, the others record nothing."""
        _GROUPING.group = []

    @staticmethod
    def end_group() -> None:
        """The group is complete."""
        _GROUPING.group = None

    def __enter__(self) -> Self:
        if _GROUPING.group is not None:
            _GROUPING.group.append(ref(self))
            self._group = _GROUPING.group
        self._tape.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tape.release()

    def wrt(self, *tensors: Tensor, callback: Callable[[Tensor], object] | None = None) -> Self:
        """Record what depends on these tensors. `callback` gets the gradient; without one it is added to `x.grad`.

        The gradient comes as soon as it is complete; a tensor that the result does not depend on gets none.
        Raises: GradientError for a tensor that is attached already, was computed from one, or holds no floats.
        """
        for tensor in as_tensors(tensors):
            self._tape.attach(tensor, _told(callback) if callback is not None else _Adder(ref(tensor)))
        return self

    def __call__(self, ys: Tensor | Sequence[Tensor], dys: Tensor | Sequence[Tensor] | None = None) -> None:
        """Go back from `ys` with their gradients `dys`, by default ones. Recording ends here."""
        outputs = as_tensors([ys] if isinstance(ys, Tensor) else ys)
        with self._alone():
            closure = self._tape.backward_closure(outputs)
            closure(gradients_of_outputs(outputs, dys))

    def backward_closure(self, ys: Tensor | Sequence[Tensor]) -> Callable[[Sequence[Tensor]], None]:
        """A function from gradients of `ys` to callbacks, to be called once. Recording ends now, not when it is called.

        What was recorded is kept until then, or until the `with` is left.
        """
        closure = self._tape.backward_closure(as_tensors([ys] if isinstance(ys, Tensor) else ys))

        def go_back(dys: Sequence[Tensor]) -> None:
            with self._alone():
                closure(as_tensors(dys))

        return go_back

    def is_attached_to(self, tensor: Tensor) -> bool:
        """Whether a gradient flows through this tensor: it is attached, or computed from what is."""
        return self._tape.slot_of(tensor) is not None

    def suppress(self) -> None:
        """Record nothing until `resume` was called as often."""
        self._tape.suppress()

    def resume(self) -> None:
        """Take back one `suppress`."""
        self._tape.resume()

    def _alone(self) -> suppressing:
        others = [grad for weak in self._group if (grad := weak()) is not None and grad is not self]
        return suppressing([grad._tape for grad in others])


class _Adder:
    """Adds a gradient to `x.grad`, if somebody still has x."""

    def __init__(self, tensor: ReferenceType[Tensor]) -> None:
        self._tensor = tensor

    def __call__(self, grad: Tensor) -> None:
        tensor = self._tensor()
        if tensor is not None:
            add_to_grad(tensor, grad)


def add_to_grad(tensor: Tensor, grad: Tensor) -> None:
    """Let `tensor.grad` be the sum of what it was and `grad`."""
    tensor.grad = grad if tensor.grad is None else tensor.grad + grad


def _told(callback: Callable[[Tensor], object]) -> Callable[[Tensor], None]:
    def tell(grad: Tensor) -> None:
        callback(grad)

    return tell


def gradients_of_outputs(ys: Sequence[Tensor], dys: Tensor | Sequence[Tensor] | None) -> list[Tensor]:
    """One gradient for each output; ones by default. Raises: InputError for another number of them."""
    if dys is None:
        return [ones_like(y) for y in ys]
    given = as_tensors([dys] if isinstance(dys, Tensor) else dys)
    if len(given) != len(ys):
        raise InputError(f"{len(ys)} outputs need as many gradients, not {len(given)}")
    return given
