"""Normalizations that exporters write out, as the operators that they are: the core first, then its scale and bias.

GroupNormalization is not made: onnxruntime takes it apart, and is slower than with what torch writes (measured).
"""

import math

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Emit
from onnxgrad.engine.passes.queries import (
    all_equal,
    constant_value,
    dim,
    producer,
    rank,
    reduction,
    scalar_value,
    static_shape,
)
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

# The normalizations of the standard compute in float32, so that those of float64 would lose precision.
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
_SMALL = 64  # elements: larger ones stay ConstantOfShape

Attributes = dict[str, int | float]


def _square(op: Ops, x: Pattern) -> Pattern:
    return op.either(op.Pow(x, 2.0), op.Mul(x, x))


def _over_deviation(op: Ops, x: Pattern, variance: Pattern, eps: Leaf) -> tuple[Pattern, ...]:
    """x / Sqrt(variance + eps), as it is written."""
    shifted = op.Add(variance, op.constant(eps))
    deviation = op.Sqrt(shifted)
    inverse = op.either(op.Reciprocal(deviation), op.Div(1.0, deviation), op.Pow(shifted, -0.5))
    return op.Div(x, deviation).named("y"), op.Mul(x, inverse).named("y")


def _centred(op: Ops, x: Leaf, axes: Leaf) -> Output:
    return op.Sub(x, op.ReduceMean(x, op.optional(axes), attributes=ANY).named("mean"))


def _mean_square(op: Ops, x: Pattern, axes: Leaf) -> Output:
    return op.ReduceMean(_square(op, x), op.optional(axes), attributes=ANY).named("variance")


def _normal_axes(x: ir.Value, y: ir.Value, eps: ir.Value, *reduced: ir.Value) -> tuple[int, ...]:
    """The axes that all of these reduce, kept and in the end; nothing where this is no normalization."""
    found = {reduction(value) for value in reduced}
    size, epsilon = rank(x), scalar_value(eps)
    only = found.pop() if len(found) == 1 else None
    if x.dtype not in _FLOATS or size is None or only is None or epsilon is None:
        return ()
    axes, kept = only
    is_usual = kept and math.isfinite(epsilon) and epsilon >= 0 and (rank(eps) or 0) <= size
    return axes if is_usual and axes == tuple(range(size - len(axes), size)) else ()


