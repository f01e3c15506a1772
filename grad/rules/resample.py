"""Images put together, stretched and sampled."""

from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.decompose import through, through_call
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient
from onnxgrad.grad.sampling import (
    Tap,
    counting,
    cubic_taps,
    grid_sample,
    inside,
    length_like,
    linear_taps,
    size,
    total,
    vector,
)
from onnxgrad.grad.windows import Window, merge_axes, pad_spatial, spatial, spatial_of, tap_slice


@gradient("Col2Im")
def col2im(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = blocks added up in an image:  dx = the blocks of dy"""
    block = _constant_ints(node, 2)
    n = len(block)
    strides = tuple(node.attributes.get_ints("strides", [1] * n))
    dilations = tuple(node.attributes.get_ints("dilations", [1] * n))
    pads = list(node.attributes.get_ints("pads", [0] * 2 * n))
    window = Window(strides, dilations, tuple(block), tuple(pads[:n]), tuple(pads[n:]))
    padded = pad_spatial(op, dy, pads[:n], pads[n:])
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(block, dilations, strict=True)]
    sizes = spatial(padded)
    if sizes is not None:
        counts: list[int] | ir.Value = [(i - e) // s + 1 for i, e, s in zip(sizes, extents, strides, strict=True)]
    else:
        counts = op.Add(op.Div(op.Sub(spatial_of(op, padded), extents), list(strides)), [1])
    parts = [op.Unsqueeze(tap_slice(op, padded, tap, window, counts), [2]) for tap in window.taps()]
    blocks = op.Concat(*parts, axis=2) if len(parts) > 1 else parts[0]
    return (merge_axes(op, blocks, [[0], [1, 2], [axis + 1 for axis in window.axes]]),)


def _constant_ints(node: ir.Node, position: int) -> list[int]:
    """The value of an input that must be known while building."""
    value = node.inputs[position] if position < len(node.inputs) else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise GradientError(
            f"the gradient of {node.op_type} needs input {position} to be a constant",
            where=describe(node),
            why="it decides which nodes the gradient is made of",
            fix="fold constants, or give the model fixed shapes",
        )
    return [int(number) for number in tensor.numpy().ravel()]


@gradient(
    "Resize", note="the matrix of an axis is what Resize makes of the identity; sizes and scales have no gradient"
)
def resize(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x times an interpolation matrix along each axis:  dx = dy times their transposes"""
    x = node.inputs[0]
    assert x is not None
    if _moves_with_roi(op, node):
        return through(op, node, [dy], partial(_cropped, node=node, like=dy))
    factors = _repeats(node, x, dy)
    if factors is not None:
        mean = op.AveragePool(dy, kernel_shape=factors, strides=factors)
        return (op.Mul(mean, float(prod(factors))),)
    resized = _resized_axes(node, x, dy)
    for position, axis in sorted(resized, key=lambda pair: _growth(x, dy, pair[1]), reverse=True):
        matrix = _interpolation_matrix(op, node, x, position, axis)
        dy = _contract(op, dy, matrix if matrix.dtype == x.dtype else op.Cast(matrix, to=x.dtype), axis)
    return (dy,)


def _moves_with_roi(op: GradientBuilder, node: ir.Node) -> bool:
    """Whether somebody wants the gradient of roi, and there is one."""
    crops = node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    smooth = node.attributes.get_string("mode", "nearest") != "nearest" and not node.attributes.get_int("antialias", 0)
    return crops and smooth and op.wants(_operand(node, 1))


def _cropped(
    op: Builder,
    x: ir.Value,
    roi: ir.Value,
    scales: ir.Value | None = None,
    sizes: ir.Value | None = None,
    *,
    node: ir.Node,
    like: ir.Value,
) -> ir.Value:
    """tf_crop_and_resize by standard nodes, but for the constant that it puts outside of x; of the size of `like`."""
    axes = _axes(node, x)
    for position, axis in enumerate(axes):
        length, count = length_like(op, x, axis, roi), length_like(op, like, axis, roi)
        start, end = (_pick(op, roi, position=position + k) for k in (0, len(axes)))
        last, steps = op.Sub(length, 1.0), op.Sub(count, 1.0)
        places = counting(op, size(op, like, axis), roi)
        share = op.Div(places, op.Max(steps, op.constant_like(roi, 1)))
        share = op.Where(op.Equal(steps, 0.0), op.constant_like(roi, 0.5), share)
        at = op.Mul(op.Add(start, op.Mul(op.Sub(end, start), share)), last)
        matrix = _rows_of_weights(op, node, at, length, counting(op, size(op, x, axis), roi))
        x = _contract(op, x, op.Transpose(op.Cast(matrix, to=x.dtype), perm=[1, 0]), axis)
    return x


def _rows_of_weights(op: Builder, node: ir.Node, at: ir.Value, length: ir.Value, indices: ir.Value) -> ir.Value:
    """[positions, length]: the weight of each element at positions `at`; rows of zeros for positions outside."""
    last, zero = op.Sub(length, 1.0), op.constant_like(at, 0)
    within = op.And(op.GreaterOrEqual(at, 0.0), op.LessOrEqual(at, last))
    if node.attributes.get_string("mode") == "cubic":
        taps = cubic_taps(op, at, node.attributes.get_float("cubic_coeff_a", -0.75))
    else:
        taps = linear_taps(op, at)
    taps = [Tap(tap.index, op.Where(within, tap.weight, zero)) for tap in taps]
    if node.attributes.get_int("exclude_outside", 0):
        taps = [inside(op, tap, length) for tap in taps]
        whole = total(op, [tap.weight for tap in taps if tap.weight is not None])
        whole = op.Where(within, whole, op.constant_like(at, 1))
        taps = [Tap(tap.index, op.Div(tap.weight, whole)) for tap in taps]
    parts = []
    for tap in taps:
        index = op.Unsqueeze(op.Clip(tap.index, zero, last), [1])
        parts.append(op.Where(op.Equal(index, indices), op.Unsqueeze(tap.weight, [1]), zero))
    return total(op, parts)


def _operand(node: ir.Node, position: int) -> ir.Value | None:
    """An optional input of Resize; an empty constant counts as absent."""
    value = node.inputs[position] if position < len(node.inputs) else None
    empty = value is not None and value.shape is not None and len(value.shape) == 1 and value.shape[0] == 0
    return None if empty else value


def _axes(node: ir.Node, x: ir.Value) -> list[int]:
    return [axis % rank(x) for axis in node.attributes.get_ints("axes", list(range(rank(x))))]


def _constant_scales(node: ir.Node, x: ir.Value, dy: ir.Value) -> dict[int, float]:
    """The scales of the axes where they are known; 1 for axes that are not resized."""
    assert x.shape is not None and dy.shape is not None
    axes = _axes(node, x)
    found = {axis: 1.0 for axis in range(rank(x)) if axis not in axes}
    if _operand(node, 3) is not None:
        if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
            return found
        for axis in axes:
            before, after = x.shape[axis], dy.shape[axis]
            if isinstance(before, int) and isinstance(after, int) and before > 0:
                found[axis] = after / before
            elif before == after and getattr(before, "value", None) is not None:
                found[axis] = 1.0
        return found
    scales = _operand(node, 2)
    tensor = None if scales is None else ir.convenience.get_const_tensor(scales)
    if tensor is not None:
        found.update(zip(axes, map(float, tensor.numpy().ravel()), strict=True))
    return found


def _repeats(node: ir.Node, x: ir.Value, dy: ir.Value) -> list[int] | None:
    """How often each spatial element is repeated, where Resize does no more than that."""
    mode, nearest = node.attributes.get_string("mode", "nearest"), "round_prefer_floor"
    nearest = node.attributes.get_string("nearest_mode", nearest)
    coordinates = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    scales = _constant_scales(node, x, dy)
    whole = len(scales) == rank(x) and all(scale >= 1 and scale == int(scale) for scale in scales.values())
    if mode != "nearest" or not whole or not 3 <= rank(x) <= 5 or scales[0] != 1 or scales[1] != 1:
        return None
    centred = coordinates in ("half_pixel", "half_pixel_symmetric") and nearest.startswith("round")
    if centred or (coordinates == "asymmetric" and nearest == "floor"):
        return [int(scales[axis]) for axis in range(2, rank(x))]
    return None


def _resized_axes(node: ir.Node, x: ir.Value, dy: ir.Value) -> list[tuple[int, int]]:
    """(position among the node's axes, axis) of those that Resize changes."""
    crops = node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    scales = {} if crops else _constant_scales(node, x, dy)
    return [(position, axis) for position, axis in enumerate(_axes(node, x)) if scales.get(axis) != 1.0]


def _growth(x: ir.Value, dy: ir.Value, axis: int) -> float:
    """How much smaller a gradient gets along `axis`: the order in which axes are contracted."""
    assert x.shape is not None and dy.shape is not None
    before, after = x.shape[axis], dy.shape[axis]
    return after / before if isinstance(before, int) and isinstance(after, int) and before > 0 else 1.0


def _settings(node: ir.Node) -> dict[str, str | int | float | None]:
    names = ("mode", "nearest_mode", "coordinate_transformation_mode")
    kept: dict[str, str | int | float | None] = {name: node.attributes.get_string(name) for name in names}
    for number in ("antialias", "exclude_outside"):
        kept[number] = node.attributes.get_int(number)
    kept["cubic_coeff_a"] = node.attributes.get_float("cubic_coeff_a")
    return kept


def _interpolation_matrix(op: Builder, node: ir.Node, x: ir.Value, position: int, axis: int) -> ir.Value:
    """[output size, input size]: the node applied to the columns of an identity matrix."""
    sizes, scales, roi = _operand(node, 3), _operand(node, 2), _operand(node, 1)
    dtype = ir.DataType.DOUBLE if x.dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    square = op.Expand(op.constant(np.zeros((), dtype.numpy())), vector(op, (x, axis), (x, axis)))
    identity = op.EyeLike(square)
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch" and sizes is not None:
        return _by_all_axes(op, node, x, identity, position)
    pick = partial(_pick, op, position=position)
    ends = op.constant(np.ones(2, np.float32))
    if roi is not None:
        roi = _roi_of_axis(op, roi, position, len(_axes(node, x)))
    if sizes is not None:
        sizes = op.Concat([1, 1], pick(sizes), vector(op, (x, axis)), axis=0)
    else:
        assert scales is not None
        scales = op.Concat(ends, pick(scales), op.constant(np.ones(1, np.float32)), axis=0)
    given = op.Unsqueeze(identity, [0, 1])
    matrix = op.Resize(given, roi, None if sizes is not None else scales, sizes, **_settings(node))
    return op.Squeeze(matrix, [0, 1])


def _pick(op: Builder, values: ir.Value, *, position: int) -> ir.Value:
    return op.Slice(values, [position], [position + 1])


def _roi_of_axis(op: Builder, roi: ir.Value, position: int, count: int) -> ir.Value:
    assert roi.dtype is not None
    none, all_ = (op.constant(np.full(k, v, roi.dtype.numpy())) for k, v in ((2, 0), (2, 1)))
    zero, one = (op.constant(np.full(1, v, roi.dtype.numpy())) for v in (0, 1))
    start, end = _pick(op, roi, position=position), _pick(op, roi, position=position + count)
    return op.Concat(none, start, zero, all_, end, one, axis=0)


def _by_all_axes(op: Builder, node: ir.Node, x: ir.Value, identity: ir.Value, position: int) -> ir.Value:
    """The matrix of one axis where all axes share one scale: they are resized together, constant along the others."""
    axes = _axes(node, x)
    here = axes[position]
    spread = op.Unsqueeze(identity, [1, *(2 + k for k, axis in enumerate(axes) if axis != here)])
    columns = op.Expand(spread, vector(op, (x, here), 1, *((x, axis) for axis in axes)))
    result = op.Resize(
        columns,
        None,
        None,
        _operand(node, 3),
        axes=list(range(2, 2 + len(axes))),
        keep_aspect_ratio_policy=node.attributes.get_string("keep_aspect_ratio_policy"),
        **_settings(node),
    )
    for k in reversed(range(len(axes))):
        if k != position:
            result = op.Gather(result, 0, axis=2 + k)
    return op.Transpose(op.Squeeze(result, [1]), perm=[1, 0])


def _contract(op: Builder, dy: ir.Value, matrix: ir.Value, axis: int) -> ir.Value:
    """dy times the transposed matrix along `axis`: its size becomes that of the input."""
    last = rank(dy) - 1
    if axis == last:
        return op.MatMul(dy, matrix)
    transposed = op.Transpose(matrix, perm=[1, 0])
    if axis == last - 1:
        return op.MatMul(transposed, dy)
    order = list(range(last + 1))
    order[axis], order[last - 1] = last - 1, axis
    return op.Transpose(op.MatMul(transposed, op.Transpose(dy, perm=order)), perm=order)


@gradient(
    "GridSample", note="positions on element boundaries take the slope to their right; nearest has none for the grid"
)
def grid_sample_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x read at grid:  the gradient of its reading by indices and weights"""
    mode = node.attributes.get_string("mode", "linear")
    forward = partial(
        grid_sample,
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding=node.attributes.get_string("padding_mode", "zeros"),
        align_corners=bool(node.attributes.get_int("align_corners", 0)),
    )
    return through_call(op, "GridSampleGrad", node, [dy], forward)


@gradient("AffineGrid", since=20)
def affine_grid(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y[n, p] = theta[n] (p, 1):  dtheta[n] = sum over positions of dy[n, p] (p, 1)^T"""
    theta, sizes = node.inputs
    assert theta is not None and sizes is not None and theta.shape is not None
    n = rank(dy) - 2
    lengths = op.Slice(sizes, [2], [2**62])
    parts = []
    for axis in reversed(range(n)):  # positions are named from the last axis to the first
        at = _centres(op, op.Gather(lengths, axis, axis=0), dy, bool(node.attributes.get_int("align_corners", 0)))
        at = op.Reshape(at, [-1, *[1] * (n - axis)])
        parts.append(op.Expand(at, op.Concat(lengths, [1], axis=0)))
    parts.append(op.Expand(op.constant_like(dy, 1), op.Concat(lengths, [1], axis=0)))
    positions = op.Reshape(op.Concat(*parts, axis=-1), [-1, n + 1])
    rows = op.Reshape(dy, vector(op, (theta, 0), -1, n))
    return (op.MatMul(op.Transpose(rows, perm=[0, 2, 1]), positions),)


def _centres(op: Builder, length: ir.Value, like: ir.Value, align_corners: bool) -> ir.Value:
    """Positions in [-1, 1] of `length` elements: of the first and last, or of the outer edges of these, at -1 and 1."""
    places, whole = counting(op, length, like), op.Cast(length, to=like.dtype)
    if align_corners:
        return op.Sub(op.Div(op.Mul(places, 2.0), op.Max(op.Sub(whole, 1.0), op.constant_like(like, 1))), 1.0)
    return op.Sub(op.Div(op.Add(op.Mul(places, 2.0), 1.0), whole), 1.0)
