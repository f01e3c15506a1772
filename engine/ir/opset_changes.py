"""Operators that changed between opset 7 and today in a way that a node has to follow, and how it does.

An operator that is not in CHANGES grew at most optional inputs, optional attributes and types; `opset.py` checks that
against the schemas. Known and left alone, since runtimes compute the same in all versions: OneHot-9 does not say that
negative indices wrap, ConvTranspose-1 splits odd paddings of `output_shape` the other way round.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OpsetError
from onnxgrad.engine.ir.builder import Builder, describe

Adapter = Callable[[Builder, ir.Node, int], None]
"""Changes `node`, of the opset that is given, to that of the builder, which writes in front of the node."""


def _attribute(node: ir.Node, name: str) -> ir.Attr | None:
    """Take an attribute off a node."""
    return node.attributes.pop(name, None)


def _text(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    if attribute.is_ref():
        why = f"its attribute '{name}' is a parameter of the function around it"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    return attribute.as_string()


def _set_input(node: ir.Node, position: int, value: ir.Value | None) -> None:
    if len(node.inputs) <= position:
        node.resize_inputs(position + 1)
    node.replace_input_with(position, value)


def _ints_to_input(op: Builder, node: ir.Node, name: str, position: int) -> None:
    """An int or list of ints that was an attribute becomes an int64 input of rank 1."""
    attribute = _attribute(node, name)
    if attribute is None:
        return
    if not attribute.is_ref():
        ints = attribute.as_ints() if attribute.type == ir.AttributeType.INTS else [attribute.as_int()]
        _set_input(node, position, op.constant(list(ints)))
        return
    key = "value_ints" if attribute.type == ir.AttributeType.INTS else "value_int"
    parameter = ir.RefAttr(key, attribute.ref_attr_name or "", attribute.type)
    constant = ir.Node("", "Constant", [], [parameter], name=op.names.fresh_node(f"{node.name}.{name}"))
    constant.outputs[0].name = op.names.fresh(f"{node.name}.{name}")
    op.graph.insert_before(node, constant)
    value = constant.outputs[0]
    _set_input(node, position, value if key == "value_ints" else op.Reshape(value, [1]))


def _float_to_input(op: Builder, node: ir.Node, name: str, position: int) -> None:
    """A float that was an attribute becomes a scalar input of the dtype of the first input."""
    attribute = _attribute(node, name)
    if attribute is None:
        return
    x = node.inputs[0]
    if attribute.is_ref():
        parameter = ir.RefAttr("value_float", attribute.ref_attr_name or "", attribute.type)
        constant = ir.Node("", "Constant", [], [parameter], name=op.names.fresh_node(f"{node.name}.{name}"))
        constant.outputs[0].name = op.names.fresh(f"{node.name}.{name}")
        op.graph.insert_before(node, constant)
        _set_input(node, position, op.CastLike(constant.outputs[0], x))
    elif x is not None and x.dtype is not None:
        _set_input(node, position, op.constant_like(x, attribute.as_float()))
    else:
        _set_input(node, position, op.CastLike(op.constant(attribute.as_float()), x))


def _replace(node: ir.Node, values: Sequence[ir.Value | None]) -> None:
    """Let the values take the place of the node's outputs, names included; None for outputs that nobody uses."""
    graph = node.graph
    assert graph is not None
    for old, new in zip(node.outputs, values, strict=False):
        if new is None:
            continue
        new.type, new.shape = old.type or new.type, new.shape if old.shape is None else old.shape
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        old.name, new.name = None, old.name
    graph.remove(node, safe=True)
    last = values[0].producer() if values[0] is not None else None
    if last is not None:
        last.name = node.name


def _is_used(node: ir.Node, position: int) -> bool:
    output = node.outputs[position] if position < len(node.outputs) else None
    return output is not None and (bool(output.uses()) or output.is_graph_output())


def _is_named(node: ir.Node, position: int) -> bool:
    return position < len(node.outputs) and bool(node.outputs[position].name)


def axes_to_input(op: Builder, node: ir.Node, version: int) -> None:
    """Reductions, Squeeze, Unsqueeze: `axes` is an input since 13 (ReduceSum) or 18."""
    del version
    _ints_to_input(op, node, "axes", 1)


def split(op: Builder, node: ir.Node, version: int) -> None:
    """Split: `split` is an input since 13; equal parts are asked for by `num_outputs` since 18."""
    if version < 13:
        _ints_to_input(op, node, "split", 1)
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes.add(ir.AttrInt64("num_outputs", len(node.outputs)))


def clip(op: Builder, node: ir.Node, version: int) -> None:
    """Clip: the bounds are inputs since 11."""
    del version
    _float_to_input(op, node, "min", 1)
    _float_to_input(op, node, "max", 2)


def pad(op: Builder, node: ir.Node, version: int) -> None:
    """Pad: `pads` and `value` are inputs since 11."""
    del version
    _ints_to_input(op, node, "pads", 1)
    _float_to_input(op, node, "value", 2)


