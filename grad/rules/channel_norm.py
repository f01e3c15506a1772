"""Normalizations of channels: batch, instance and group statistics, LRN, and those without parameters."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import rank
from onnxgrad.grad.counts import inverse_count
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.standardize import Standard, cast, mean, pull_back, wide_type


@gradient("BatchNormalization", since=14)
def batch_normalization(
    op: GradientBuilder,
    node: ir.Node,
    dy: ir.Value | None,
    d_mean: ir.Value | None = None,
    d_var: ir.Value | None = None,
) -> Grads:
    """y = z scale + b, z = (x - mean) / sqrt(var + epsilon), with the given statistics or those of the batch"""
    if node.attributes.get_int("training_mode", 0):
        return _batch_statistics(op, node, dy, d_mean, d_var)
    x, scale, b, center, var = node.inputs
    assert x is not None and b is not None and center is not None and var is not None and dy is not None
    wide = wide_type(*node.inputs)
    inverse = op.Reciprocal(op.Sqrt(op.Add(cast(op, var, wide), node.attributes.get_float("epsilon", 1e-5))))
    factor = op.Mul(cast(op, scale, wide), inverse)  # type: ignore[arg-type]
    dy = cast(op, dy, wide)
    deviation = op.Sub(cast(op, x, wide), _per_channel(op, cast(op, center, wide), x))
    total, product = (_channel_sum(op, value) for value in (dy, op.Mul(dy, deviation)))
    grads = (
        op.Mul(dy, _per_channel(op, factor, x)),
        op.Mul(product, inverse),
        total,
        op.Neg(op.Mul(total, factor)),
        op.Mul(op.Mul(product, op.Mul(inverse, inverse)), op.Mul(factor, -0.5)),
    )
    return [cast(op, grad, value.dtype) for grad, value in zip(grads, node.inputs, strict=True) if value is not None]


def _batch_statistics(
    op: GradientBuilder, node: ir.Node, dy: ir.Value | None, d_mean: ir.Value | None, d_var: ir.Value | None
) -> list[ir.Value | None]:
    """Training mode: statistics of the batch; outputs 1 and 2 are momentum * given + (1 - momentum) * batch."""
    x, scale, b, center, var = node.inputs
    assert x is not None and scale is not None and b is not None and center is not None and var is not None
    wide, keep = wide_type(*node.inputs), node.attributes.get_float("momentum", 0.9)
    whole = cast(op, x, wide)
    axes = [axis for axis in range(rank(x)) if axis != 1]
    parts: list[ir.Value] = []
    d_scale = d_b = None
    if dy is not None:
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        factor = _per_channel(op, cast(op, scale, wide), x)
        dx, *sums = _normalized(op, whole, factor, cast(op, dy, wide), axes, axes, epsilon)
        d_scale, d_b = (cast(op, op.Reshape(v, op.shape_of(scale)), scale.dtype) for v in sums)
        parts.append(dx)
    center_kept = mean(op, whole, axes)
    share = op.Mul(inverse_count(op, whole, center_kept, axes), 1 - keep)
    if d_mean is not None:
        even = op.Mul(_per_channel(op, cast(op, d_mean, wide), x), share)
        parts.append(op.Expand(even, op.shape_of(x)))
    if d_var is not None:
        slope = op.Mul(_per_channel(op, cast(op, d_var, wide), x), op.Mul(share, 2.0))
        parts.append(op.Mul(op.Sub(whole, center_kept), slope))
    total = op.Sum(*parts) if len(parts) > 1 else parts[0]
    d_center, d_given = (None if grad is None else op.Mul(grad, keep) for grad in (d_mean, d_var))
    return [cast(op, total, x.dtype), d_scale, d_b, d_center, d_given]


def _normalized(
    op: GradientBuilder,
    x: ir.Value,
    scale: ir.Value,
    dy: ir.Value,
    axes: list[int],
    inner: list[int],
    epsilon: float,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Gradients of x, scale and b for y = d r scale + b, d = x - mean, r = 1 / sqrt(variance + epsilon).

    Statistics are taken over `axes`. scale and b do not vary along `inner`, which are some of them; their gradients are
    still to be summed over the other axes they lack. dx = dy scale r - d r^3 sum(dy scale d)/n - r sum(dy scale)/n,
    where the sums over `inner` come first and without the scale: they are those that scale and b need.
    """
    deviation = op.Sub(x, mean(op, x, axes))
    variance = mean(op, op.Mul(deviation, deviation), axes)
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    level, tilt = (_sum(op, value, inner) for value in (dy, op.Mul(dy, deviation)))
    rest = [axis for axis in axes if axis not in inner]
    share = op.Mul(inverse, inverse_count(op, x, inverse, axes))
    even = op.Mul(_sum(op, op.Mul(level, scale), rest), share)
    slope = op.Mul(_sum(op, op.Mul(tilt, scale), rest), op.Mul(share, op.Mul(inverse, inverse)))
    dx = op.Sub(op.Sub(op.Mul(dy, op.Mul(scale, inverse)), op.Mul(deviation, slope)), even)
    return dx, op.Mul(tilt, inverse), level


def _sum(op: GradientBuilder, value: ir.Value, axes: list[int]) -> ir.Value:
    """The sum over `axes`, which are kept as 1."""
    return op.ReduceSum(value, axes, keepdims=1) if axes else value


