"""Normalizations over the last axes: LayerNormalization and its kin."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import rank
from onnxgrad.grad.broadcasting import sum_to
from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.standardize import Standard, cast, pull_back, standardize, wide_type

Optional = ir.Value | None


@gradient("LayerNormalization")
def layer_normalization(
    op: GradientBuilder, node: ir.Node, dy: Optional, d_mean: Optional = None, d_inverse: Optional = None
) -> Grads:
    """y = z scale + bias, z = (x - mean) inverse:  dx see `pull_back`, d(scale) = sum(dy z), d(bias) = sum(dy)"""
    x, scale, bias = [*node.inputs, None][:3]
    assert x is not None and scale is not None
    axes, wide = _trailing(node, x), wide_type(x)
    if wide == ir.DataType.DOUBLE:  # the outputs Mean and InvStdDev are float32 at best
        standard = standardize(op, x, axes, node.attributes.get_float("epsilon", 1e-5))
    else:
        _, mean, inverse = (cast(op, value, wide) for value in expose(op, node, 3))
        standard = Standard(op.Mul(op.Sub(cast(op, x, wide), mean), inverse), inverse, axes)
    return _scaled(op, (x, scale, bias), standard, dy, d_mean, d_inverse)


@gradient("RMSNormalization")
@gradient("SimplifiedLayerNormalization")
def rms_normalization(op: GradientBuilder, node: ir.Node, dy: Optional, d_inverse: Optional = None) -> Grads:
    """y = z scale, z = x / sqrt(mean(x^2) + epsilon):  dx = inverse (dz - z mean(dz z)), d(scale) = sum(dy z)

    onnxruntime's SimplifiedLayerNormalization is the same and gives the inverse root as well.
    """
    x, scale = node.inputs
    assert x is not None and scale is not None
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    whole = cast(op, x, wide_type(x, scale))
    standard = standardize(op, whole, _trailing(node, x), epsilon, centred=False)
    return _scaled(op, (x, scale, None), standard, dy, None, d_inverse)


def _trailing(node: ir.Node, x: ir.Value) -> list[int]:
    count = rank(x)
    return list(range(node.attributes.get_int("axis", -1) % count, count))


def _scaled(
    op: GradientBuilder,
    operands: tuple[ir.Value, ir.Value, Optional],
    standard: Standard,
    dy: Optional,
    d_mean: Optional,
    d_inverse: Optional,
) -> tuple[Optional, Optional, Optional]:
    """Gradients of (x, scale, bias) for y = z scale + bias, where scale and bias broadcast to z."""
    x, scale, bias = operands
    dtype = standard.z.dtype
    d_mean, d_inverse = (None if value is None else cast(op, value, dtype) for value in (d_mean, d_inverse))
    dy = None if dy is None else cast(op, dy, dtype)
    dz = None if dy is None else op.Mul(dy, cast(op, scale, dtype))
    dx = pull_back(op, standard, dz, d_mean, d_inverse)
    dx = None if dx is None else cast(op, dx, x.dtype)
    if dy is None:
        return dx, None, None
    d_scale = cast(op, sum_to(op, op.Mul(dy, standard.z), scale), scale.dtype)
    return dx, d_scale, None if bias is None else cast(op, sum_to(op, dy, bias), bias.dtype)


@gradient("SkipLayerNormalization", domain="com.microsoft", broadcasts=True)
def skip_layer_normalization(
    op: GradientBuilder,
    node: ir.Node,
    dy: Optional,
    d_mean: Optional = None,
    d_inverse: Optional = None,
    d_total: Optional = None,
) -> Grads:
    """y = LayerNormalization(t) gamma + beta, t = x + skip + bias, which is output 3:  dx = d(skip) = d(bias) = dt"""
    x, skip, gamma, beta, bias = [*node.inputs, None, None][:5]
    dt, d_gamma, d_beta = _skipped(op, node, (x, skip, bias), (gamma, beta), (dy, d_mean, d_inverse, d_total))
    return dt, dt, d_gamma, d_beta, dt


@gradient("SkipSimplifiedLayerNormalization", domain="com.microsoft", broadcasts=True)
def skip_simplified_layer_normalization(
    op: GradientBuilder,
    node: ir.Node,
    dy: Optional,
    d_mean: Optional = None,
    d_inverse: Optional = None,
    d_total: Optional = None,
) -> Grads:
    """y = RMSNormalization(t) gamma, t = x + skip + bias, which is output 3:  dx = d(skip) = d(bias) = dt"""
    x, skip, gamma, bias = [*node.inputs, None][:4]
    dys = (dy, None, d_inverse, d_total)
    dt, d_gamma, _ = _skipped(op, node, (x, skip, bias), (gamma, None), dys, centred=False)
    return dt, dt, d_gamma, dt


def _skipped(
    op: GradientBuilder,
    node: ir.Node,
    parts: tuple[Optional, ...],
    affine: tuple[Optional, Optional],
    dys: tuple[Optional, Optional, Optional, Optional],
    centred: bool = True,
) -> tuple[Optional, Optional, Optional]:
    """Gradients of t, gamma and beta for y = z gamma + beta, z = t standardized over its last axis, t = sum(parts)."""
    gamma, beta = affine
    assert gamma is not None
    total = op.Sum(*(part for part in parts if part is not None))
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    standard = standardize(op, cast(op, total, wide_type(total)), [rank(total) - 1], epsilon, centred)
    dy, d_mean, d_inverse, d_total = dys
    dt, d_gamma, d_beta = _scaled(op, (total, gamma, beta), standard, dy, d_mean, d_inverse)
    return _plus(op, dt, d_total), d_gamma, d_beta


def _plus(op: GradientBuilder, a: Optional, b: Optional) -> Optional:
    return op.Add(a, b) if a is not None and b is not None else a if b is None else b
