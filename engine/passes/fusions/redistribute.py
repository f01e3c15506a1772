"""Constant factors move towards the weights that take them up (ParamRedistribute).

y * c, where y is a Conv or MatMul of constant weights that went through an activation, a bias, a change of shape or
another product, becomes the same of (Conv or MatMul) * c; rewrites of the convolution or product then take c up.
"""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import Attributes, doubles, fits, may_replace
from onnxgrad.engine.passes.queries import (
    broadcasts_into,
    is_constant,
    is_float,
    rank,
    readers,
    scalar_value,
    single_reader,
)
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_WEIGHTED = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})
_LIMIT = 1 << 16
_DEEPEST = 6
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")
_POOLS = ("AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool")


def absorbs(x: ir.Value | None, depth: int = _DEEPEST) -> bool:
    """Whether a number that `x` is multiplied with can go into constant weights, and only they are read for it."""
    node = None if x is None else x.producer()
    if x is None or node is None or node.domain != "" or depth == 0 or len(readers(x)) != 1 or not single_reader(x):
        return False
    if node.op_type in _WEIGHTED:
        w, bias = node.inputs[1], (*node.inputs, None)[2]
        return w is not None and is_constant(w) and may_replace(w) and (bias is None or is_constant(bias))
    if node.op_type == "Add":
        constants = [value for value in node.inputs if is_constant(value)]
        others = [value for value in node.inputs if not is_constant(value)]
        return len(constants) == len(others) == 1 and absorbs(others[0], depth - 1)
    return node.op_type in (*_MOVES, "Relu", "LeakyRelu") and absorbs(node.inputs[0], depth - 1)


def _is_positive(c: ir.Value) -> bool:
    numbers = doubles(c)
    return numbers is not None and 0 < numbers.size <= _LIMIT and bool((numbers > 0).all())


def _is_number(c: ir.Value, x: ir.Value) -> bool:
    """Whether `c` is one finite number that does not add dimensions to `x`."""
    number, size, own = scalar_value(c), rank(c), rank(x)
    fitting = size == 0 or (size is not None and own is not None and size <= own)
    return number is not None and is_float(c) and bool(np.isfinite(number)) and number != 0 and fitting


def _number(op: Builder, c: ir.Value) -> ir.Value:
    """The same number without dimensions."""
    numbers = doubles(c)
    assert numbers is not None and c.dtype is not None
    return op.constant(numbers.reshape(()).astype(c.dtype.numpy()))


def _again(op: Builder, y: ir.Value, x: ir.Value, c: ir.Value) -> ir.Value:
    """x * c or x / c, as `y` is made."""
    node = y.producer()
    assert node is not None
    return op.Mul(x, c) if node.op_type == "Mul" else op.Div(x, c)


class ScaleBeforeRelu(Rewrite):
    """Relu(x) * c -> Relu(x * c), for constants c > 0 and weights that take it up; / c and LeakyRelu too."""

    def pattern(self, op: Ops, x: Leaf, c: Leaf, kept: Leaf) -> Pattern:
        activation = op.one_of(("Relu", "LeakyRelu"), x, attributes=kept).named("h")
        return op.one_of(("Mul", "Div"), activation, op.constant(c)).named("y")

    def check(self, x: ir.Value, c: ir.Value) -> Match:
        return Match.all(_is_positive(c), broadcasts_into(c, x) or rank(c) == 0, absorbs(x))

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, c: ir.Value, kept: Attributes) -> ir.Value:
        node, scaled = h.producer(), _again(op, y, x, c)
        return op.Relu(scaled) if node is not None and node.op_type == "Relu" else op.LeakyRelu(scaled, **kept)


class ScaleBeforeMove(Rewrite):
    """Reshape(x) * s -> Reshape(x * s), for a constant number s and weights that take it up; Transpose too."""

    def pattern(self, op: Ops, x: Leaf, shape: Leaf, s: Leaf, kept: Leaf) -> Pattern:
        moved = op.one_of(_MOVES, x, op.optional(shape), attributes=kept).named("h")
        return op.one_of(("Mul", "Div"), moved, op.constant(s)).named("y")

    def check(self, x: ir.Value, h: ir.Value, s: ir.Value) -> Match:
        return Match.all(_is_number(s, h), absorbs(x))

    def rewrite(
        self,
        op: Builder,
        x: ir.Value,
        shape: ir.Value | None,
        h: ir.Value,
        y: ir.Value,
        s: ir.Value,
        kept: Attributes,
    ) -> ir.Value:
        node = h.producer()
        assert node is not None
        moved: ir.Value = getattr(op, node.op_type)(_again(op, y, x, _number(op, s)), shape, **kept)
        return moved