@gradient("InstanceNormalization")
def instance_normalization(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = z scale + b, z = x standardized over the spatial axes of each channel of each sample"""
    x, scale, b = node.inputs
    assert x is not None and scale is not None and b is not None
    wide, axes = wide_type(x), list(range(2, rank(x)))
    factor = _per_channel(op, cast(op, scale, wide), x)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    dx, *sums = _normalized(op, cast(op, x, wide), factor, cast(op, dy, wide), axes, axes, epsilon)
    d_scale, d_b = (cast(op, _channel_sum(op, value), scale.dtype) for value in sums)
    return cast(op, dx, x.dtype), d_scale, d_b


@gradient("GroupNormalization")
def group_normalization(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = z scale + b, z = x standardized over each group of channels; scale and b of groups before opset 21"""
    x, scale, b = node.inputs
    assert x is not None and scale is not None and b is not None
    wide, groups, count = wide_type(x), node.attributes.get_int("num_groups", 1), rank(x)
    split = _grouped_shape(op, x, groups)  # [N, groups, C / groups, ...]
    whole, dy = (op.Reshape(cast(op, value, wide), split, allowzero=1) for value in (x, dy))
    axes = list(range(2, count + 1))
    inner = axes if op.opset < 21 else axes[1:]  # along which scale and b are the same
    factor = op.Reshape(cast(op, scale, wide), [groups, -1, *[1] * (count - 2)])
    dx, *sums = _normalized(op, whole, factor, dy, axes, inner, node.attributes.get_float("epsilon", 1e-5))
    d_scale, d_b = (
        cast(op, op.Reshape(op.ReduceSum(value, [0], keepdims=0), op.shape_of(scale)), scale.dtype) for value in sums
    )
    return cast(op, op.Reshape(dx, op.shape_of(x), allowzero=1), x.dtype), d_scale, d_b


def _grouped_shape(op: GradientBuilder, x: ir.Value, groups: int) -> ir.Value:
    """The shape of x with the channels split in two: [N, groups, C / groups, ...]."""
    if x.shape is not None and x.shape.is_static():
        batch, channels, *space = (int(dim) for dim in x.shape)  # type: ignore[arg-type]
        return op.constant([batch, groups, channels // groups, *space])
    each = op.Div(op.Shape(x, start=1, end=2), [groups])
    return op.Concat(op.Shape(x, start=0, end=1), [groups], each, op.Shape(x, start=2), axis=0)


def _per_channel(op: GradientBuilder, value: ir.Value, x: ir.Value) -> ir.Value:
    """A vector over channels, shaped to broadcast along axis 1 of x."""
    return op.Unsqueeze(value, list(range(1, rank(x) - 1))) if rank(x) > 2 else value


def _channel_sum(op: GradientBuilder, value: ir.Value) -> ir.Value:
    """The sum over all axes but the channels."""
    return op.ReduceSum(value, [axis for axis in range(rank(value)) if axis != 1], keepdims=0)


@gradient("MeanVarianceNormalization")
def mean_variance_normalization(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (x - mean) / (deviation + 1e-9):  dx = (dy - mean(dy) - y mean(dy y)) / (deviation + 1e-9)"""
    (x,) = node.inputs
    assert x is not None
    wide, count = wide_type(x), rank(x)
    axes = [axis % count for axis in node.attributes.get_ints("axes", [0, 2, 3])]
    whole = cast(op, x, wide)
    distance = op.Sub(whole, mean(op, whole, axes))
    variance = op.Add(mean(op, op.Mul(distance, distance), axes), 1e-30)  # the root has no slope at 0
    inverse = op.Reciprocal(op.Add(op.Sqrt(variance), 1e-9))
    dx = pull_back(op, Standard(op.Mul(distance, inverse), inverse, axes), cast(op, dy, wide))
    return (None if dx is None else cast(op, dx, x.dtype),)


@gradient("LpNormalization", note="0 where the norm is 0; p = 1: |x| has slope 0 at 0")
def lp_normalization(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x / ||x||_p:  dx = (dy - s sum(dy y)) / ||x||, s = y for p = 2, sign(x) for p = 1"""
    (x,) = node.inputs
    (y,) = node.outputs
    axis, p = [node.attributes.get_int("axis", -1)], node.attributes.get_int("p", 2)
    norm = op.ReduceL1(x, axis, keepdims=1) if p == 1 else op.ReduceL2(x, axis, keepdims=1)
    norm = op.Where(op.Equal(norm, 0.0), float("inf"), norm)
    direction = op.Sign(x) if p == 1 else y
    total = op.ReduceSum(op.Mul(dy, y), axis, keepdims=1)
    return (op.Div(op.Sub(dy, op.Mul(direction, total)), norm),)


@gradient("LRN")
def lrn(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x d^-beta, d = bias + alpha/size w(x^2), w = sum over a window of channels:

    dx = dy d^-beta - 2 alpha beta / size x w'(dy y / d), where w' is w with its window turned around
    """
    (x,) = node.inputs
    assert x is not None
    size, alpha = node.attributes.get_int("size", 1), node.attributes.get_float("alpha", 1e-4)
    beta, bias = node.attributes.get_float("beta", 0.75), node.attributes.get_float("bias", 1.0)
    before, after = (size - 1) // 2, size // 2
    scale = op.Add(op.Mul(_window_sum(op, op.Mul(x, x), before, after), alpha / size), bias)
    direct = op.Mul(dy, op.Pow(scale, op.constant_like(x, -beta)))
    spread = _window_sum(op, op.Div(op.Mul(direct, x), scale), after, before)
    return (op.Sub(direct, op.Mul(op.Mul(x, spread), 2 * alpha * beta / size)),)


def _window_sum(op: GradientBuilder, x: ir.Value, before: int, after: int) -> ir.Value:
    """y_c = sum of x_k for c - before <= k <= c + after, along axis 1."""
    if before + after == 0:
        return x
    padded = op.Pad(x, [before, after], op.constant_like(x, 0), [1])
    last = before + after
    slices = [op.Slice(padded, [k], [k - last if k < last else 2**62], [1]) for k in range(last + 1)]
    return op.Sum(*slices)
