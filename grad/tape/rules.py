"""Gradients written for tensors, of operators for which a graph would be more than it takes.

Each keeps shapes, not tensors, and gives None for a gradient that is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxgrad.engine.graph.operand import Call, Operand, apply
from onnxgrad.grad.tape.operators import CustomBackward, register_grad_rule, shape_of
from onnxgrad.grad.tape.tape import Grads
from onnxgrad.grad.tape.tensor import Tensor

_Shape = np.ndarray | Operand


def _add(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y = a + b of one shape:  da = db = dy"""
    a, b = call.inputs
    if a is None or b is None or a.shape != b.shape:
        return None
    return CustomBackward(lambda dys: (dys[0], dys[0])[: sum(requires)], requires, (True,))


def _sub(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y = a - b of one shape:  da = dy, db = -dy"""
    a, b = call.inputs
    if a is None or b is None or a.shape != b.shape:
        return None

    def backward(dys: Grads) -> Grads:
        (dy,) = dys
        both = (dy, _run("Neg", dy) if requires[1] and dy is not None else None)
        return [grad for grad, wanted in zip(both, requires, strict=True) if wanted]

    return CustomBackward(backward, requires, (True,))


def _reshaped(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y has the elements of x in their order:  dx = dy in the shape of x"""
    x = call.inputs[0]
    assert x is not None
    shape = shape_of(x)
    return _of_first(call, lambda dy: _run("Reshape", dy, shape, allowzero=1))


def _transpose(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y = x with axes in the order perm:  dx = dy in the inverse order"""
    perm = call.attributes.get("perm")
    order = None if perm is None else [int(axis) for axis in np.argsort(np.asarray(perm))]
    return _of_first(call, lambda dy: _run("Transpose", dy, **({} if order is None else {"perm": order})))


def _cast(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y = x in another type of floats:  dx = dy in that of x"""
    x = call.inputs[0]
    assert isinstance(x, Operand)
    source, target = x.element_type, outputs[0].element_type
    if source is None or target is None or not target.is_floating_point():
        return None
    return _of_first(call, lambda dy: _run("Cast", dy, to=int(source)))


def _reduce_sum(call: Call, outputs: Sequence[Tensor], requires: Sequence[bool]) -> CustomBackward | None:
    """y = sum of x over axes that are given, or over all:  dx = dy, repeated along them"""
    x = call.inputs[0]
    axes = call.inputs[1] if len(call.inputs) > 1 else None
    if isinstance(axes, Operand) or call.attributes.get("noop_with_empty_axes") or x is None:
        return None
    shape = shape_of(x)
    if axes is not None and axes.size and not call.attributes.get("keepdims", 1):
        unsqueezed = np.asarray(axes, np.int64)
        return _of_first(call, lambda dy: _run("Expand", _run("Unsqueeze", dy, unsqueezed), shape))
    return _of_first(call, lambda dy: _run("Expand", dy, shape))


def _of_first(call: Call, backward: Callable[[Tensor], Tensor]) -> CustomBackward:
    def run(dys: Grads) -> Grads:
        (dy,) = dys
        return (None if dy is None else backward(dy),)

    return CustomBackward(run, (True,) + (False,) * (len(call.inputs) - 1), (True,))


def _run(op_type: str, *inputs: Tensor | _Shape, **attributes: object) -> Tensor:
    found = apply(op_type, inputs, attributes, outputs=1)[0]
    assert isinstance(found, Tensor)
    return found


for _name, _rule in {
    "Add": _add,
    "Sub": _sub,
    "Transpose": _transpose,
    "Cast": _cast,
    "ReduceSum": _reduce_sum,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshaped),
}.items():
    register_grad_rule(_name, _rule, keeps_tensors=False)