class ScaleBeforePool(Rewrite):
    """AveragePool(x) * s -> AveragePool(x * s), for a constant s > 0 and weights that take it up; MaxPool too."""

    def pattern(self, op: Ops, x: Leaf, s: Leaf, kept: Leaf) -> Pattern:
        pooled = op.one_of(_POOLS, x, attributes=kept).named("h")
        return op.one_of(("Mul", "Div"), pooled, op.constant(s)).named("y")

    def check(self, x: ir.Value, h: ir.Value, s: ir.Value) -> Match:
        return Match.all(_is_number(s, h), _is_positive(s), absorbs(x))

    def rewrite(self, op: Builder, x: ir.Value, h: ir.Value, y: ir.Value, s: ir.Value, kept: Attributes) -> ir.Value:
        node = h.producer()
        assert node is not None
        pooled: ir.Value = getattr(op, node.op_type)(_again(op, y, x, _number(op, s)), **kept)
        return pooled


class ScaleBeforeBias(Rewrite):
    """(x + b) * c -> x * c + b * c, for constants b and c and weights that take c up; / c too."""

    def pattern(self, op: Ops, x: Leaf, b: Leaf, c: Leaf) -> Pattern:
        shifted = op.Add(x, op.constant(b)).named("h")
        return op.one_of(("Mul", "Div"), shifted, op.constant(c)).named("y")

    def check(self, x: ir.Value, b: ir.Value, c: ir.Value, y: ir.Value) -> Match:
        return Match.all(absorbs(x), broadcasts_into(b, x), broadcasts_into(c, x), _scaled_bias(b, c, y) is not None)

    def rewrite(self, op: Builder, x: ir.Value, b: ir.Value, c: ir.Value, y: ir.Value) -> ir.Value:
        bias = _scaled_bias(b, c, y)
        assert bias is not None and b.dtype is not None
        return op.Add(_again(op, y, x, c), op.constant(bias.astype(b.dtype.numpy())))


def _scaled_bias(b: ir.Value, c: ir.Value, y: ir.Value) -> np.typing.NDArray[np.float64] | None:
    bias, factor, node = doubles(b), doubles(c), y.producer()
    if bias is None or factor is None or node is None or not factor.all():
        return None
    scaled = np.asarray(bias * factor if node.op_type == "Mul" else bias / factor)
    return scaled if scaled.size <= max(bias.size, factor.size) and fits(scaled, b.dtype) else None


class ScaleBeforeMatMul(Rewrite):
    """MatMul(x, z) * s -> MatMul(x * s, z), for a constant number s and weights before x or z that take it up; / s."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf, s: Leaf) -> Pattern:
        return op.one_of(("Mul", "Div"), op.MatMul(x, z).named("h"), op.constant(s)).named("y")

    def check(self, x: ir.Value, z: ir.Value, h: ir.Value, s: ir.Value) -> Match:
        return Match.all(_is_number(s, h), not is_constant(z), absorbs(x) or absorbs(z))

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value, y: ir.Value, s: ir.Value) -> ir.Value:
        number = _number(op, s)
        if absorbs(x):
            return op.MatMul(_again(op, y, x, number), z)
        return op.MatMul(x, _again(op, y, z, number))


class ScaleBeforeAdd(Rewrite):
    """(x + z) * s -> x * s + z * s, for a constant number s and weights before x and z that take it up; / s too."""

    def pattern(self, op: Ops, x: Leaf, z: Leaf, s: Leaf) -> Pattern:
        return op.one_of(("Mul", "Div"), op.Add(x, z).named("h"), op.constant(s)).named("y")

    def check(self, x: ir.Value, z: ir.Value, h: ir.Value, s: ir.Value) -> Match:
        return Match.all(_is_number(s, h), absorbs(x), absorbs(z))

    def rewrite(self, op: Builder, x: ir.Value, z: ir.Value, y: ir.Value, s: ir.Value) -> ir.Value:
        number = _number(op, s)
        return op.Add(_again(op, y, x, number), _again(op, y, z, number))


RULES: tuple[Rewrite, ...] = (
    ScaleBeforeRelu(),
    ScaleBeforeMove(),
    ScaleBeforePool(),
    ScaleBeforeBias(),
    ScaleBeforeMatMul(),
    ScaleBeforeAdd(),
)
"""To be applied after the fusions that look for scaled products (attention)."""
