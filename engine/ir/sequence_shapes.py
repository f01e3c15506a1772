"""Shapes of sequences: the shape of a value that is a sequence is what the shapes of its items have in common.

onnx_shape_inference knows the types of sequences only, and a gradient needs the ranks of what comes out of them.
"""

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

Dim = int | ir.SymbolicDim
EMPTY = "onnxgrad.empty_sequence"


def collect_sequence_rules() -> None:
    """Put rules that also follow shapes in front of those of onnx_shape_inference."""
    for op_type, rule in (
        ("SequenceConstruct", _construct),
        ("SequenceInsert", _insert),
        ("SequenceErase", _erase),
        ("SequenceAt", _at),
        ("SplitToSequence", _split),
        ("ConcatFromSequence", _concat),
    ):
        registry.register("", op_type, since_version=11)(rule)
    registry.register("", "SequenceMap", since_version=17)(_map)


def is_empty(sequence: ir.Value) -> bool:
    """Whether a sequence has no items: an operator makes it so, or it is marked (what a loop carries at first)."""
    producer = sequence.producer()
    return EMPTY in sequence.meta or (producer is not None and producer.op_type == "SequenceEmpty")


def _construct(context: ShapeInferenceContext, node: ir.Node) -> None:
    shapes = [value.shape for value in node.inputs if value is not None]
    shape = shapes[0]
    for other in shapes[1:]:
        shape = _common(context, shape, other)
    _set(node.outputs[0], _sequence_of(node.inputs[0]), shape)


def _insert(context: ShapeInferenceContext, node: ir.Node) -> None:
    sequence, item = node.inputs[:2]
    assert sequence is not None and item is not None
    shape = item.shape if is_empty(sequence) else _common(context, sequence.shape, item.shape)
    _set(node.outputs[0], sequence.type or _sequence_of(item), shape)


def _erase(context: ShapeInferenceContext, node: ir.Node) -> None:
    sequence = node.inputs[0]
    assert sequence is not None
    _set(node.outputs[0], sequence.type, sequence.shape)


def _at(context: ShapeInferenceContext, node: ir.Node) -> None:
    sequence = node.inputs[0]
    assert sequence is not None
    _set(node.outputs[0], _item_type(sequence), _item_shape(context, sequence))


def _split(context: ShapeInferenceContext, node: ir.Node) -> None:
    x = node.inputs[0]
    assert x is not None
    dims = None if x.shape is None else list(x.shape.dims)
    split = node.inputs[1] if len(node.inputs) > 1 else None
    if dims is not None:
        axis = node.attributes.get_int("axis", 0) % max(len(dims), 1)
        if split is not None:
            dims[axis] = context.new_symbolic_dim()
        elif node.attributes.get_int("keepdims", 1):
            dims[axis] = 1
        else:
            del dims[axis]
    _set(node.outputs[0], _sequence_of(x), None if dims is None else ir.Shape(dims))


def _concat(context: ShapeInferenceContext, node: ir.Node) -> None:
    sequence = node.inputs[0]
    assert sequence is not None
    shape = _item_shape(context, sequence)
    if shape is not None:
        dims: list[Dim] = list(shape.dims)
        stacks = bool(node.attributes.get_int("new_axis", 0))
        axis = (node.attributes.get_int("axis", 0) or 0) % (len(dims) + stacks)
        dims[axis : axis + (not stacks)] = [context.new_symbolic_dim()]
        shape = ir.Shape(dims)
    _set(node.outputs[0], _item_type(sequence), shape)


def _map(context: ShapeInferenceContext, node: ir.Node) -> None:
    for output, result in zip(node.outputs, node.attributes["body"].as_graph().outputs, strict=False):
        _set(output, _sequence_of(result), result.shape)


def _common(context: ShapeInferenceContext, a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
    """Dimensions that differ become new symbols."""
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([x if x == y else context.new_symbolic_dim() for x, y in zip(a.dims, b.dims, strict=True)])


def _item_shape(context: ShapeInferenceContext, sequence: ir.Value) -> ir.Shape | None:
    """The shape of one item: a symbol of the sequence may stand for another size in each of them."""
    if sequence.shape is None:
        return None
    return ir.Shape([dim if isinstance(dim, int) else context.new_symbolic_dim() for dim in sequence.shape.dims])


def _sequence_of(item: ir.Value | None) -> ir.TypeProtocol | None:
    return None if item is None or item.type is None else ir.SequenceType(item.type)


def _item_type(sequence: ir.Value) -> ir.TypeProtocol | None:
    return sequence.type.elem_type if isinstance(sequence.type, ir.SequenceType) else None


def _set(output: ir.Value, type_: ir.TypeProtocol | None, shape: ir.Shape | None) -> None:
    output.type = type_ or output.type
    output.shape = shape
