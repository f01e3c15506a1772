"""Einsum as the operators that runtimes are fast at, where at most one value must be transposed for it."""

import re
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.passes.queries import dims, is_constant, rank, same_dim
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})


def _terms(equation: str) -> tuple[tuple[str, ...], str] | None:
    """The labels of the operands and of the output; None with an ellipsis, or a label twice in one of them."""
    left, arrow, right = re.sub(r"\s", "", equation).partition("->")
    operands = tuple(left.split(","))
    if not arrow:
        labels = "".join(operands)
        right = "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    terms = (*operands, right)
    if any(len(set(term)) != len(term) or not re.fullmatch("[A-Za-z]*", term) for term in terms):
        return None
    return (operands, right) if set(right) <= set("".join(operands)) else None


def _permutation(source: str, target: str) -> list[int]:
    return [source.index(label) for label in target]


def _transposed(op: Builder, x: ir.Value, source: str, target: str) -> ir.Value:
    return x if source == target else op.Transpose(x, perm=_permutation(source, target))


class EinsumToTranspose(Rewrite):
    """Einsum of one operand -> Transpose or ReduceSum."""

    since = 12

    def pattern(self, op: Ops, x: Leaf, equation: Leaf) -> Pattern:
        return op.Einsum(x, equation=equation)

    def check(self, x: ir.Value, equation: str) -> Match:
        found = _terms(equation)
        if found is None or len(found[0]) != 1 or rank(x) != len(found[0][0]):
            return Match.no("an ellipsis, a diagonal, or another rank")
        (own,), out = found
        in_order = "".join(label for label in own if label in out) == out
        is_pure = in_order or len(own) == len(out)
        return Match.all(x.dtype in _FLOATS, is_pure)

    def rewrite(self, op: Builder, x: ir.Value, equation: str) -> ir.Value:
        found = _terms(equation)
        assert found is not None
        (own,), out = found
        summed = [axis for axis, label in enumerate(own) if label not in out]
        if summed:
            return op.ReduceSum(x, summed, keepdims=0)
        return op.Identity(x) if own == out else _transposed(op, x, own, out)


class EinsumToMul(Rewrite):
    """Einsum of two operands with the same labels -> Mul, and the ReduceSum of it."""

    since = 12

    def pattern(self, op: Ops, a: Leaf, b: Leaf, equation: Leaf) -> Pattern:
        return op.Einsum(a, b, equation=equation)

    def check(self, a: ir.Value, b: ir.Value, equation: str) -> Match:
        found = _terms(equation)
        if found is None:
            return Match.no("an ellipsis or a diagonal")
        (first, second), out = found
        in_order = "".join(label for label in first if label in out) == out
        return Match.all(a.dtype in _FLOATS, first == second, in_order, rank(a) == rank(b) == len(first))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, equation: str) -> ir.Value:
        found = _terms(equation)
        assert found is not None
        (own, _), out = found
        summed = [axis for axis, label in enumerate(own) if label not in out]
        product = op.Mul(a, b)
        return op.ReduceSum(product, summed, keepdims=0) if summed else product


@dataclass(frozen=True)
class _Product:
    """MatMul of the operands, the labels of each brought into this order; `swapped`: the second is the left one."""

    left: str
    right: str
    swapped: bool


def _products(first: str, second: str, out: str) -> list[_Product]:
    """The ways to write a contraction of one label as one MatMul."""
    shared = set(first) & set(second)
    summed = shared - set(out)
    if len(summed) != 1 or (set(first) | set(second)) - shared - set(out):
        return []
    (k,) = summed
    return [*_as_matmul(first, second, out, k, False), *_as_matmul(second, first, out, k, True)]


def _as_matmul(a: str, b: str, out: str, k: str, swapped: bool) -> list[_Product]:
    """left[..., m, k] @ right[..., k, n], or @ right[k, n], or @ right[k]."""
    columns = [label for label in b if label not in a]
    if not set(b) & set(a) - {k}:
        rows = "".join(label for label in out if label in a)
        fits = len(columns) <= 1 and out == rows + "".join(columns)
        return [_Product(rows + k, k + "".join(columns), swapped)] if fits else []
    own = [label for label in a if label not in b]
    batch = "".join(label for label in out if label in a and label in b)
    fits = len(own) == len(columns) == 1 and out == batch + own[0] + columns[0]
    return [_Product(batch + own[0] + k, batch + k + columns[0], swapped)] if fits else []


def _moves(product: _Product, first: str, second: str, a: ir.Value, b: ir.Value) -> int:
    """How many Transposes of values that are no constants a product needs."""
    left, right = (b, a) if product.swapped else (a, b)
    own = (second, first) if product.swapped else (first, second)
    return (product.left != own[0] and not is_constant(left)) + (product.right != own[1] and not is_constant(right))


def _best(a: ir.Value, b: ir.Value, equation: str) -> _Product | None:
    """The product with the fewest Transposes, where it has at most one."""
    found = _terms(equation)
    if found is None or len(found[0]) != 2:
        return None
    (first, second), out = found
    if rank(a) != len(first) or rank(b) != len(second):
        return None
    ways = sorted(_products(first, second, out), key=lambda way: _moves(way, first, second, a, b))
    return ways[0] if ways and _moves(ways[0], first, second, a, b) <= 1 else None


class EinsumToMatMul(Rewrite):
    """Einsum that multiplies matrices -> MatMul, with at most one Transpose."""

    since = 12

    def pattern(self, op: Ops, a: Leaf, b: Leaf, equation: Leaf) -> Pattern:
        return op.Einsum(a, b, equation=equation)

    def check(self, a: ir.Value, b: ir.Value, equation: str) -> Match:
        return Match.all(a.dtype in _FLOATS, _best(a, b, equation) is not None, _sums_equal_sizes(a, b, equation))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, equation: str) -> ir.Value:
        found, way = _terms(equation), _best(a, b, equation)
        assert found is not None and way is not None
        (first, second), _ = found
        if way.swapped:
            a, b, first, second = b, a, second, first
        return op.MatMul(_transposed(op, a, first, way.left), _transposed(op, b, second, way.right))


def _sums_equal_sizes(a: ir.Value, b: ir.Value, equation: str) -> bool:
    """Whether the summed dimensions are certainly equal: MatMul does not broadcast them."""
    found, own, other = _terms(equation), dims(a), dims(b)
    if found is None or own is None or other is None:
        return False
    (first, second), out = found
    summed = [label for label in first if label in second and label not in out]
    return all(same_dim(own[first.index(label)], other[second.index(label)]) for label in summed)


RULES: tuple[Rewrite, ...] = (EinsumToTranspose(), EinsumToMul(), EinsumToMatMul())
