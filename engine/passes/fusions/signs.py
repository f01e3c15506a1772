"""What is known of the sign of a value; no rewrites of its own."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.queries import constant_value, is_float, scalar_value

_DEEPEST = 8
_SIZE = 1 << 16

_PLAIN = frozenset({"Abs", "Exp", "Sigmoid", "Softmax"})  # no -0.0 among their results
_NEVER_NEGATIVE = _PLAIN | {"Relu", "Sqrt", "HardSigmoid", "Softplus", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
_PASSED_ON = frozenset(
    {
        *("Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Slice", "Gather"),
        *("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReduceMean", "ReduceSum"),
    }
)
_OF_ALL = frozenset({"Concat", "Mul", "Div", "Min", "Sum"})


def never_negative(x: ir.Value | None, *, plain: bool = False, depth: int = _DEEPEST) -> bool:
    """Whether no element of a tensor of floats is below 0; NaN may be there. `plain`: nor is any -0.0."""
    if x is None or depth == 0 or not is_float(x):
        return False
    if (array := constant_value(x, _SIZE)) is not None:
        return array.dtype.kind not in "OSU" and _is_never_negative(array, plain)
    node = x.producer()
    if node is None or node.domain != "" or x is not node.outputs[0]:
        return False
    kind, inputs = node.op_type, node.inputs
    if kind in (_PLAIN if plain else _NEVER_NEGATIVE) or _is_square(node):
        return True
    if kind in _PASSED_ON:
        return never_negative(inputs[0], plain=plain, depth=depth - 1)
    if kind in _OF_ALL and not (plain and kind == "Min"):
        return all(never_negative(value, plain=plain, depth=depth - 1) for value in inputs)
    if kind == "Add":  # +0.0 and -0.0 give +0.0
        both = all(never_negative(value, depth=depth - 1) for value in inputs)
        return both and (not plain or any(never_negative(value, plain=True, depth=depth - 1) for value in inputs))
    return kind == "Clip" and len(inputs) > 1 and _bounds_are_above(inputs[1:], plain)


def _bounds_are_above(bounds: Sequence[ir.Value | None], plain: bool) -> bool:
    """Whether Clip gives nothing below 0: where the bounds contradict each other, it gives the upper one."""
    numbers = [scalar_value(bound) for bound in bounds if bound is not None]
    if bounds[0] is None:
        return False
    return all(number is not None and (number > 0 if plain else number >= 0) for number in numbers)


def _is_never_negative(array: np.typing.NDArray[np.generic], plain: bool) -> bool:
    numbers = array.astype(np.float64)
    return not ((np.signbit(numbers) if plain else numbers < 0) & ~np.isnan(numbers)).any()


def _is_square(node: ir.Node) -> bool:
    if node.op_type == "Mul":
        return node.inputs[0] is node.inputs[1]
    return node.op_type == "Pow" and scalar_value(node.inputs[1]) in (2, 4)
