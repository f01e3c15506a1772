"""Fourier transforms."""

from functools import partial

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.decompose import through_call
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient
from onnxgrad.grad.sampling import size

_INT64 = ir.DataType.INT64

no_gradient("HannWindow", "HammingWindow", "BlackmanWindow", reason="a window is made from a whole number")
no_gradient("MelWeightMatrix", reason="a matrix is made from numbers of bins and edges that are rounded to bins")


@gradient("DFT", note="of the input")
def dft(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = F x:  dx = F^H dy, a transform in the other direction, without its division by the length"""
    x = node.inputs[0]
    assert x is not None and x.shape is not None
    axis = _axis(op, node, x)
    inverse, onesided = node.attributes.get_int("inverse", 0), node.attributes.get_int("onesided", 0)
    if inverse and onesided:
        if not isinstance(axis, int):
            raise GradientError(
                "the gradient of a real inverse DFT needs its axis to be a constant",
                where=describe(node),
                fix="fold constants first",
            )
        return (_real_inverse(op, node, x, dy, axis),)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    length = _length(op, x, axis) if given is None else _number(op, given)
    grad = _resized(op, dy, axis, length) if onesided else dy
    grad = _transform(op, grad, axis, inverse=not inverse)
    whole = op.Cast(length, to=dy.dtype)
    grad = op.Div(grad, whole) if inverse else op.Mul(grad, whole)
    grad = grad if given is None else _resized(op, grad, axis, _length(op, x, axis))
    if x.shape[-1] == 1:
        grad = op.Slice(grad, [0], [1], [-1])
    elif not isinstance(x.shape[-1], int):
        grad = op.Slice(grad, [0], op.Shape(x, start=-1), [-1])
    return (grad,)


def _axis(op: Builder, node: ir.Node, x: ir.Value) -> int | ir.Value:
    """The axis of the transform: an attribute before opset 20, an input since, which may be known at run time only."""
    if op.opset < 20:
        return node.attributes.get_int("axis", 1) % rank(x)
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return rank(x) - 2
    tensor = ir.convenience.get_const_tensor(value)
    return _number(op, value) if tensor is None else int(tensor.numpy().item()) % rank(x)


def _length(op: Builder, x: ir.Value, axis: int | ir.Value) -> ir.Value:
    return size(op, x, axis) if isinstance(axis, int) else op.Gather(op.Shape(x), axis, axis=0)


def _transform(op: Builder, x: ir.Value, axis: int | ir.Value, *, inverse: bool, onesided: bool = False) -> ir.Value:
    options = {"inverse": int(inverse), "onesided": int(onesided)}
    if op.opset < 20:
        return op.DFT(x, axis=axis, **options)
    return op.DFT(x, None, axis, **options)


def _number(op: Builder, value: ir.Value) -> ir.Value:
    """An int64 scalar from a tensor of one integer."""
    value = value if value.dtype == _INT64 else op.Cast(value, to=_INT64)
    return value if value.shape is not None and len(value.shape) == 0 else op.Reshape(value, [])


def _resized(op: Builder, x: ir.Value, axis: int | ir.Value, length: ir.Value) -> ir.Value:
    """x cut, or padded with zeros, at the end of `axis`."""
    wanted = op.Unsqueeze(length, [0])
    axes = [axis] if isinstance(axis, int) else op.Unsqueeze(axis, [0])
    cut = op.Slice(x, [0], wanted, axes)
    missing = op.Sub(wanted, op.Unsqueeze(_length(op, cut, axis), [0]))
    return op.Pad(cut, op.Concat([0], missing, axis=0), None, axes)


def _real_inverse(op: Builder, node: ir.Node, x: ir.Value, dy: ir.Value, axis: int) -> ir.Value:
    """For real y of length L from the first L / 2 + 1 frequencies: each that has a conjugate twin counts twice."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    bins = size(op, x, axis)
    length = op.Mul(op.Sub(bins, 1), 2) if given is None else _number(op, given)
    spectrum = _transform(op, dy, axis, inverse=False, onesided=True)
    at = op.Range(0, op.Squeeze(op.Shape(spectrum, start=axis, end=axis + 1), [0]), 1)
    alone = op.Or(op.Equal(at, 0), op.Equal(op.Mul(at, 2), length))
    one = op.constant_like(dy, 1)
    weight = op.Div(op.Where(alone, one, op.constant_like(dy, 2)), op.Cast(length, to=dy.dtype))
    grad = op.Mul(spectrum, op.Reshape(weight, [-1, *[1] * (rank(x) - 1 - axis)]))
    return _resized(op, grad, axis, bins)


@gradient("STFT", note="of signal and window")
def stft(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y[n, frame] = DFT(signal[n, part of the frame] * window)"""
    return through_call(
        op, "STFTGrad", node, [dy], partial(_stft, onesided=bool(node.attributes.get_int("onesided", 1)))
    )


def _stft(
    op: Builder,
    signal: ir.Value,
    step: ir.Value,
    window: ir.Value | None = None,
    frame: ir.Value | None = None,
    *,
    onesided: bool,
) -> ir.Value:
    assert signal.shape is not None
    if rank(signal) == 2:
        signal = op.Unsqueeze(signal, [2])
    step = _number(op, step)
    if frame is not None:
        length = _number(op, frame)
    else:
        length = size(op, window, 0) if window is not None else size(op, signal, 1)
    count = op.Add(op.Div(op.Sub(size(op, signal, 1), length), step), 1)
    starts = op.Unsqueeze(op.Mul(op.Range(0, count, 1), step), [1])
    frames = op.Gather(signal, op.Add(starts, op.Range(0, length, 1)), axis=1)
    if window is not None:
        frames = op.Mul(frames, op.Unsqueeze(window, [1]))
    return _transform(op, frames, 2, inverse=False, onesided=onesided)
