"""Rules that onnx_shape_inference lacks or has wrong: operands whose values are known only at run time.

Where its rule reads such an operand as absent, the result would be a wrong static shape (Split, Squeeze, Unique); in
the other cases the rank is known though the sizes are not, and a gradient needs the rank.
"""

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnxgrad.engine.ir.broadcast_dims import mend_broadcasting
from onnxgrad.engine.ir.classical_rules import collect_classical_rules
from onnxgrad.engine.ir.matmul_dims import mended_fused_matmul
from onnxgrad.engine.ir.once import once
from onnxgrad.engine.ir.operand_ranks import collect_rank_rules
from onnxgrad.engine.ir.sequence_shapes import collect_sequence_rules
from onnxgrad.engine.ir.slice_dims import mended_slice
from onnxgrad.engine.ir.virtual_operators import collect_virtual_rules

Rule = Callable[[ShapeInferenceContext, ir.Node], None]

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@once
def collect_rules() -> None:
    """Fill `onnx_shape_inference.registry`: its own rules, and those of this file in front of them."""
    registry.collect()
    mend_broadcasting()
    collect_classical_rules()
    collect_sequence_rules()
    collect_rank_rules()
    collect_virtual_rules()
    for op_type, operand, rule in (
        ("Split", 1, _split),
        ("Squeeze", 1, _squeeze),
        ("Unsqueeze", 1, _unsqueeze),
        ("Reshape", 1, _reshape),
        ("Tile", 1, _tile),
        ("Expand", 1, _expand),
        ("AffineGrid", 1, _affine_grid),
        *((f"Reduce{kind}", 1, _reduce) for kind in _REDUCTIONS),
    ):
        for version in registry.version_boundaries("", op_type):
            known = registry.get("", op_type, version=version)
            registry.register("", op_type, since_version=version)(_when_unknown(operand, rule, known))
    registry.register("", "Slice", since_version=10)(mended_slice(registry.get("", "Slice", version=10)))
    fused = registry.get("com.microsoft", "FusedMatMul", version=1)
    registry.register("com.microsoft", "FusedMatMul", since_version=1)(mended_fused_matmul(fused))
    registry.register("", "Unique", since_version=11)(_unique)
    for version in (18, 19):
        known = registry.get("", "Resize", version=version)
        registry.register("", "Resize", since_version=version)(_resize(known))
    registry.register("", "Col2Im", since_version=18)(_col2im(registry.get("", "Col2Im", version=18)))
    registry.register("", "Scan", since_version=8)(_scan_8)
    registry.register("", "Loop", since_version=1)(_loop)
    registry.register("", "ConstantOfShape", since_version=9)(_constant_of_shape)
    registry.register("", "GroupNormalization", since_version=18)(_like_first)
    registry.register("", "Slice", since_version=1)(_slice_1)
    registry.register("", "TopK", since_version=1)(_top_k_1)