def slice_(op: Builder, node: ir.Node, version: int) -> None:
    """Slice: `starts`, `ends` and `axes` are inputs since 10."""
    del version
    for position, name in enumerate(("starts", "ends", "axes"), start=1):
        _ints_to_input(op, node, name, position)


def top_k(op: Builder, node: ir.Node, version: int) -> None:
    """TopK: `k` is an input since 10."""
    del version
    _ints_to_input(op, node, "k", 1)


def dropout(op: Builder, node: ir.Node, version: int) -> None:
    """Dropout: `ratio` is an input since 12; the mask was of the dtype of the data before 10."""
    x, attribute = node.inputs[0], node.attributes.get("ratio")
    assert x is not None
    if attribute is not None:
        _float_to_input(op, node, "ratio", 1)
    if version >= 10 or not _is_used(node, 1):
        return
    y, mask = op.node("Dropout", *node.inputs, outputs=2)
    _replace(node, (y, op.CastLike(mask, x)))


def batch_normalization(op: Builder, node: ir.Node, version: int) -> None:
    """BatchNormalization: `spatial` is gone since 9; training is an attribute since 14, before that it was the number
    of outputs, and two more outputs could be asked for."""
    spatial = _attribute(node, "spatial")
    x, scale, bias, mean, variance = node.inputs
    if version < 9 and spatial is not None and spatial.as_int() == 0:
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        deviation = op.Sqrt(op.Add(variance, op.CastLike(op.constant(float(epsilon or 0)), variance)))
        normal = op.Div(op.Sub(x, mean), deviation)
        if any(_is_used(node, position) for position in range(1, 5)):
            raise OpsetError("BatchNormalization with spatial=0 cannot be trained.", where=describe(node))
        _replace(node, (op.Add(op.Mul(normal, scale), bias),))
        return
    if version >= 14 or not any(_is_named(node, position) for position in range(1, 5)):
        return
    if _is_used(node, 3) or _is_used(node, 4):
        why = "saved_mean and saved_var are no outputs of BatchNormalization since opset 14"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    node.resize_outputs(min(3, len(node.outputs)))
    node.attributes.add(ir.AttrInt64("training_mode", 1))


def softmax(op: Builder, node: ir.Node, version: int) -> None:
    """Softmax, LogSoftmax, Hardmax: before 13 over all axes from `axis` (1 if left out) on, taken as one."""
    del version
    x, attribute = node.inputs[0], _attribute(node, "axis")
    assert x is not None
    if attribute is not None and attribute.is_ref():
        why = "its axis is a parameter of the function around it"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    axis = 1 if attribute is None else attribute.as_int()
    if axis == -1 or (x.shape is not None and axis % max(len(x.shape), 1) == len(x.shape) - 1):
        node.attributes.add(ir.AttrInt64("axis", -1))
        return
    (flat,) = op.node(node.op_type, op.Flatten(x, axis=axis), axis=-1)
    _replace(node, (op.Reshape(flat, op.Shape(x), allowzero=1),))


def resize(op: Builder, node: ir.Node, version: int) -> None:
    """Resize: 10 knew asymmetric coordinates only; 11 wanted all inputs and had a mode that is gone since 13."""
    if version < 11:
        x, scales = node.inputs
        mode = _text(node, "mode", "nearest")
        _replace(node, (_asymmetric(op, node, x, scales, mode),))
        return
    for position in (1, 2):
        value = node.inputs[position] if position < len(node.inputs) else None
        tensor = None if value is None else ir.convenience.get_const_tensor(value)
        if tensor is not None and tensor.size == 0:
            node.replace_input_with(position, None)
    if _text(node, "coordinate_transformation_mode", "half_pixel") == "tf_half_pixel_for_nn":
        rounding = _text(node, "nearest_mode", "round_prefer_floor")
        # its coordinate is that of half_pixel plus one half
        same = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}.get(rounding)
        if same is None or _text(node, "mode", "nearest") != "nearest":
            why = "tf_half_pixel_for_nn is gone since opset 13"
            raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
        node.attributes.add(ir.AttrString("coordinate_transformation_mode", "half_pixel"))
        node.attributes.add(ir.AttrString("nearest_mode", same))


def upsample(op: Builder, node: ir.Node, version: int) -> None:
    """Upsample: the scales are an input since 9; it is Resize since 10."""
    x, mode = node.inputs[0], _text(node, "mode", "nearest")
    if version < 9:
        factors = np.asarray(node.attributes["scales"].as_floats(), np.float32)
        scales: ir.Value | None = op.constant(factors)
    else:
        scales = node.inputs[1]
    _replace(node, (_asymmetric(op, node, x, scales, mode),))


