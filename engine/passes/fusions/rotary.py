"""Rotary position embeddings that exporters write out -> RotaryEmbedding of the standard."""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.queries import Array, constant_value, dim, dims, int_values, producer, rank, same_dim
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


def _halves_of(value: ir.Value, x: ir.Value) -> Array | None:
    """The first half [1, S, D / 2] of a constant [1, 1, S, D] that repeats it, for x[1, H, S, D]; else None."""
    array, own = constant_value(value), dims(x)
    if array is None or own is None or array.ndim > 4 or array.ndim < 2 or own[0] != 1:
        return None
    whole = array.reshape(*[1] * (4 - array.ndim), *array.shape)
    size = dim(x, 3)
    if size is None or size % 2 or whole.shape != (1, 1, own[2], size):
        return None
    first, second = np.split(whole[0], 2, axis=-1)
    return first if np.array_equal(first, second) else None


def _angles_of(value: ir.Value, op_type: str, x: ir.Value) -> ir.Value | None:
    """The angles f[N, S, D / 2] in Unsqueeze(Cos(Concat(f, f)), 1), for x[N, H, S, D]; else None."""
    unsqueezed = producer(value, "Unsqueeze")
    axes = int_values(unsqueezed.inputs[1]) if unsqueezed is not None and len(unsqueezed.inputs) > 1 else None
    of_angles = producer(unsqueezed.inputs[0], op_type) if unsqueezed is not None else None
    joined = producer(of_angles.inputs[0], "Concat") if of_angles is not None else None
    if axes not in ((1,), (-3,)) or joined is None or len(joined.inputs) != 2:
        return None
    first, second = joined.inputs
    own, angles = dims(x), None if first is None else dims(first)
    axis = joined.attributes["axis"]
    if first is not second or own is None or angles is None or len(angles) != 3 or axis.is_ref():
        return None
    size = dim(x, 3)
    fits = same_dim(own[0], angles[0]) and same_dim(own[2], angles[1]) and size is not None and angles[2] == size // 2
    return first if fits and axis.as_int() in (2, -1) else None


def _has_cache(value: ir.Value, op_type: str, x: ir.Value) -> bool:
    return _halves_of(value, x) is not None or _angles_of(value, op_type, x) is not None


def _cache(op: Builder, value: ir.Value, op_type: str, x: ir.Value) -> ir.Value:
    """The cosines or sines [N, S, D / 2] that RotaryEmbedding takes."""
    halves = _halves_of(value, x)
    if halves is not None:
        return op.constant(np.ascontiguousarray(halves))
    angles = _angles_of(value, op_type, x)
    assert angles is not None
    (cache,) = op.node(op_type, angles)
    return cache


class RotationToRotaryEmbedding(Rewrite):
    """x * cos + Concat(-x[..., D/2:], x[..., :D/2]) * sin -> RotaryEmbedding(x), for x[N, H, S, D]."""

    since = 23

    def pattern(
        self, op: Ops, x: Leaf, cos: Leaf, sin: Leaf, low: Leaf, end: Leaf, axes: Leaf, start: Leaf, middle: Leaf,
        axes2: Leaf, steps: Leaf, steps2: Leaf, parts: Leaf, axis: Leaf, split_axis: Leaf, kept: Leaf,
    ) -> Pattern:  # fmt: skip
        first, second = op.node("Split", x, op.optional(parts), outputs=2, axis=split_axis, attributes=kept)
        of_split = op.Concat(op.Neg(second), first.named("first"), axis=axis)
        upper = op.Slice(x, middle, end, axes, op.optional(steps))
        lower = op.Slice(x, start, low, axes2, op.optional(steps2))
        of_slices = op.Concat(op.Neg(upper.named("upper")), lower.named("lower"), axis=axis)
        return op.Add(op.Mul(x, cos), op.Mul(op.either(of_slices, of_split), sin))

    def check(
        self, x: ir.Value, cos: ir.Value, sin: ir.Value, axis: int, upper: ir.Value | None, lower: ir.Value | None,
        first: ir.Value | None, split_axis: int | None,
    ) -> Match:  # fmt: skip
        size = dim(x, 3)
        if rank(x) != 4 or not size or size % 2 or x.dtype not in _FLOATS or axis not in (3, -1):
            return Match.no("x is not [N, H, S, D] with an even D, or not its last axis is rotated")
        if upper is not None and lower is not None:
            halved = _cuts(upper, size // 2, size) and _cuts(lower, 0, size // 2)
        else:
            halved = first is not None and split_axis in (3, -1) and dim(first, 3) == size // 2
        return Match.all(halved, _has_cache(cos, "Cos", x), _has_cache(sin, "Sin", x))

    def rewrite(self, op: Builder, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
        return op.RotaryEmbedding(x, _cache(op, cos, "Cos", x), _cache(op, sin, "Sin", x))


def _cuts(value: ir.Value, begin: int, end: int) -> bool:
    """Whether a Slice takes begin:end of the last axis of four."""
    node = value.producer()
    if node is None or node.inputs[0] is None:
        return False
    size = dim(node.inputs[0], 3)
    found = [int_values(operand) for operand in node.inputs[1:4]]
    steps = int_values(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else (1,)
    if size is None or steps != (1,) or any(numbers is None or len(numbers) != 1 for numbers in found):
        return False
    starts, ends, axes = (numbers[0] for numbers in found if numbers is not None)
    return axes in (3, -1) and slice(starts, ends).indices(size) == (begin, end, 1)


RULES: tuple[Rewrite, ...] = (RotationToRotaryEmbedding(),)