def _when_unknown(operand: int, rule: Rule, otherwise: Rule) -> Rule:
    """Use `rule` for nodes whose input number `operand` is there but not known before run time."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        value = node.inputs[operand] if operand < len(node.inputs) else None
        is_known = value is None or context.get_symbolic_value(value) is not None
        (otherwise if is_known else rule)(context, node)

    return infer


def _unknown(context: ShapeInferenceContext, count: int) -> list[int | ir.SymbolicDim]:
    return [context.new_symbolic_dim() for _ in range(count)]


def _length(node: ir.Node, operand: int) -> int | None:
    """How many elements the vector at input `operand` has, if that is known."""
    value = node.inputs[operand]
    size = value.shape[0] if value is not None and value.shape is not None and len(value.shape) == 1 else None
    return size if isinstance(size, int) else None


def _set(context: ShapeInferenceContext, output: ir.Value, like: ir.Value | None, rank: int | None) -> None:
    """The dtype of `like`, and a shape of `rank` unknown sizes."""
    if like is not None and like.dtype is not None:
        context.set_dtype(output, like.dtype)
    if rank is not None and rank >= 0:
        context.set_shape(output, ir.Shape(_unknown(context, rank)))


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _split(context: ShapeInferenceContext, node: ir.Node) -> None:
    x = node.inputs[0]
    axis = node.attributes.get_int("axis", 0) or 0
    for output in node.outputs:
        _set(context, output, x, None)
        if x is not None and x.shape is not None:
            dims = list(x.shape.dims)
            dims[axis] = context.new_symbolic_dim()
            context.set_shape(output, ir.Shape(dims))


def _squeeze(context: ShapeInferenceContext, node: ir.Node) -> None:
    rank, count = _rank(node.inputs[0]), _length(node, 1)
    _set(context, node.outputs[0], node.inputs[0], None if rank is None or count is None else rank - count)


def _unsqueeze(context: ShapeInferenceContext, node: ir.Node) -> None:
    rank, count = _rank(node.inputs[0]), _length(node, 1)
    _set(context, node.outputs[0], node.inputs[0], None if rank is None or count is None else rank + count)


def _reshape(context: ShapeInferenceContext, node: ir.Node) -> None:
    _set(context, node.outputs[0], node.inputs[0], _length(node, 1))


def _tile(context: ShapeInferenceContext, node: ir.Node) -> None:
    _set(context, node.outputs[0], node.inputs[0], _rank(node.inputs[0]))


def _expand(context: ShapeInferenceContext, node: ir.Node) -> None:
    rank, count = _rank(node.inputs[0]), _length(node, 1)
    _set(context, node.outputs[0], node.inputs[0], None if rank is None or count is None else max(rank, count))


def _constant_of_shape(context: ShapeInferenceContext, node: ir.Node) -> None:
    value = node.attributes.get("value")
    context.set_dtype(node.outputs[0], ir.DataType.FLOAT if value is None else value.as_tensor().dtype)
    dims = None if node.inputs[0] is None else context.get_symbolic_value(node.inputs[0])
    if dims is None:
        _set(context, node.outputs[0], None, _length(node, 0))
    else:
        node.outputs[0].shape = ir.Shape(dims)


def _affine_grid(context: ShapeInferenceContext, node: ir.Node) -> None:
    _set(context, node.outputs[0], node.inputs[0], None)
    count = _length(node, 1)
    if count is not None:
        context.set_shape(node.outputs[0], ir.Shape([*_unknown(context, count - 1), count - 2]))


def _reduce(context: ShapeInferenceContext, node: ir.Node) -> None:
    rank, count = _rank(node.inputs[0]), _length(node, 1)
    if rank is not None and not node.attributes.get_int("keepdims", 1):
        if count == 0:  # all axes, or none at all
            rank = rank if node.attributes.get_int("noop_with_empty_axes", 0) else 0
        else:
            rank = None if count is None else rank - count
    _set(context, node.outputs[0], node.inputs[0], rank)


def _unique(context: ShapeInferenceContext, node: ir.Node) -> None:
    x, axis = node.inputs[0], node.attributes.get_int("axis", None)
    found = context.new_symbolic_dim()
    _set(context, node.outputs[0], x, None)
    if axis is None:
        context.set_shape(node.outputs[0], ir.Shape([found]))
    elif x is not None and x.shape is not None:
        dims = list(x.shape.dims)
        dims[axis] = found
        context.set_shape(node.outputs[0], ir.Shape(dims))
    for index, output in enumerate(node.outputs[1:]):
        size = found if index != 1 else context.new_symbolic_dim()  # inverse_indices has one entry for each slice of x
        context.set_shape_and_dtype(output, ir.Shape([size]), ir.DataType.INT64)


def _loop(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Both the trip count and the condition are optional."""
    body = node.attributes["body"].as_graph()
    carried = len(node.inputs) - 2
    trips = None if node.inputs[0] is None else context.get_symbolic_value(node.inputs[0])
    for index, (output, result) in enumerate(zip(node.outputs, body.outputs[1:], strict=False)):
        shape = result.shape
        if index >= carried and shape is not None:
            length = trips[0] if trips is not None and len(trips) == 1 else context.new_symbolic_dim()
            shape = ir.Shape([length, *shape.dims])
        output.type, output.shape = result.type, shape


def _scan_8(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Scan of opset 8 has a batch axis in front and optional lengths: its outputs keep the types of the body's."""
    (body,) = (attribute.as_graph() for attribute in node.attributes.values() if attribute.name == "body")
    for output, result in zip(node.outputs, body.outputs, strict=False):
        if result.dtype is not None:
            context.set_dtype(output, result.dtype)


def _like_first(context: ShapeInferenceContext, node: ir.Node) -> None:
    x = node.inputs[0]
    if x is not None and x.shape is not None and x.dtype is not None:
        context.set_shape_and_dtype(node.outputs[0], x.shape, x.dtype)


def _slice_1(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Slice before opset 10: everything is an attribute."""
    x = node.inputs[0]
    if x is None or x.shape is None:
        _set(context, node.outputs[0], x, None)
        return
    starts, ends = node.attributes["starts"].as_ints(), node.attributes["ends"].as_ints()
    axes = node.attributes.get_ints("axes", None) or range(len(starts))
    dims = list(x.shape.dims)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        size = dims[axis]
        dims[axis] = len(range(size)[start:end]) if isinstance(size, int) else context.new_symbolic_dim()
    _set(context, node.outputs[0], x, None)
    context.set_shape(node.outputs[0], ir.Shape(dims))


def _top_k_1(context: ShapeInferenceContext, node: ir.Node) -> None:
    """TopK before opset 10: k is an attribute."""
    x = node.inputs[0]
    _set(context, node.outputs[0], x, None)
    context.set_dtype(node.outputs[1], ir.DataType.INT64)
    if x is not None and x.shape is not None:
        dims = list(x.shape.dims)
        dims[node.attributes.get_int("axis", -1)] = node.attributes["k"].as_int()
        for output in node.outputs:
            context.set_shape(output, ir.Shape(dims))


def _col2im(known: Rule) -> Rule:
    """The rank, where sizes are known only in part."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        known(context, node)
        columns, image = node.inputs[:2]
        count = image.shape[0] if image is not None and image.shape is not None else None
        if columns is None or columns.shape is None or node.outputs[0].shape is not None or not isinstance(count, int):
            return
        dims = [columns.shape[0], *_unknown(context, 1 + count)]
        context.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), columns.dtype)

    return infer


def _resize(known: Rule) -> Rule:
    """The rank only, where the sizes given are bounds that keep_aspect_ratio_policy goes below or above."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
        x = node.inputs[0]
        if policy == "stretch" or len(node.inputs) < 4 or x is None or x.shape is None:
            known(context, node)
            return
        axes = [axis % len(x.shape) for axis in node.attributes.get_ints("axes", range(len(x.shape)))]
        dims = [context.new_symbolic_dim() if k in axes else dim for k, dim in enumerate(x.shape)]
        context.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), x.dtype)

    return infer