def _asymmetric(op: Builder, node: ir.Node, x: ir.Value | None, scales: ir.Value | None, mode: str) -> ir.Value:
    """Resize as it was before opset 11. Runtimes round down where they enlarge and up where they shrink."""
    tensor = None if scales is None else ir.convenience.get_const_tensor(scales)
    factors = np.ones(1) if tensor is None else tensor.numpy()
    if mode == "nearest" and factors.min() < 1 and factors.max() > 1:
        why = "it enlarges one axis and shrinks another, and nearest neighbours are rounded differently in the two"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    mode = "linear" if mode == "bilinear" else mode
    rounding = "ceil" if factors.min() < 1 else "floor"
    return op.Resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode=rounding)


def scatter(op: Builder, node: ir.Node, version: int) -> None:
    """Scatter is called ScatterElements since 11."""
    del op, version
    node.op_type = "ScatterElements"


def roi_align(op: Builder, node: ir.Node, version: int) -> None:
    """RoiAlign: what it did before 16 has a name since then, and is no longer the default."""
    del op, version
    node.attributes.add(ir.AttrString("coordinate_transformation_mode", "output_half_pixel"))


def grid_sample(op: Builder, node: ir.Node, version: int) -> None:
    """GridSample: modes have other names since 20."""
    del op, version
    mode = _text(node, "mode", "bilinear")
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    node.attributes.add(ir.AttrString("mode", renamed))


def dft(op: Builder, node: ir.Node, version: int) -> None:
    """DFT: `axis` is a scalar input since 20, and counts from the end if left out; it was 1."""
    del version
    attribute = _attribute(node, "axis")
    if attribute is not None and attribute.is_ref():
        node.attributes["axis"] = attribute
        _ints_to_input(op, node, "axis", 2)
        _set_input(node, 2, op.Squeeze(node.inputs[2]))
        return
    _set_input(node, 2, op.constant(1 if attribute is None else attribute.as_int()))


def group_normalization(op: Builder, node: ir.Node, version: int) -> None:
    """GroupNormalization: scale and bias have one entry a channel since 21; they had one a group."""
    del version
    x, *parameters = node.inputs
    groups = node.attributes["num_groups"]
    if groups.is_ref():
        why = "its number of groups is a parameter of the function around it"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    count = groups.as_int()
    size = op.Concat([count], op.Div(op.Shape(x, start=1, end=2), [count]), axis=0)
    for position, parameter in enumerate(parameters, start=1):
        wide = op.Expand(op.Unsqueeze(parameter, [1]), size)
        _set_input(node, position, op.Reshape(wide, [-1]))


def scan(op: Builder, node: ir.Node, version: int) -> None:
    """Scan-8 runs over a batch: a Scan over the batch around one over the sequence."""
    del version
    lengths, *operands = node.inputs
    if lengths is not None:
        why = "sequences of different lengths in one batch are gone since opset 9"
        raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    inner_attributes = {name: attribute for name, attribute in node.attributes.items() if name != "directions"}
    directions = node.attributes.get("directions")
    if directions is not None:
        inner_attributes["scan_input_directions"] = ir.AttrInt64s("scan_input_directions", directions.as_ints())
    node.attributes.clear()
    formals = [_slice_of(op, value, f"{node.name}.{index}") for index, value in enumerate(operands)]
    inner = ir.Node("", "Scan", formals, inner_attributes.values(), num_outputs=len(node.outputs))
    inner.name = op.names.fresh_node(f"{node.name}.sequence")
    for output, outer in zip(inner.outputs, node.outputs, strict=True):
        output.name, output.type = op.names.fresh(f"{outer.name}.sequence"), outer.type
    body = ir.Graph(formals, inner.outputs, nodes=[inner], name=f"{node.name}.batch")
    batch = ir.Node(
        "", "Scan", operands, ir.convenience.convert_attributes({"num_scan_inputs": len(operands), "body": body}),
        num_outputs=len(node.outputs),
    )  # fmt: skip
    op.insert(batch)
    _replace(node, batch.outputs)


def _slice_of(op: Builder, value: ir.Value | None, name: str) -> ir.Value:
    shape = None if value is None or value.shape is None else ir.Shape(value.shape.dims[1:])
    return ir.Value(name=op.names.fresh(name), type=None if value is None else value.type, shape=shape)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

CHANGES: dict[str, tuple[tuple[int, ...], Adapter]] = {
    "BatchNormalization": ((9, 14), batch_normalization),
    "Clip": ((11,), clip),
    "DFT": ((20,), dft),
    "Dropout": ((10, 12), dropout),
    "GridSample": ((20,), grid_sample),
    "GroupNormalization": ((21,), group_normalization),
    "Pad": ((11,), pad),
    "Resize": ((11, 13), resize),
    "RoiAlign": ((16,), roi_align),
    "Scan": ((9,), scan),
    "Scatter": ((11,), scatter),
    "Slice": ((10,), slice_),
    "Split": ((13, 18), split),
    "TopK": ((10,), top_k),
    "Upsample": ((9, 10), upsample),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), ((13,), softmax)),
    **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), ((13,), axes_to_input)),
    **dict.fromkeys((f"Reduce{kind}" for kind in _REDUCTIONS), ((18,), axes_to_input)),
}
"""op_type -> (opsets that brought a change a node has to follow, the function that follows)."""
