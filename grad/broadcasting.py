"""Undoing a broadcast: a gradient summed back to the shape of its operand."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder


def sum_to(op: Builder, grad: ir.Value, operand: ir.Value) -> ir.Value:
    """`grad` summed over the axes along which `operand` was broadcast; run-time axes where dimensions are not known."""
    if grad.shape is None or operand.shape is None:
        return _sum_at_run_time(op, grad, operand)
    lead = len(grad.shape) - len(operand.shape)
    axes = list(range(lead))
    for axis, (got, want) in enumerate(zip(list(grad.shape)[lead:], operand.shape, strict=True), lead):
        if got == want and str(got) != "None":
            continue
        if want == 1:
            axes.append(axis)
        elif not isinstance(want, int) and got != 1:
            return _sum_at_run_time(op, grad, operand)
    if not axes:
        return grad
    if len(axes) == lead:
        return op.ReduceSum(grad, axes, keepdims=0)
    grad = op.ReduceSum(grad, axes, keepdims=1)
    return op.Squeeze(grad, list(range(lead))) if lead else grad


def _sum_at_run_time(op: Builder, grad: ir.Value, operand: ir.Value) -> ir.Value:
    (result,) = op.call("SumToShape", _sum_to_shape, grad, op.shape_of(operand))
    result.shape = operand.shape
    return result


def _sum_to_shape(op: Builder, grad: ir.Value, shape: ir.Value) -> ir.Value:
    """y = grad summed over the axes where `shape` (int64[k], right-aligned) is missing or 1."""
    got = op.Shape(grad)
    lead = op.Sub(op.Shape(got), op.Shape(shape))
    padded = op.Concat(op.Expand([1], lead), shape, axis=0)
    axes = op.Squeeze(op.NonZero(op.Not(op.Equal(got, padded))), [0])
    summed = op.ReduceSum(grad, axes, keepdims=1, noop_with_empty_axes=1)
    return op.Reshape(summed, shape, allowzero=1)
