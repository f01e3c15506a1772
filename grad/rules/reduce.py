"""Reductions and cumulative sums and products."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import rank
from onnxgrad.grad.counts import inverse_count
from onnxgrad.grad.prefix import exclusive_product, shifted, suffix_recurrence
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("ReduceSum")
def reduce_sum(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum(x):  dx = dy"""
    return (_spread(op, node, _restored(op, node, dy)),)


@gradient("ReduceMean")
def reduce_mean(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum(x) / n:  dx = dy / n"""
    x = node.inputs[0]
    assert x is not None
    share = op.Mul(dy, inverse_count(op, x, node.outputs[0], _axes(node)))
    return (_spread(op, node, _restored(op, node, share)),)


@gradient("ReduceMax", "ReduceMin", note="elements that tie share equally")
def reduce_max(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = max(x):  dx = dy [x = y] / number of elements that equal y"""
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    chosen = op.Cast(op.Equal(x, _restored(op, node, node.outputs[0])), to=int(x.dtype))
    count = _again(op, node, "ReduceSum", chosen)
    return (_like(op.Mul(chosen, op.Div(_restored(op, node, dy), count)), x),)


@gradient("ReduceL1", note="0 at 0")
def reduce_l1(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum(|x|):  dx = dy sign(x)"""
    x = node.inputs[0]
    return (_like(op.Mul(_restored(op, node, dy), op.Sign(x)), x),)


@gradient("ReduceL2", note="0 at 0")
def reduce_l2(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sqrt(sum(x^2)):  dx = dy x / y, and 0 where y = 0"""
    x = node.inputs[0]
    (y,) = node.outputs
    scale = op.Div(dy, op.Where(op.Equal(y, 0.0), float("inf"), y))
    return (_like(op.Mul(x, _restored(op, node, scale)), x),)


@gradient("ReduceSumSquare")
def reduce_sum_square(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum(x^2):  dx = 2 x dy"""
    x = node.inputs[0]
    return (_like(op.Mul(x, _restored(op, node, op.Mul(dy, 2.0))), x),)


@gradient("ReduceLogSum")
def reduce_log_sum(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = ln(sum(x)):  dx = dy / sum(x)"""
    total = _again(op, node, "ReduceSum", node.inputs[0])
    return (_spread(op, node, op.Div(_restored(op, node, dy), total)),)


@gradient("ReduceLogSumExp", note="0 where all of a row is -inf")
def reduce_log_sum_exp(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = ln(sum(e^x)):  dx = dy e^(x - y)"""
    x = node.inputs[0]
    (y,) = node.outputs
    level = op.Where(op.Equal(y, float("-inf")), 0.0, y)
    share = op.Exp(op.Sub(x, _restored(op, node, level)))
    return (_like(op.Mul(_restored(op, node, dy), share), x),)


@gradient("ReduceProd", note="exact with zeros in the data")
def reduce_prod(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = product(x):  dx = dy * the product of the other elements, axis by axis, without a division"""
    x = node.inputs[0]
    assert x is not None
    axes, count = _axes(node), rank(x)
    grad, rest = _restored(op, node, dy), x
    for axis in range(count) if axes is None else sorted({axis % count for axis in axes}):
        others = _others(op, rest, axis)
        shrunk = op.ReduceProd(rest, [axis], keepdims=1)
        if axes is None:
            reduced = _is_reduced(op, node, axis, count)
            others, shrunk = op.Where(reduced, others, 1.0), op.Where(reduced, shrunk, rest)
        grad, rest = op.Mul(grad, others), shrunk
    return (grad if axes is not None and axes else _spread(op, node, grad),)


def _others(op: GradientBuilder, x: ir.Value, axis: int) -> ir.Value:
    """For each element the product of the others along `axis`."""
    where, size = op.constant([axis]), x.shape[axis] if x.shape is not None else None
    before, after = (exclusive_product(op, x, where, size, step) for step in (1, -1))
    return op.Mul(before, after)


def _is_reduced(op: GradientBuilder, node: ir.Node, axis: int, count: int) -> ir.Value:
    """Whether the run-time axes of `node` hold `axis`: bool[1]."""
    axes = op.Cast(node.inputs[1], to=int(ir.DataType.INT64))
    here = op.Cast(op.Or(op.Equal(axes, [axis]), op.Equal(axes, [axis - count])), to=int(ir.DataType.INT64))
    found = op.Greater(op.ReduceSum(here, keepdims=1), [0])
    if node.attributes.get_int("noop_with_empty_axes", 0):
        return found
    return op.Or(found, op.Equal(op.Shape(axes), [0]))


def _axes(node: ir.Node) -> list[int] | None:
    """The axes that `node` reduces, None if they are known at run time only."""
    x, given = [*node.inputs, None][:2]
    assert x is not None
    tensor = None if given is None else _constant(given)
    if given is not None and tensor is None:
        return None
    axes = [] if tensor is None else [int(axis) for axis in tensor.numpy().ravel()]
    noop = node.attributes.get_int("noop_with_empty_axes", 0)
    return axes if axes or noop else list(range(rank(x)))


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    return None if value.is_graph_input() else ir.convenience.get_const_tensor(value)


def _restored(op: GradientBuilder, node: ir.Node, value: ir.Value) -> ir.Value:
    """`value`, of the shape of the output of `node`, with the axes that were dropped put back as 1."""
    if node.attributes.get_int("keepdims", 1):
        return value
    axes = _axes(node)
    if axes is None:
        return op.Unsqueeze(value, node.inputs[1])  # of no axes: all were reduced, and a scalar fits any shape
    return op.Unsqueeze(value, axes) if axes else value


def _spread(op: GradientBuilder, node: ir.Node, value: ir.Value) -> ir.Value:
    """`value` repeated to the shape of the input of `node`."""
    x = node.inputs[0]
    assert x is not None
    return _like(op.Expand(value, op.shape_of(x)), x)


def _again(op: GradientBuilder, node: ir.Node, op_type: str, x: ir.Value | None) -> ir.Value:
    """Another reduction of `x` over the axes of `node`, which are kept as 1."""
    noop = node.attributes.get_int("noop_with_empty_axes", 0)
    (result,) = op.node(op_type, x, *node.inputs[1:2], keepdims=1, noop_with_empty_axes=noop)
    return result


def _like(result: ir.Value, x: ir.Value | None) -> ir.Value:
    """`result`, which has the shape of `x`: run-time axes leave it unknown."""
    if x is not None and x.shape is not None:
        result.shape = x.shape
    return result


@gradient("CumSum")
def cum_sum(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y_k = sum of x_i for i <= k:  dx_i = sum of dy_k for k >= i"""
    reverse = 1 - node.attributes.get_int("reverse", 0)
    return (op.CumSum(dy, node.inputs[1], exclusive=node.attributes.get_int("exclusive", 0), reverse=reverse),)


@gradient("CumProd", note="exact with zeros in the data")
def cum_prod(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y_k = product of x_j for j <= k:  dx_i = (product of x_j for j < i) s_i,  s_i = dy_i + x_i+1 s_i+1

    exclusive: products of j < k, and s_i = dy_i+1 + x_i+1 s_i+1.
    """
    x, axis = node.inputs
    assert x is not None and axis is not None
    step = -1 if node.attributes.get_int("reverse", 0) else 1
    tensor, size = _constant(axis), None
    if tensor is not None and x.shape is not None:
        size = x.shape[int(tensor.numpy().item())]
    axis = op.Reshape(op.Cast(axis, to=int(ir.DataType.INT64)), [1])
    first = shifted(op, dy, axis, size, -step, 0.0) if node.attributes.get_int("exclusive", 0) else dy
    factor = shifted(op, x, axis, size, -step, 0.0)
    before = exclusive_product(op, x, axis, size, step)
    return (_like(op.Mul(before, suffix_recurrence(op, first, factor, axis, size, step)), x),)