def _sizes(x: ir.Value, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The sizes of the axes, where all are numbers."""
    found = [dim(x, axis) for axis in axes]
    sizes = tuple(size for size in found if size)
    return sizes if sizes and len(sizes) == len(found) else None


def _is_over_planes(x: ir.Value, axes: tuple[int, ...]) -> bool:
    """Whether the axes are those that InstanceNormalization takes, and more than one."""
    return len(axes) > 1 and axes == tuple(range(2, rank(x) or 0))


def _filled(op: Builder, x: ir.Value, sizes: tuple[int, ...], number: float) -> ir.Value:
    """A constant of this number with the dtype of `x`."""
    assert x.dtype is not None
    if math.prod(sizes) <= _SMALL:
        return op.constant(np.full(sizes, number, x.dtype.numpy()))
    return op.ConstantOfShape(op.constant(list(sizes)), value=ir.tensor(np.full([1], number, x.dtype.numpy())))


def _holds(x: ir.Value | None, number: float) -> bool:
    """Whether `x` is a constant of this number, or a ConstantOfShape."""
    node = producer(x, "ConstantOfShape")
    if node is None or "value" not in node.attributes:
        return all_equal(x, number)
    attribute = node.attributes["value"]
    return not attribute.is_ref() and bool(attribute.as_tensor().numpy().reshape(-1)[0] == number)


def _weight(value: ir.Value, sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """`sizes`, if `value` has these dimensions, or is a constant that has them after some of 1; else None."""
    shape = static_shape(value)
    if shape is None or sizes is None:
        return None
    extra = len(shape) - len(sizes)
    if extra < 0 or shape[extra:] != sizes or any(size != 1 for size in shape[:extra]):
        return None
    return sizes if extra == 0 or constant_value(value) is not None else None


def _reshaped(op: Builder, value: ir.Value, sizes: tuple[int, ...]) -> ir.Value:
    """A constant in another shape; `value` itself where it has that shape."""
    if static_shape(value) == sizes:
        return value
    array = constant_value(value)
    assert array is not None
    return op.constant(array.reshape(sizes))


class DecomposedToInstanceNormalization(Rewrite):
    """(x - mean) / Sqrt(variance + eps) over the spatial axes of x[N, C, H, W, ...] -> InstanceNormalization."""

    since = 6

    def pattern(self, op: Ops, x: Leaf, eps: Leaf, axes: Leaf, axes2: Leaf) -> Pattern:
        centred = _centred(op, x, axes)
        return op.either(*_over_deviation(op, centred, _mean_square(op, centred, axes2), eps))

    def check(self, x: ir.Value, y: ir.Value, eps: ir.Value, mean: ir.Value, variance: ir.Value) -> Match:
        return Match.all(_is_over_planes(x, _normal_axes(x, y, eps, mean, variance)), bool(dim(x, 1)))

    def rewrite(self, op: Builder, x: ir.Value, eps: ir.Value) -> ir.Value:
        sizes = (dim(x, 1) or 0,)
        scale, bias = _filled(op, x, sizes, 1), _filled(op, x, sizes, 0)
        return op.InstanceNormalization(x, scale, bias, epsilon=scalar_value(eps))


class DecomposedToLayerNormalization(Rewrite):
    """(x - mean) / Sqrt(variance + eps) over the last axes -> LayerNormalization(x)."""

    since = 17

    def pattern(self, op: Ops, x: Leaf, eps: Leaf, axes: Leaf, axes2: Leaf) -> Pattern:
        centred = _centred(op, x, axes)
        return op.either(*_over_deviation(op, centred, _mean_square(op, centred, axes2), eps))

    def check(self, x: ir.Value, y: ir.Value, eps: ir.Value, mean: ir.Value, variance: ir.Value) -> Match:
        axes = _normal_axes(x, y, eps, mean, variance)
        return Match.all(axes != (), not _is_over_planes(x, axes), _sizes(x, axes) is not None)

    def rewrite(self, op: Builder, x: ir.Value, eps: ir.Value, mean: ir.Value, variance: ir.Value) -> ir.Value:
        return _normalize(op, "LayerNormalization", x, eps, mean)


class DecomposedToRMSNormalization(Rewrite):
    """x / Sqrt(mean of x^2 + eps) over the last axes -> RMSNormalization(x)."""

    since = 23

    def pattern(self, op: Ops, x: Leaf, eps: Leaf, axes: Leaf) -> Pattern:
        return op.either(*_over_deviation(op, x, _mean_square(op, x, axes), eps))

    def check(self, x: ir.Value, y: ir.Value, eps: ir.Value, variance: ir.Value) -> Match:
        axes = _normal_axes(x, y, eps, variance)
        return Match.all(axes != (), _sizes(x, axes) is not None)

    def rewrite(self, op: Builder, x: ir.Value, eps: ir.Value, variance: ir.Value) -> ir.Value:
        return _normalize(op, "RMSNormalization", x, eps, variance)


def _normalize(op: Builder, op_type: str, x: ir.Value, eps: ir.Value, reduced: ir.Value) -> ir.Value:
    axes, _ = reduction(reduced) or ((), True)
    ones = _filled(op, x, _sizes(x, axes) or (), 1)
    (y,) = op.node(op_type, x, ones, axis=-len(axes), epsilon=scalar_value(eps))
    return y


class ScaleIntoNormalization(Rewrite):
    """LayerNormalization(x, ones) * scale -> LayerNormalization(x, scale), and RMSNormalization alike."""

    since = 17

    def pattern(self, op: Ops, x: Leaf, ones: Leaf, scale: Leaf, kept: Leaf) -> Pattern:
        normal = op.one_of(("LayerNormalization", "RMSNormalization"), x, ones, attributes=kept)
        return op.Mul(normal.named("normal"), scale)

    def check(self, ones: ir.Value, scale: ir.Value) -> Match:
        return Match.all(_holds(ones, 1), _weight(scale, static_shape(ones)) is not None, scale.dtype == ones.dtype)

    def rewrite(
        self, op: Builder, x: ir.Value, ones: ir.Value, scale: ir.Value, normal: ir.Value, kept: Attributes
    ) -> ir.Value:
        node = normal.producer()
        assert node is not None
        emit: Emit = getattr(op, node.op_type)
        return emit(x, _reshaped(op, scale, static_shape(ones) or ()), **kept)


class BiasIntoLayerNormalization(Rewrite):
    """LayerNormalization(x, scale) + bias -> LayerNormalization(x, scale, bias)."""

    since = 17

    def pattern(self, op: Ops, x: Leaf, scale: Leaf, bias: Leaf, kept: Leaf) -> Pattern:
        return op.Add(op.LayerNormalization(x, scale, attributes=kept), bias)

    def check(self, scale: ir.Value, bias: ir.Value) -> Match:
        return Match.all(_weight(bias, static_shape(scale)) is not None, bias.dtype == scale.dtype)

    def rewrite(self, op: Builder, x: ir.Value, scale: ir.Value, bias: ir.Value, kept: Attributes) -> ir.Value:
        return op.LayerNormalization(x, scale, _reshaped(op, bias, static_shape(scale) or ()), **kept)


def _channels(value: ir.Value, x: ir.Value) -> tuple[int, ...] | None:
    """The shape [C] of a constant with one number for each channel of `x`, such as [C, 1, 1]; else None."""
    size, count, shape = rank(x), dim(x, 1), static_shape(value)
    if size is None or not count or shape is None or constant_value(value) is None or len(shape) > size:
        return None
    return (count,) if shape[-(size - 1) :] == (count, *[1] * (size - 2)) and math.prod(shape) == count else None


class ScaleIntoInstanceNormalization(Rewrite):
    """InstanceNormalization(x, ones, zeros) * scale[C, 1, ...] -> InstanceNormalization(x, scale, zeros)."""

    since = 6

    def pattern(self, op: Ops, x: Leaf, ones: Leaf, zeros: Leaf, scale: Leaf, epsilon: Leaf) -> Pattern:
        return op.Mul(op.InstanceNormalization(x, ones, zeros, epsilon=epsilon), scale)

    def check(self, x: ir.Value, ones: ir.Value, zeros: ir.Value, scale: ir.Value) -> Match:
        return Match.all(_holds(ones, 1), _holds(zeros, 0), _channels(scale, x) is not None)

    def rewrite(self, op: Builder, x: ir.Value, zeros: ir.Value, scale: ir.Value, epsilon: float) -> ir.Value:
        return op.InstanceNormalization(x, _reshaped(op, scale, _channels(scale, x) or ()), zeros, epsilon=epsilon)


class BiasIntoInstanceNormalization(Rewrite):
    """InstanceNormalization(x, scale, zeros) + bias[C, 1, ...] -> InstanceNormalization(x, scale, bias)."""

    since = 6

    def pattern(self, op: Ops, x: Leaf, scale: Leaf, zeros: Leaf, bias: Leaf, epsilon: Leaf) -> Pattern:
        return op.Add(op.InstanceNormalization(x, scale, zeros, epsilon=epsilon), bias)

    def check(self, x: ir.Value, zeros: ir.Value, bias: ir.Value) -> Match:
        return Match.all(_holds(zeros, 0), _channels(bias, x) is not None)

    def rewrite(self, op: Builder, x: ir.Value, scale: ir.Value, bias: ir.Value, epsilon: float) -> ir.Value:
        return op.InstanceNormalization(x, scale, _reshaped(op, bias, _channels(bias, x) or ()), epsilon=epsilon)


RULES: tuple[Rewrite, ...] = (
    DecomposedToInstanceNormalization(),
    DecomposedToLayerNormalization(),
    DecomposedToRMSNormalization(),
    ScaleIntoNormalization(),
    BiasIntoLayerNormalization(),
    ScaleIntoInstanceNormalization(),
    BiasIntoInstanceNormalization(),
)
