"""Functions with a gradient of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnxgrad.engine.errors import GradientError, InputError, TapeError
from onnxgrad.grad.tape.no_grad import no_grad
from onnxgrad.grad.tape.operators import CustomBackward
from onnxgrad.grad.tape.tape import Grads, tapes
from onnxgrad.grad.tape.tensor import Tensor, as_tensors

Result = Tensor | Sequence[Tensor]


class Function:
    """A function of tensors whose gradient the program gives: write `forward` and `backward`.

        class Square(og.Function):
            def forward(self, x):
                self.x = x
                return x * x
            def backward(self, dy):
                return 2 * self.x * dy

        y = Square()(x)

    What `forward` does is not recorded. An object is called once; what it keeps between the two is its attributes.
    `backward` is recorded by an outer Grad: it is differentiated as it is written.
    """

    forward: Callable[..., Result]
    """The outputs, a tensor or several, of any number of tensors."""
    backward: Callable[..., Tensor | Sequence[Tensor | None] | None]
    """A gradient for each input of `forward`, None where there is none, from the gradient of each output: None for an
    output that the result does not depend on."""
    _used = False

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Run `forward`. Raises: TypeError for an input that is no tensor; TapeError for the second call."""
        given = as_tensors(inputs)
        if self._used:
            raise TapeError(f"{type(self).__name__} is called twice", fix="make an object for each call")
        self._used = True
        with no_grad():
            found = self.forward(*given)
        single = isinstance(found, Tensor)
        outputs = as_tensors([found] if isinstance(found, Tensor) else list(found))
        name = type(self).__name__
        if not outputs:
            raise InputError(f"{name}.forward returns no tensor", fix="return at least one")
        rule = CustomBackward(
            lambda dys: self._checked(self.backward(*dys), len(given)), (True,) * len(given), (True,) * len(outputs)
        )
        outputs = [_renewed(output) if any(output is value for value in given) else output for output in outputs]
        tracking = [tape for tape in tapes() if any(tape.slot_of(value) is not None for value in given)]
        for tape in tracking[:-1]:  # they also see what `forward` kept of its outputs, for the gradient of `backward`
            tape.set_grad(name, rule, given, outputs)
        if tracking:  # but the innermost one must not, or the object would keep what keeps the object
            outputs = [_renewed(output) for output in outputs]
            tracking[-1].set_grad(name, rule, given, outputs)
        return outputs[0] if single else tuple(outputs)

    def _checked(self, grads: Tensor | Sequence[Tensor | None] | None, count: int) -> Grads:
        found: Grads = [grads] if grads is None or isinstance(grads, Tensor) else list(grads)
        if len(found) != count:
            raise GradientError(
                f"{type(self).__name__}.backward returns {len(found)} gradients for {count} inputs",
                fix="return one for each input of forward, None where there is none",
            )
        return found


def _renewed(tensor: Tensor) -> Tensor:
    result = Tensor._of(tensor._payload, tensor.device)
    result._slots = None if tensor._slots is None else dict(tensor._slots)
    return result
