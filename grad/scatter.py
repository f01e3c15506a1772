"""Undoing a move of elements: gradients added back to the places that they were taken from."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.engine.ir.scatter import scatter_add

Move = Callable[..., ir.Value]


def move_back(op: Builder, name: str, move: Move, dy: ir.Value, x: ir.Value, *others: ir.Value | None) -> ir.Value:
    """The gradient of x for y = move(x, *others), where `move` only copies, drops and repeats elements, of any dtype.

    `move(op, indices, *others)` is applied to the positions of the elements of x; each element of dy is then added at
    its position. A call of the function `name`.
    """

    def body(op: Builder, dy: ir.Value, shape: ir.Value, *others: ir.Value | None) -> ir.Value:
        count = op.ReduceProd(shape, keepdims=0)
        places = move(op, op.Reshape(op.Range(0, count, 1), shape, allowzero=1), *others)
        zeros = op.Expand(op.constant_like(dy, 0), op.Unsqueeze(count, [0]))
        summed = scatter_add(op, zeros, op.Reshape(places, [-1]), op.Reshape(dy, [-1]))
        return op.Reshape(summed, shape, allowzero=1)

    return shaped_like(op.call(name, body, dy, op.shape_of(x), *others)[0], x)


def put_back(op: Builder, name: str, dy: ir.Value, x: ir.Value, indices: ir.Value, axis: int) -> ir.Value:
    """The gradient of x for y = Gather(x, indices, axis): slices of dy added at their indices."""
    size = rank(x)
    axis %= size

    def body(op: Builder, dy: ir.Value, shape: ir.Value, indices: ir.Value) -> ir.Value:
        if indices.dtype != ir.DataType.INT64:
            indices = op.Cast(indices, to=ir.DataType.INT64)
        count = op.Shape(op.Reshape(indices, [-1]))
        parts = [op.Slice(shape, [0], [axis])] if axis else []
        parts += [count, *([op.Slice(shape, [axis + 1], [size])] if axis + 1 < size else [])]
        block = op.Concat(*parts, axis=0) if len(parts) > 1 else count
        column = op.Reshape(indices, [*[1] * axis, -1, *[1] * (size - 1 - axis)])
        rows = op.Reshape(dy, block, allowzero=1)  # ScatterND would be quicker, and lose some: see engine/ir/scatter.py
        return scatter_add(op, _zeros(op, dy, shape), op.Expand(column, block), rows, axis)

    return shaped_like(op.call(name, body, dy, op.shape_of(x), indices)[0], x)


def inverse(perm: Sequence[int]) -> list[int]:
    """The permutation that undoes `perm`."""
    return sorted(range(len(perm)), key=lambda axis: perm[axis])


def shaped_like(grad: ir.Value, x: ir.Value) -> ir.Value:
    """`grad` itself, known to have the shape of `x`."""
    grad.shape = x.shape
    return grad


def _zeros(op: Builder, like: ir.Value, shape: ir.Value) -> ir.Value:
    return op.Expand(op.constant_like(like, 0), shape)
