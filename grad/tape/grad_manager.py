"""GradManager: the gradients of a training loop, added up in `x.grad`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self
from weakref import ReferenceType, ref

from onnxgrad.engine.errors import GradientError, TapeError
from onnxgrad.grad.tape.grad import Grad, add_to_grad
from onnxgrad.grad.tape.tensor import Tensor, as_tensors

GradCallback = Callable[[Tensor, Tensor], "Tensor | Future[Tensor]"]
"""(tensor, gradient) -> the gradient to go on with, or a Future of it."""


class GradManager:
    """Computes gradients with respect to attached tensors and adds them to `x.grad`.

        gm = og.GradManager().attach(model_parameters)
        with gm:
            loss = f(parameters, batch)
            gm.backward(loss)

    Tensors stay attached from one `with` to the next, as long as the program has them. `gm1 | gm2` records for both;
    while one goes back the other records nothing, whereas one inside of the other gives higher derivatives.
    """

    def __init__(self) -> None:
        self._attached: dict[int, _Attached] = {}
        self._after: list[Callable[[], object]] = []
        self._grad: Grad | None = None
        self._found: list[tuple[_Attached, Tensor | Future[Tensor]]] = []

    def attach(
        self,
        tensors: Tensor | Iterable[Tensor],
        callbacks: GradCallback | Iterable[GradCallback] | None = None,
    ) -> Self:
        """Compute gradients with respect to these tensors, also in what is being recorded from here on.

        callbacks: called in turn with the tensor and its gradient; what one returns goes to the next and in the end
        to `x.grad`. Attaching again adds callbacks.

        Raises: TypeError for what is no tensor, GradientError for integers.
        """
        added = [callbacks] if callable(callbacks) else list(callbacks or ())
        for tensor in as_tensors([tensors] if isinstance(tensors, Tensor) else list(tensors)):
            kind = tensor.element_type
            if kind is None or not kind.is_floating_point():
                raise GradientError("only tensors of floats have gradients", where=repr(tensor))
            known = self._attached.get(id(tensor))
            if known is None or known.tensor() is not tensor:
                known = self._attached[id(tensor)] = _Attached(ref(tensor))
                if self._grad is not None:
                    self._watch(self._grad, known)
            known.callbacks.extend(added)
        return self

    def attached_tensors(self) -> list[Tensor]:
        """The tensors that are attached and still alive."""
        return [tensor for known in self._attached.values() if (tensor := known.tensor()) is not None]

    def after_backward(self, callback: Callable[[], object]) -> None:
        """Call this each time when all gradients are there, before they are added to `x.grad`."""
        self._after.append(callback)

    def record(self) -> Self:
        """Start to record. Raises: TapeError if it does already."""
        if self._grad is not None:
            raise TapeError("already recording", fix="release() first, or use a second GradManager")
        self._grad = Grad()
        self._grad.__enter__()
        self._attached = {key: known for key, known in self._attached.items() if known.tensor() is not None}
        for known in self._attached.values():
            self._watch(self._grad, known)
        return self

    def _watch(self, grad: Grad, known: _Attached) -> None:
        tensor = known.tensor()
        if tensor is not None:
            found = self._found
            grad.wrt(tensor, callback=lambda value: found.append((known, known.chain(value))))

    def backward(self, y: Tensor | Sequence[Tensor] | None = None, dy: Tensor | Sequence[Tensor] | None = None) -> None:
        """Add the gradients of sum(dy * y) to `x.grad` of the attached tensors. Recording ends, also by an error.

        dy is ones by default; without y there are no gradients. Raises: TapeError where nothing is recorded.
        """
        grad = self._grad
        if grad is None:
            raise TapeError("no computation history", fix="call backward inside of `with gm:`, once")
        ys = [] if y is None else [y] if isinstance(y, Tensor) else list(y)
        try:
            grad(ys, dy if y is not None else None)
            for callback in self._after:
                callback()
            for known, found in self._found:
                tensor = known.tensor()
                if tensor is not None:
                    add_to_grad(tensor, found.result() if isinstance(found, Future) else found)
        finally:
            self.release()

    def release(self) -> None:
        """Stop recording and forget what was recorded. Does nothing the second time."""
        grad, self._grad = self._grad, None
        self._found.clear()
        if grad is not None:
            grad.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self.record()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __or__(self, other: GradManager | GradManagerGroup) -> GradManagerGroup:
        return GradManagerGroup([self]) | other


class GradManagerGroup:
    """Several GradManagers that record side by side: `with gm1 | gm2:`."""

    def __init__(self, managers: Sequence[GradManager]) -> None:
        self._managers = list(managers)

    def __or__(self, other: GradManager | GradManagerGroup) -> GradManagerGroup:
        more = [other] if isinstance(other, GradManager) else other._managers
        return GradManagerGroup([*self._managers, *more])

    def __enter__(self) -> Self:
        Grad.begin_group()
        try:
            for manager in self._managers:
                manager.record()
        except TapeError:
            self.__exit__(None, None, None)
            raise
        finally:
            Grad.end_group()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for manager in self._managers:
            manager.release()


class _Attached:
    """An attached tensor and its callbacks."""

    def __init__(self, tensor: ReferenceType[Tensor]) -> None:
        self.tensor = tensor
        self.callbacks: list[GradCallback] = []

    def chain(self, grad: Tensor) -> Tensor | Future[Tensor]:
        """What the callbacks make of a gradient, each from what the one before returned."""
        found: Tensor | Future[Tensor] = grad
        tensor = self.tensor()
        for callback in self.callbacks if tensor is not None else ():
            assert tensor is not None
            found = callback(tensor, found.result() if isinstance(found, Future) else found)
        return found
