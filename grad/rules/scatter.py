"""Operators that write elements at indices."""

from collections.abc import Callable

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.engine.ir.scatter import scatter_slices
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

Scatter = Callable[[ir.Value, ir.Value, str], ir.Value]  # (data, updates, reduction) -> data with the updates
Gather = Callable[[ir.Value], ir.Value]  # what stands at the indices


@gradient("ScatterElements", note="max and min: ties share equally")
def scatter_elements(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = data, with updates written or reduced at indices along an axis"""
    data, indices = node.inputs[:2]
    assert data is not None
    axis = node.attributes.get_int("axis", 0) % rank(data)

    def scatter(data: ir.Value, updates: ir.Value, reduction: str) -> ir.Value:
        return op.ScatterElements(data, indices, updates, axis=axis, reduction=reduction)

    return _scatter(op, node, dy, scatter, lambda data: op.GatherElements(data, indices, axis=axis))


@gradient("ScatterND", note="max and min: ties share equally")
def scatter_nd(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = data, with slices written or reduced at index tuples"""
    indices = node.inputs[1]
    assert indices is not None

    def scatter(data: ir.Value, updates: ir.Value, reduction: str) -> ir.Value:
        return scatter_slices(op, data, indices, updates, reduction)

    return _scatter(op, node, dy, scatter, lambda data: op.GatherND(data, indices))


def _scatter(op: GradientBuilder, node: ir.Node, dy: ir.Value, scatter: Scatter, gather: Gather) -> Grads:
    data, _, updates = node.inputs
    assert data is not None and updates is not None
    reduction = node.attributes.get_string("reduction", "none")
    if reduction in ("max", "min"):
        return _extreme(op, node, dy, scatter, gather)
    if reduction == "mul":
        return _product(op, node, dy, scatter, gather)
    ddata = dy
    if reduction == "none" and op.wants(data):
        ddata = scatter(dy, op.zeros_like(updates), "none")
    return ddata, None, gather(dy) if op.wants(updates) else None


def _extreme(op: Builder, node: ir.Node, dy: ir.Value, scatter: Scatter, gather: Gather) -> Grads:
    """y = max(data, updates): all that equal y share dy"""
    (y,) = node.outputs
    data, _, updates = node.inputs
    assert data is not None and updates is not None
    from_data = op.Cast(op.Equal(data, y), to=dy.dtype)
    from_updates = op.Cast(op.Equal(updates, gather(y)), to=dy.dtype)
    share = op.Div(dy, scatter(from_data, from_updates, "add"))
    return op.Mul(share, from_data), None, op.Mul(gather(share), from_updates)


def _product(op: Builder, node: ir.Node, dy: ir.Value, scatter: Scatter, gather: Gather) -> Grads:
    """y = data times all updates: each factor gets dy times the others, also where some are 0"""
    data, _, updates = node.inputs
    assert data is not None and updates is not None
    zero, one = op.constant_like(data, 0), op.constant_like(data, 1)

    def split(factor: ir.Value) -> tuple[ir.Value, ir.Value]:
        is_zero = op.Equal(factor, zero)
        return op.Where(is_zero, one, factor), op.Cast(is_zero, to=data.dtype)

    (data1, data0), (updates1, updates0) = split(data), split(updates)
    product = op.Mul(dy, scatter(data1, updates1, "mul"))
    zeros = scatter(data0, updates0, "add")

    def others(product: ir.Value, factor1: ir.Value, zeros: ir.Value, factor0: ir.Value) -> ir.Value:
        return op.Where(op.Equal(zeros, factor0), op.Div(product, factor1), zero)

    return others(product, data1, zeros, data0), None, others(gather(product), updates1, gather(zeros), updates0)
