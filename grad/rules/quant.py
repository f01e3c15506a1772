"""Quantization: from integers to real numbers and back."""

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient
from onnxgrad.grad.scatter import shaped_like
from onnxgrad.grad.straight_through import quantizer

no_gradient("QuantizeLinear", reason="the output is rounded; og.straight_through gives x and scale a gradient")


@gradient(
    "DequantizeLinear", note="with og.straight_through: also the x and scale of the QuantizeLinear in front of it"
)
def dequantize_linear(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (x - zero point) scale:  dscale = sum of dy (x - zero point) over what shares a scale"""
    scale, source = node.inputs[1], quantizer(node)
    assert scale is not None
    grads: dict[ir.Value, ir.Value] = {}
    if op.wants(scale) and not (source is not None and scale in source.outputs):
        grads[scale] = _per_scale(op, op.Mul(dy, _units(op, node, scale)), scale, node)
    if source is None:
        return grads
    for value, grad in _through(op, node, source, dy).items():
        grads[value] = op.Add(grads[value], grad) if value in grads else grad
    return grads


@gradient("DynamicQuantizeLinear", note="of the scale; the integers have none without og.straight_through")
def dynamic_quantize_linear(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """scale = (max(x, 0) - min(x, 0)) / 255:  dx = dscale / 255 at the largest element, less that at the smallest"""

    def forward(op: Builder, x: ir.Value) -> tuple[ir.Value | None, ...]:
        zero = op.constant_like(x, 0)
        high, low = op.Max(op.ReduceMax(x, keepdims=0), zero), op.Min(op.ReduceMin(x, keepdims=0), zero)
        return None, op.Div(op.Sub(high, low), op.constant_like(x, 255))

    return through(op, node, dys, forward)


def _units(op: Builder, node: ir.Node, scale: ir.Value) -> ir.Value:
    """x - zero point, as real numbers."""
    ones = op.Expand(op.constant_like(scale, 1), op.shape_of(scale))
    return op.DequantizeLinear(node.inputs[0], ones, *node.inputs[2:], **_layout(node))


def _layout(node: ir.Node) -> dict[str, int | None]:
    known = node.attributes
    return {name: known.get_int(name, None) for name in ("axis", "block_size", "output_dtype")}


def _through(op: GradientBuilder, node: ir.Node, source: ir.Node, dy: ir.Value) -> dict[ir.Value, ir.Value]:
    """y = scale round(x / s) within bounds, with round' = 1:  dx = dy scale / s, ds = -dx x / s, 0 where saturated"""
    x, s = [*source.inputs, None][:2]
    scale = node.inputs[1]
    assert x is not None and scale is not None
    if source.op_type == "DynamicQuantizeLinear" or s is None:
        return {x: dy} if op.wants(x) else {}
    spread = _spread(op, s, x, source)
    ratio = op.Div(x, spread)
    inside = op.Cast(_inside(op, node, ratio, s), to=x.dtype)
    passed = op.Mul(dy, inside)
    if scale is not s:
        passed = op.Div(op.Mul(passed, _spread(op, scale, x, node)), spread)
    grads = {x: passed} if op.wants(x) else {}
    if op.wants(s):
        grads[s] = _per_scale(op, op.Neg(op.Mul(passed, ratio)), s, source)
    return grads


def _inside(op: Builder, node: ir.Node, ratio: ir.Value, s: ir.Value) -> ir.Value:
    """Where the integers (or small floats) that `node` reads are not saturated."""
    integers = node.inputs[0]
    assert integers is not None and integers.dtype is not None
    if integers.dtype.is_integer():
        return op.Equal(op.Round(ratio), _units(op, node, s))
    bound = float(ml_dtypes.finfo(integers.dtype.numpy()).max)  # type: ignore[no-untyped-call]
    return op.LessOrEqual(op.Abs(ratio), op.constant_like(ratio, bound))


def _spread(op: Builder, scale: ir.Value, x: ir.Value, node: ir.Node) -> ir.Value:
    """`scale` in a shape that broadcasts with x."""
    axis, block = _axis(node, x), node.attributes.get_int("block_size", 0)
    if rank(scale) == 0:
        return scale
    if block == 0:
        return op.Reshape(scale, np.array([-1 if k == axis else 1 for k in range(rank(x))], np.int64))
    repeats = np.array([block if k == axis + 1 else 1 for k in range(rank(x) + 1)], np.int64)
    shape = op.shape_of(scale)
    joined = op.Concat(op.Slice(shape, [0], [axis]), [-1], op.Slice(shape, [axis + 1], [rank(x)]), axis=0)
    repeated = op.Reshape(op.Tile(op.Unsqueeze(scale, [axis + 1]), repeats), joined)
    size = op.Slice(op.shape_of(x), [axis], [axis + 1])
    return shaped_like(op.Slice(repeated, [0], size, [axis]), x)


def _per_scale(op: Builder, parts: ir.Value, scale: ir.Value, node: ir.Node) -> ir.Value:
    """`parts`, in the shape of y, summed over what shares a scale."""
    size, block = rank(parts), node.attributes.get_int("block_size", 0)
    if rank(scale) == 0:
        return op.ReduceSum(parts, keepdims=0)
    axis = _axis(node, parts)
    if block == 0 and size > 0 and scale.shape != ir.Shape([1]):
        others = [k for k in range(size) if k != axis]
        return shaped_like(op.ReduceSum(parts, others, keepdims=0) if others else parts, scale)
    if block == 0:
        return op.Reshape(op.ReduceSum(parts, keepdims=0), [1])
    shape, blocks = op.shape_of(scale), op.Slice(op.shape_of(scale), [axis], [axis + 1])
    missing = op.Sub(op.Mul(blocks, [block]), op.Shape(parts, start=axis, end=axis + 1))
    parts = op.Pad(parts, op.Concat([0], missing, axis=0), None, [axis])  # the last block may be shorter
    split = op.Concat(op.Slice(shape, [0], [axis + 1]), [block], op.Slice(shape, [axis + 1], [size]), axis=0)
    return shaped_like(op.ReduceSum(op.Reshape(parts, split, allowzero=1), [axis + 1], keepdims=0), scale)


def _axis(node: ir.Node, x: ir.Value) -> int:
    return node.attributes.get_int("axis", 1) % max(rank(x), 1)
