"""Today's operator signatures in older opsets: inputs that were attributes before some opset."""

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import OpsetError

AttributeValue = int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | ir.TensorProtocol | ir.Graph

# op -> (first opset with inputs, {input position: attribute of older opsets})
_BECAME_INPUT: dict[str, tuple[int, dict[int, str]]] = {
    **dict.fromkeys(("ReduceSum", "Squeeze", "Unsqueeze"), (13, {1: "axes"})),
    **dict.fromkeys(
        (
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
            *("ReduceProd", "ReduceSumSquare"),
        ),
        (18, {1: "axes"}),
    ),
    "Split": (13, {1: "split"}),
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "TopK": (10, {1: "k"}),
    "Dropout": (12, {1: "ratio"}),
}


def to_opset(
    op_type: str, opset: int, inputs: Sequence[ir.Value | None], attributes: Mapping[str, AttributeValue]
) -> tuple[list[ir.Value | None], dict[str, AttributeValue]]:
    """Inputs and attributes of a call in today's signature, as `opset` (below 18) wants them."""
    since, positions = _BECAME_INPUT.get(op_type, (0, {}))
    kept, moved = list(inputs), dict(attributes)
    if op_type.startswith("Reduce") and opset < since:
        moved.pop("noop_with_empty_axes", None)
    if op_type == "Split" and opset < 18:
        moved.pop("num_outputs", None)
    if opset >= since:
        return kept, moved
    for position, name in positions.items():
        value = inputs[position] if position < len(inputs) else None
        if value is None:
            continue
        constant = ir.convenience.get_const_tensor(value)
        if constant is None:
            raise OpsetError(
                f"{op_type} takes {name!r} as an attribute before opset {since}, and its value is not a constant",
                where=f"input {value.name!r}, opset {opset}",
                fix=f"raise the model's opset to {since}",
            )
        array = constant.numpy()
        moved[name] = array.item() if array.ndim == 0 or name == "k" else array.tolist()
    return kept[: min(positions)], moved


def to_attributes(values: Mapping[str, AttributeValue]) -> list[ir.Attr]:
    """Attributes of a node from Python values. Quick for numbers, which most are."""
    return [_attribute(name, value) for name, value in values.items()]


def _attribute(name: str, value: AttributeValue) -> ir.Attr:
    if isinstance(value, int):
        return ir.AttrInt64(name, value)
    if isinstance(value, list) and value and all(type(number) is int for number in value):
        return ir.AttrInt64s(name, value)
    return ir.convenience.convert_attribute(name, value)
