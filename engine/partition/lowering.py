"""The same meaning in other operators, for nodes that the runtime refuses: a table of functions."""

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.pads import amounts_for_all_axes
from onnxgrad.engine.ir.scatter import is_racing_scatter, order_scatter

_SHORT = 16  # elements of a row

Lowering = Callable[[Builder, ir.Node], list[ir.Node]]
"""(builder in front of the node, node) -> the nodes that stand in its place, to be looked at again; none: no change."""


def recurrent_layout(op: Builder, node: ir.Node) -> list[ir.Node]:
    """layout=1, the batch first: transposed in and out of the same node with layout=0."""
    if "layout" not in node.attributes or node.attributes["layout"].as_int() == 0:
        return []
    states = 6 if node.op_type == "LSTM" else 5
    for index in (0, 5, 6)[: 3 if node.op_type == "LSTM" else 2]:
        value = node.inputs[index] if index < len(node.inputs) and index <= states else None
        if value is not None:
            node.replace_input_with(index, op.Transpose(value, perm=[1, 0, 2]))
    del node.attributes["layout"]
    for index, output in enumerate(node.outputs):
        if output.name:
            _transpose_output(op, node, output, [2, 0, 1, 3] if index == 0 else [1, 0, 2])
    return [node]


def _transpose_output(op: Builder, node: ir.Node, output: ir.Value, perm: list[int]) -> None:
    assert node.graph is not None
    back = ir.node("Transpose", [output], {"perm": perm}, name=op.names.fresh_node(f"{node.name}.Transpose"))
    result = back.outputs[0]
    result.name, output.name = output.name, op.names.fresh(f"{output.name}.layout0")
    result.type, result.shape, output.shape = output.type, output.shape, None
    ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
    back.replace_input_with(0, output)
    node.graph.insert_after(node, back)


def cast_like(op: Builder, node: ir.Node) -> list[ir.Node]:
    """y = Cast(x, to=the dtype of the second operand)"""
    like = node.inputs[1]
    if like is None or like.dtype is None:
        return []
    attributes = [attribute for attribute in node.attributes.values() if attribute.name in ("saturate", "round_mode")]
    to = ir.AttrInt64("to", int(like.dtype))
    return [_replace(op, node, ir.Node("", "Cast", [node.inputs[0]], [to, *attributes]))]


def floor_mod(op: Builder, node: ir.Node) -> list[ir.Node]:
    """r = fmod(x, y);  z = r + y where r is not 0 and has the other sign than y, else r"""
    x, y = node.inputs
    if x is None or y is None or x.dtype is None or not x.dtype.is_floating_point():
        return []
    if "fmod" in node.attributes and node.attributes["fmod"].as_int():
        return []
    zero = op.constant_like(x, 0)
    rest, shift = op.Mod(x, y, fmod=1), op.Less(y, zero)
    below, nothing = op.Less(rest, zero), op.Equal(rest, zero)
    wrong = op.And(op.Xor(below, shift), op.Not(nothing))
    shifted = op.Add(rest, y)
    result = _replace(op, node, ir.Node("", "Where", [wrong, shifted, rest]))
    return [maker for v in (rest, shift, below, nothing, shifted) if (maker := v.producer()) is not None] + [result]


def short_softmax(op: Builder, node: ir.Node) -> list[ir.Node]:
    """e = exp(x - max(x));  y = e / (e0 + e1 + ...), rounded to bfloat16 after each step, as by the standard's body.

    Only for rows of few elements, where rounding of the sum shows; longer ones are summed in float32 and rounded once.
    """
    x = node.inputs[0]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
    if x is None or x.dtype != ir.DataType.BFLOAT16 or x.shape is None or op.opset < 18:
        return []
    length = x.shape[axis]
    if not isinstance(length, int) or not 1 < length <= _SHORT:
        return []
    top = op.ReduceMax(x, op.constant([axis]), keepdims=1)
    below = op.Sub(x, top)
    powers = op.Exp(below)
    parts = op.node("Split", powers, outputs=length, axis=axis, num_outputs=length)
    sums = [parts[0]]
    for part in parts[1:]:
        sums.append(op.Add(sums[-1], part))
    result = _replace(op, node, ir.Node("", "Div", [powers, sums[-1]]))
    made = (top, below, powers, parts[0], *sums[1:])
    return [maker for v in made if (maker := v.producer()) is not None] + [result]


def ordered_scatter(op: Builder, node: ir.Node) -> list[ir.Node]:
    """ScatterND with a reduction, by ScatterElements over rows."""
    return order_scatter(op, node) if is_racing_scatter(node) and op.opset >= 18 else []


def pad_of_all_axes(op: Builder, node: ir.Node) -> list[ir.Node]:
    """Pad with axes, as one with amounts for every axis."""
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return []
    given = amounts_for_all_axes(op, node.inputs)
    if len(given) == 4:
        return []
    return [_replace(op, node, ir.Node("", "Pad", given, node.attributes.values()))]


def _replace(op: Builder, node: ir.Node, new: ir.Node) -> ir.Node:
    """Put `new` in the place of `node`, with its name and its output."""
    assert node.graph is not None
    node.graph.insert_before(node, new)
    old, output = node.outputs[0], new.outputs[0]
    new.name, node.name = node.name, None
    output.type, output.shape, output.name, old.name = old.type, old.shape, old.name, None
    ir.convenience.replace_all_uses_with(old, output, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    return new


LOWERINGS: Mapping[tuple[str, str], Lowering] = {
    **{("", op_type): recurrent_layout for op_type in ("RNN", "GRU", "LSTM")},
    ("", "CastLike"): cast_like,
    ("", "Mod"): floor_mod,
    ("", "Pad"): pad_of_all_axes,
    ("", "ScatterND"): ordered_scatter,
    ("", "Softmax"): short_softmax,
}
"""(domain, op_type) -> how a refused node of it is written in other operators."""
