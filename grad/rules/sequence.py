"""Sequences and optionals: the gradient of a sequence is a sequence of gradients, that of an optional is its item's."""

import onnx_ir as ir

from onnxgrad.grad.registry import GradientBuilder, Grads, gradient, no_gradient
from onnxgrad.grad.subgraphs import map_sequence, zeros

no_gradient("SequenceLength", "OptionalHasElement", reason="whole numbers and truth values")
no_gradient("SequenceEmpty", reason="has no operands")


@gradient("SequenceConstruct")
def sequence_construct(op: GradientBuilder, node: ir.Node, ds: ir.Value) -> Grads:
    """s = [x_0, x_1, ...]:  dx_i = ds[i]"""
    return [_item(op, ds, position, x) for position, x in enumerate(node.inputs)]


@gradient("SequenceAt")
def sequence_at(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = s[i]:  ds = dy at i, zeros elsewhere"""
    s, position = node.inputs
    assert s is not None and position is not None
    position = _from_start(op, position, op.SequenceLength(s))
    others = op.SequenceErase(zeros(op, s), position)
    return op.SequenceInsert(others, dy, position), None


@gradient("SequenceInsert")
def sequence_insert(op: GradientBuilder, node: ir.Node, ds: ir.Value) -> Grads:
    """t = s with x put in at i:  dx = dt[i], ds = dt without i"""
    x = node.inputs[1]
    position = node.inputs[2] if len(node.inputs) > 2 else None
    if position is None:
        return op.SequenceErase(ds), _item(op, ds, -1, x)
    position = _from_start(op, position, op.Sub(op.SequenceLength(ds), 1))
    return op.SequenceErase(ds, position), _item(op, ds, position, x)


@gradient("SequenceErase")
def sequence_erase(op: GradientBuilder, node: ir.Node, ds: ir.Value) -> Grads:
    """t = s without i:  ds = dt with zeros put in at i"""
    s = node.inputs[0]
    assert s is not None
    position = node.inputs[1] if len(node.inputs) > 1 else None
    if position is None:
        return (op.SequenceInsert(ds, op.zeros_like(op.SequenceAt(s, -1))),)
    position = _from_start(op, position, op.SequenceLength(s))
    return op.SequenceInsert(ds, op.zeros_like(op.SequenceAt(s, position)), position), None


@gradient("SplitToSequence")
def split_to_sequence(op: GradientBuilder, node: ir.Node, ds: ir.Value) -> Grads:
    """s = x cut along an axis:  dx = the pieces of ds put together"""
    axis = node.attributes.get_int("axis", 0)
    whole = len(node.inputs) > 1 and node.inputs[1] is not None
    dropped = not whole and node.attributes.get_int("keepdims", 1) == 0
    return (op.ConcatFromSequence(ds, axis=axis, new_axis=int(dropped)),)


@gradient("ConcatFromSequence")
def concat_from_sequence(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the items of s joined along an axis:  ds = dy cut at the joints"""
    (s,) = node.inputs
    assert s is not None
    axis = node.attributes.get_int("axis", 0)
    if node.attributes.get_int("new_axis", 0):
        return (op.SplitToSequence(dy, axis=axis, keepdims=0),)
    lengths = map_sequence(op, lambda inner, item: inner.Gather(inner.Shape(item), [axis]), s, dtype=ir.DataType.INT64)
    return (op.SplitToSequence(dy, op.ConcatFromSequence(lengths, axis=0), axis=axis),)


@gradient("Optional")
def optional(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = optional(x):  dx = dy; an optional without a value has no operand"""
    return [dy] * len(node.inputs)


@gradient("OptionalGetElement")
def optional_get_element(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the value in x:  dx = dy"""
    return (dy,)


def _item(op: GradientBuilder, sequence: ir.Value, position: ir.Value | int, like: ir.Value | None) -> ir.Value:
    item = op.SequenceAt(sequence, position)
    if like is not None:
        item.type, item.shape = like.type, like.shape
    return item


def _from_start(op: GradientBuilder, position: ir.Value, length: ir.Value) -> ir.Value:
    """A position that may count from the end, as one from the start."""
    constant = ir.convenience.get_const_tensor(position)
    if constant is not None and constant.numpy().item() >= 0:
        return position
    if position.dtype != ir.DataType.INT64:
        position = op.Cast(position, to=int(ir.DataType.INT64))
    return op.Where(op.Less(position, 0), op.Add(position, length), position)
