"""Nodes that compute the same with the axes of their operands in another order; no rewrites of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.signatures import AttributeValue
from onnxgrad.engine.passes.purity import is_training
from onnxgrad.engine.passes.queries import element_count, from_front, ints_of, rank
from onnxgrad.engine.passes.rewrite import Builder

_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Cos", "Cosh"),
    *("Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu"),
    *("Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh"),
    *("Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
)
_BROADCAST = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Mean", "Sum", "And", "Or", "Xor", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Where", "PRelu", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
)
_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
_SOFTMAX_ON_AXIS = 13  # the opset from which Softmax works on one axis

Settings = Mapping[str, AttributeValue]


@dataclass(frozen=True)
class Permuted:
    """How a node is written for permuted operands.

    operands: positions of the inputs that are permuted.  inputs: what stands at the other positions.
    """

    operands: tuple[int, ...]
    inputs: Mapping[int, ir.Value | list[int] | None]
    attributes: Settings

    def write(self, op: Builder, node: ir.Node, operands: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
        """Add the node, with permuted operands."""
        given: list[ir.Value | list[int] | None] = [self.inputs.get(index) for index in range(self._count)]
        for position, value in zip(self.operands, operands, strict=True):
            given[position] = value
        return op.node(node.op_type, *given, outputs=len(node.outputs), domain="", **self.attributes)

    @property
    def _count(self) -> int:
        return max([*self.operands, *self.inputs]) + 1


def permuted(node: ir.Node, order: Sequence[int], opset: int) -> Permuted | None:
    """How `node` is written where its operands x = Transpose(x', order) are given as x', and its outputs are so too.

    None where the node depends on the order of its axes.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    if any(rank(output) != len(order) for output in node.outputs if output.name):
        return None
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    if opset < 7 or "broadcast" in attributes or "consumed_inputs" in attributes:
        return None
    return rule(node, order, attributes, opset)


Rule = Callable[[ir.Node, Sequence[int], dict[str, AttributeValue], int], Permuted | None]


def _unary(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    return Permuted((0,), dict(enumerate(node.inputs[1:], 1)), attributes)


def _broadcast(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    return Permuted(tuple(range(len(node.inputs))), {}, attributes)


def _dropout(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    return None if is_training(node) else _unary(node, order, attributes, opset)


def _scaled(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    """QuantizeLinear and DequantizeLinear by one scale."""
    scale = node.inputs[1] if len(node.inputs) > 1 else None
    if scale is None or element_count(scale) != 1 or rank(scale) != 0:
        return None
    return _unary(node, order, attributes, opset)


def _axis(default: int, since: int) -> Rule:
    """An attribute `axis`, from opset `since` on."""

    def rule(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
        axis = attributes.get("axis", default)
        found = from_front([axis], len(order)) if isinstance(axis, int) and opset >= since else None
        if found is None:
            return None
        last = len(node.inputs) if node.op_type == "Concat" else 1
        rest = dict(enumerate(node.inputs[last:], last))
        return Permuted(tuple(range(last)), rest, {**attributes, "axis": order[found[0]]})

    return rule


def _reduction(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    axes = ints_of(node.outputs[0], 1, "axes")
    found = None if axes is None else from_front(axes, len(order))
    if found is None or attributes.get("keepdims", 1) != 1:
        return None
    kept = {name: value for name, value in attributes.items() if name != "axes"}
    given = {1: [order[axis] for axis in found]} if found else dict(enumerate(node.inputs[1:], 1))
    return Permuted((0,), given, kept)


def _slice(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    if opset < 10:
        return None
    axes = ints_of(node.outputs[0], 3, "axes")
    starts = node.inputs[1]
    count = None if starts is None else element_count(starts)
    if axes is None or count is None:
        return None
    found = from_front(axes or range(count), len(order))
    if found is None:
        return None
    rest: dict[int, ir.Value | list[int] | None] = dict(enumerate(node.inputs[1:], 1))
    return Permuted((0,), {**rest, 3: [order[axis] for axis in found]}, attributes)


def _pad(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    if opset < 11 or (len(node.inputs) > 3 and node.inputs[3] is not None):
        return None
    pads = ints_of(node.outputs[0], 1, "pads")
    if pads is None or len(pads) != 2 * len(order):
        return None
    moved = np.zeros((2, len(order)), np.int64)
    moved[:, list(order)] = np.reshape(pads, (2, -1))
    return Permuted((0,), {1: moved.reshape(-1).tolist(), **dict(enumerate(node.inputs[2:], 2))}, attributes)


def _matmul(node: ir.Node, order: Sequence[int], attributes: Settings, opset: int) -> Permuted | None:
    """A product with one matrix, where the last axis stays."""
    w = node.inputs[1]
    if w is None or rank(w) != 2 or order[-1] != len(order) - 1:
        return None
    return Permuted((0,), {1: w}, attributes)


_RULES: dict[str, Rule] = {
    **dict.fromkeys((*_UNARY, "Clip"), _unary),
    **dict.fromkeys(_BROADCAST, _broadcast),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _axis(-1, _SOFTMAX_ON_AXIS)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _scaled),
    "Concat": _axis(1, 4),
    "Split": _axis(0, 2),
    "MatMul": _matmul,
    "Dropout": _dropout,
    "Slice": _slice,
    "Pad": _pad,
}
