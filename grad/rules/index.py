"""Operators that pick elements by index."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.engine.ir.scatter import scatter_add, scatter_slices
from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient
from onnxgrad.grad.scatter import put_back, shaped_like

no_gradient("NonZero", reason="the outputs are positions")
no_gradient("ArgMax", "ArgMin", reason="the output is a position")


@gradient("Gather", note="negative indices count from the end; repeated indices add up")
def gather(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x[indices] along axis:  dx = the slices of dy added at their indices"""
    x, indices = node.inputs
    assert x is not None and indices is not None
    return (put_back(op, "GatherGrad", dy, x, indices, node.attributes.get_int("axis", 0)),)


@gradient("Compress")
def compress(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the slices of x (of flat x without an axis) where the condition holds:  dx = dy at their places"""
    x, condition = node.inputs
    assert x is not None and condition is not None
    kept = op.Squeeze(op.NonZero(condition), [0])
    axis = node.attributes.get_int("axis", None)
    if axis is not None:
        return (put_back(op, "GatherGrad", dy, x, kept, axis),)
    flat = put_back(op, "GatherGrad", dy, op.Reshape(x, [-1]), kept, 0)
    return (shaped_like(op.Reshape(flat, op.shape_of(x), allowzero=1), x),)


@gradient("GatherElements")
def gather_elements(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x[.., indices, ..]:  dx = dy added at its indices"""
    x, indices = node.inputs
    assert x is not None and indices is not None
    axis = node.attributes.get_int("axis", 0) % rank(x)
    return (scatter_add(op, op.zeros_like(x), indices, dy, axis),)


@gradient("GatherND")
def gather_nd(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = slices of x at index tuples, batch by batch:  dx = the slices of dy added at them"""
    x, indices = node.inputs
    assert x is not None and indices is not None
    batch = node.attributes.get_int("batch_dims", 0)
    return (scatter_slices(op, op.zeros_like(x), _with_batch(op, indices, batch), dy, "add"),)


def _with_batch(op: Builder, indices: ir.Value, batch: int) -> ir.Value:
    """Index tuples of the whole tensor from those inside each of the first `batch` dimensions."""
    if batch == 0:
        return indices
    shape, size = op.shape_of(indices), rank(indices)
    column = op.Concat(op.Slice(shape, [0], [-1]), [1], axis=0)
    places = [
        op.Expand(op.Reshape(op.Range(0, op.Gather(shape, k), 1), [-1, *[1] * (size - 1 - k)]), column)
        for k in range(batch)
    ]
    return op.Concat(*places, indices, axis=-1)


@gradient("TopK")
def top_k(op: GradientBuilder, node: ir.Node, dy: ir.Value | None, *_: ir.Value | None) -> Grads:
    """values = the k largest of x along axis:  dx = dy at their places, zeros elsewhere"""
    x, places = node.inputs[0], expose(op, node, 2)[1]
    assert x is not None and dy is not None
    axis = node.attributes.get_int("axis", -1) % rank(x)
    return (op.ScatterElements(op.zeros_like(x), places, dy, axis=axis),)


@gradient("Unique", note="of equal elements, the first one takes the gradient")
def unique(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """y = the distinct elements (slices) of x:  dx = dy at the first place of each"""
    x, dy, axis = node.inputs[0], dys[0], node.attributes.get_int("axis", None)
    assert x is not None and dy is not None
    first = expose(op, node, 2)[1]
    if axis is not None:
        return (put_back(op, "GatherGrad", dy, x, first, axis),)
    flat = put_back(op, "GatherGrad", dy, op.Reshape(x, [-1]), first, 0)
    return (shaped_like(op.Reshape(flat, op.shape_of(x), allowzero=1), x),)


@gradient("OneHot")
def one_hot(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = values[1] at the indices, values[0] elsewhere:  dvalues = [sum of dy elsewhere, sum of dy at the indices]"""
    indices, depth, values = node.inputs
    assert values is not None
    axis = node.attributes.get_int("axis", -1)
    sums = [
        op.ReduceSum(op.Mul(dy, op.OneHot(indices, depth, _pair(op, values, *pair), axis=axis)), keepdims=0)
        for pair in ((1, 0), (0, 1))
    ]
    return None, None, op.Concat(*(op.Unsqueeze(total, [0]) for total in sums), axis=0)


def _pair(op: Builder, like: ir.Value, off: int, on: int) -> ir.Value:
    return op.Concat(*(op.Unsqueeze(op.constant_like(like, number), [0]) for number in (off, on)), axis=0)


@gradient("Range")
def range_(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y_i = start + i delta:  dstart = sum(dy), ddelta = sum(i dy)"""
    start, _, delta = node.inputs
    assert start is not None and delta is not None
    dstart = ddelta = None
    if op.wants(start):
        dstart = op.Reshape(op.ReduceSum(dy, keepdims=0), op.shape_of(start))
    if op.wants(delta):
        count = op.Range(0, op.Squeeze(op.Shape(dy), [0]), 1)
        steps = op.Cast(count, to=dy.dtype)
        ddelta = op.Reshape(op.ReduceSum(op.Mul(dy, steps), keepdims=0), op.shape_of(delta))
    return dstart, None, ddelta


@gradient("TensorScatter", since=24)
def tensor_scatter(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the cache with the update written from write_indices on:  dcache = dy elsewhere, dupdate = dy there"""
    cache, update, starts = [*node.inputs, None][:3]
    assert cache is not None and update is not None
    axis, mode = node.attributes.get_int("axis", -2) % rank(cache), node.attributes.get_string("mode", "linear")
    dcache = dupdate = None
    if op.wants(cache):
        dcache = op.TensorScatter(dy, op.zeros_like(update), starts, axis=axis, mode=mode)
    if op.wants(update):
        places = _written(op, cache, update, starts, axis, mode)
        dupdate = shaped_like(op.GatherElements(dy, places, axis=axis), update)
    return dcache, dupdate, None


def _written(op: Builder, cache: ir.Value, update: ir.Value, starts: ir.Value | None, axis: int, mode: str) -> ir.Value:
    """Where along `axis` of the cache each element of `update` is written."""
    shape, ones = op.shape_of(update), [1] * (rank(update) - axis - 1)
    places = op.Reshape(op.Range(0, op.Gather(shape, axis), 1), [-1, *ones])
    if starts is not None:
        places = op.Add(places, op.Reshape(starts, [-1, *[1] * (rank(update) - 1)]))
    if mode == "circular":
        places = op.Mod(places, op.Gather(op.shape_of(cache), axis))
    return op.Expand(places, shape)
