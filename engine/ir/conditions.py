"""Conditions that are known before a model runs: they come from constants and static shapes."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

_COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_SMALL = 8  # elements: conditions look at single dimensions
_PASSES_ON = frozenset(("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"))


def known_condition(value: ir.Value | None) -> bool | None:
    """What a boolean of one element will be, None if that depends on the inputs of the model."""
    found = _known(value)
    return bool(found.item()) if found is not None and found.size == 1 else None


def _known(value: ir.Value | None) -> np.ndarray | None:
    """The elements of a small tensor of whole numbers or truth values, as a vector; None if they are not known."""
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return tensor.numpy().reshape(-1) if tensor.size <= _SMALL and not tensor.dtype.is_floating_point() else None
    node = value.producer()
    if node is None or node.domain != "" or not node.inputs:
        return None
    if node.op_type in ("Shape", "Size"):
        return _of_shape(node, None)
    if node.op_type == "Gather":
        return _gathered(node)
    operands = [_known(operand) for operand in node.inputs[: 2 if node.op_type in _COMPARISONS else 1]]
    first, second = operands[0], operands[-1]
    if first is None or second is None:
        return None
    if node.op_type in _COMPARISONS:
        fits = first.size == second.size or 1 in (first.size, second.size)
        return np.asarray(_COMPARISONS[node.op_type](first, second)) if fits else None
    if node.op_type == "Not":
        return np.asarray(np.logical_not(first))
    if node.op_type == "Cast" and node.attributes.get_int("to") == ir.DataType.BOOL:
        return first.astype(np.bool_)
    return first if node.op_type in _PASSES_ON else None


def _gathered(node: ir.Node) -> np.ndarray | None:
    """Elements of a vector; of a shape that need not be static otherwise."""
    vector, indices = node.inputs[0], _known(node.inputs[1])
    if vector is None or indices is None:
        return None
    shape = vector.producer()
    if shape is not None and shape.op_type == "Shape" and shape.domain == "":
        return _of_shape(shape, indices)
    elements = _known(vector)
    return None if elements is None or (abs(indices) > elements.size).any() else np.asarray(elements[indices])


def _of_shape(node: ir.Node, indices: np.ndarray | None) -> np.ndarray | None:
    """What a Shape or Size gives, or some elements of it, where these dimensions are static."""
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    dims = list(x.shape)[node.attributes.get_int("start", 0) or 0 : node.attributes.get_int("end", len(x.shape))]
    if indices is not None and (abs(indices) > len(dims)).any():
        return None
    chosen = dims if indices is None else [dims[index] for index in indices if index < len(dims)]
    if not all(isinstance(dim, int) for dim in chosen):
        return None
    found = np.asarray(chosen, np.int64)
    return found if node.op_type == "Shape" else np.asarray([found.prod()])
