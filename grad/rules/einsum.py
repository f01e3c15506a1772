"""Einsum: sums of products, by letters."""

from dataclasses import dataclass
from string import ascii_letters

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@dataclass(frozen=True)
class Equation:
    """The letters of each operand and of the result; every dimension of an ellipsis has a letter of its own."""

    operands: tuple[str, ...]
    result: str


@gradient("Einsum", broadcasts=True)
def einsum(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum of products:  each operand gets the sum of products of dy and the other operands, over its own letters"""
    operands = [value for value in node.inputs if value is not None]
    equation = parse(node, [rank(value) for value in operands])
    return [_operand(op, equation, operands, k, dy) if op.wants(x) else None for k, x in enumerate(operands)]


def _operand(op: Builder, equation: Equation, operands: list[ir.Value], k: int, dy: ir.Value) -> ir.Value:
    x, letters = operands[k], equation.operands[k]
    terms = [(equation.result, dy), *((equation.operands[i], v) for i, v in enumerate(operands) if i != k)]
    given = {letter: size for word, term in terms for letter, size in zip(word, _sizes(term, word), strict=True)}
    distinct = "".join(dict.fromkeys(letters))
    kept = "".join(letter for letter in distinct if letter in given)
    grad = op.Einsum(*(v for _, v in terms), equation=f"{','.join(word for word, _ in terms)}->{kept}")
    if len(terms) == 1 and kept == equation.result:
        grad = dy
    if kept != distinct:  # letters that only x has: summed out, so the same along them
        grad = op.Unsqueeze(grad, [axis for axis, letter in enumerate(distinct) if letter not in given])
    if len(distinct) < len(letters):
        return _diagonal(op, grad, distinct, letters, x)
    sizes = zip(letters, x.shape, strict=True)  # type: ignore[arg-type]
    same = all(letter in given and _same(given[letter], size) for letter, size in sizes)
    return grad if same else op.Expand(grad, op.shape_of(x))


def _sizes(term: ir.Value, word: str) -> list[int | ir.SymbolicDim | None]:
    return [None] * len(word) if term.shape is None else list(term.shape)


def _same(one: object, other: object) -> bool:
    return one == other and one is not None and str(one) != "None"


def _diagonal(op: Builder, grad: ir.Value, distinct: str, letters: str, x: ir.Value) -> ir.Value:
    """`grad`, with a letter an axis, where the axes of x that share a letter are equal; zeros elsewhere."""
    shape, size = op.shape_of(x), len(letters)
    places = [letters.index(letter) for letter in distinct]
    order = sorted(range(len(distinct)), key=lambda k: places[k])
    grad = op.Transpose(grad, perm=order) if order != sorted(order) else grad
    repeats = [axis for axis, letter in enumerate(letters) if letters.index(letter) != axis]
    grad = op.Unsqueeze(grad, repeats)
    for axis in repeats:
        first = letters.index(letters[axis])
        along = [op.Reshape(op.Range(0, op.Gather(shape, k), 1), _column(size, k)) for k in (first, axis)]
        grad = op.Mul(grad, op.Cast(op.Equal(*along), to=grad.dtype))
    return op.Expand(grad, shape)


def _column(size: int, axis: int) -> np.ndarray:
    return np.array([-1 if k == axis else 1 for k in range(size)], np.int64)


def parse(node: ir.Node, ranks: list[int]) -> Equation:
    """The equation of an Einsum node for operands of these ranks.

    Raises: GradientError if the equation does not fit the operands.
    """
    text = node.attributes.get_string("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    words = left.split(",")
    spare = [letter for letter in ascii_letters if letter not in text]
    widths = [
        size - len(word.replace("...", "")) if "..." in word else 0 for word, size in zip(words, ranks, strict=False)
    ]
    width = max(widths, default=0)
    if len(words) != len(ranks) or width > len(spare) or min(widths, default=0) < 0:
        raise GradientError(f"the equation {text!r} does not fit the operands", where=describe(node))
    dots = "".join(spare[:width])
    spelled = tuple(word.replace("...", dots[width - own :]) for word, own in zip(words, widths, strict=True))
    if any(len(word) != size for word, size in zip(spelled, ranks, strict=True)):
        raise GradientError(f"the equation {text!r} does not fit the operands", where=describe(node))
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." + "".join(letter for letter in sorted(set(letters)) if letters.count(letter) == 1)
    return Equation(spelled, right.replace("...", dots))
