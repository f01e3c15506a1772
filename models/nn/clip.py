"""Gradients that are not to be too large."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.grad.tape.no_grad import no_grad
from onnxgrad.grad.tape.tensor import Tensor
from onnxgrad.models.nn.operators import one


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients of parameters so that the norm of all together is at most `max_norm`; returns the one before.

    To be called between `backward` and `step`. Parameters without a gradient do not count. The norm is computed in
    float32, or in float64 where a gradient is.

    Raises: OptionError for a norm that is not positive, InputError where no parameter has a gradient.
    """
    if not max_norm > 0:
        raise OptionError(f"a norm of at most {max_norm} is not possible", fix="a positive number")
    found = [(parameter, grad) for parameter in parameters if (grad := parameter.grad) is not None]
    if not found:
        raise InputError("no parameter has a gradient", fix="backward, then clip_gradients, then step")
    with no_grad():
        kind = "float64" if any(grad.dtype == "float64" for _, grad in found) else "float32"
        squares = [one(grad, "ReduceSumSquare", grad.astype(kind), keepdims=0) for _, grad in found]
        norm = one(squares[0], "Sqrt", one(squares[0], "Sum", *squares))
        scale = one(norm, "Min", max_norm / norm, 1.0)
        for parameter, grad in found:
            parameter.grad = grad * one(scale, "CastLike", scale, grad)
    return norm
