"""What must hold of gradients and is known only at run time: nodes that fail, where shapes are not static."""

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.ir.builder import Builder, describe_value
from onnxgrad.engine.ir.checks import named_check

_WRONG = -2  # a size that no Reshape takes
_SCALAR = "grad target var must be scalar"


def refuse_several(target: ir.Value) -> None:
    """Raises: GraphError where it is known that the target has not one element."""
    if target.shape is not None and any(isinstance(size, int) and size != 1 for size in target.shape):
        fix = "reduce it (loss.sum()), or give a seed of its shape"
        raise GraphError(_SCALAR, where=describe_value(target), fix=fix)


def one_like(op: Builder, target: ir.Value) -> ir.Value:
    """1 in the shape of `target`, which must have one element: checked at run time where that is not known.

    Raises: GraphError for more elements, or none.
    """
    refuse_several(target)
    sizes = None if target.shape is None else list(target.shape)
    one = op.constant_like(target, 1)
    if not sizes and sizes is not None:
        return one
    if sizes is not None and all(isinstance(size, int) for size in sizes):
        return op.constant(one.const_value.numpy().reshape([1] * len(sizes)))  # type: ignore[union-attr]
    checked = op.Reshape(one, op.Shape(target))
    checked.shape = target.shape
    named_check(checked, f"{_SCALAR}: {describe_value(target)}")
    return checked


def with_shape_of(op: Builder, grad: ir.Value, like: ir.Value, what: str) -> ir.Value:
    """`grad`, which must have the shape of `like`: checked here, or at run time where it is not known.

    Raises: GraphError for another shape.
    """
    message = f"grad should have same shape as original var: {what} of {describe_value(like)}"
    if grad.shape is not None and like.shape is not None:
        pairs = list(zip(grad.shape, like.shape, strict=False))
        known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
        if len(grad.shape) != len(like.shape) or any(a != b for a, b in known):
            raise GraphError(message, where=describe_value(grad))
        if all(_same(a, b) for a, b in pairs):
            return grad
    message += f", not {describe_value(grad)}"
    shape, wanted = op.Shape(grad), op.Shape(like)
    equal = op.Equal(shape, wanted)
    named_check(equal, message)  # fails by itself where the ranks differ, most times
    as_wanted = op.Where(equal, shape, _WRONG)
    if grad.shape is None or like.shape is None:  # one size more where the ranks differ
        differs = op.Cast(op.Not(op.Equal(op.Size(shape), op.Size(wanted))), to=int(ir.DataType.INT64))
        as_wanted = op.Concat(as_wanted, op.Expand(_WRONG, op.Reshape(differs, [1])), axis=0)
    checked = op.Reshape(grad, as_wanted)
    checked.shape = like.shape
    named_check(checked, message)
    return checked


def _same(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    return a == b and (isinstance(a, int) or a.value is not None)
