"""Einsum as MatMul, Mul, Transpose and ReduceSum."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.einsum import RULES
from tests.engine.passes.checks import check, model_of, operators

SIZES = dict(zip("abcdhijkmnq", "23456789254", strict=True))


def model_with(equation, *, dtype="float", opset=13):
    """An Einsum of x, and of z where there are two operands; dimensions are numbers by label."""
    operands = equation.replace(" ", "").split("->")[0].split(",")
    shapes = [", ".join(SIZES.get(label, "2") for label in operand) for operand in operands]
    inputs = ", ".join(f"{dtype}[{shape}] {name}" for shape, name in zip(shapes, "xz", strict=False))
    rank = len(equation.partition("->")[2].strip())
    out = ", ".join("stuvw"[:rank])
    names = ", ".join("xz"[: len(operands)])
    result = f"{dtype}[{out}] y" if rank else f"{dtype} y"
    return model_of(f'g ({inputs}) => ({result}) {{ y = Einsum<equation="{equation}">({names}) }}', opset, 10)


@pytest.mark.parametrize("equation, expected", [
    ("ij,jk->ik", ["MatMul"]),
    ("bij,bjk->bik", ["MatMul"]),
    ("bij , jk -> bik", ["MatMul"]),
    ("abcij,jk->abcik", ["MatMul"]),
    ("bhij,bhjd->bhid", ["MatMul"]),
    ("bhid,bhjd->bhij", ["MatMul", "Transpose"]),
    ("bik,bjk->bij", ["MatMul", "Transpose"]),
    ("jk,bij->bik", ["MatMul"]),
    ("jk,ij->ik", ["MatMul"]),
    ("bij,j->bi", ["MatMul"]),
    ("i,i->", ["Mul", "ReduceSum"]),
    ("ij,ij->ij", ["Mul"]),
    ("ijk,ijk->i", ["Mul", "ReduceSum"]),
    ("ij->ji", ["Transpose"]),
    ("bhij->bjhi", ["Transpose"]),
    ("bij->bj", ["ReduceSum"]),
    ("ij->", ["ReduceSum"]),
    ("ij->ij", ["Identity"]),
])  # fmt: skip
def test_is_written_in_other_operators(equation, expected):
    assert operators(check(model_with(equation), *RULES, hits=1)) == expected


@pytest.mark.parametrize("equation", [
    "ii->i",  # a diagonal
    "iji->j",
    "bihd,bjhd->bhij",  # two Transposes
    "ij,jk->ki",
    "ij,kh->ijkh",  # an outer product
    "ijk,kj->i",  # two sums
    "bij,cjk->bcik",  # two batches
    "bij->jb",  # a sum and a Transpose
    "...ij->...ji",
])  # fmt: skip
def test_is_left_alone(equation):
    check(model_with(equation), *RULES, hits=0)


def test_three_operands_stay():
    inputs = "float[2, 3] x, float[3, 4] z, float[4, 5] w"
    graph = f'g ({inputs}) => (float[a, b] y) {{ y = Einsum<equation="ij,jk,kl->il">(x, z, w) }}'
    check(model_of(graph, 13), *RULES, hits=0)


def test_integers_stay():
    check(model_with("ij,jk->ik", dtype="int64"), *RULES, hits=0)


def test_a_constant_is_transposed_for_nothing():
    weight = np.ones((5, 3, 4), np.float32)
    graph = 'g (float[2, 3, 5] x) => (float[a, b, c] y) { y = Einsum<equation="ihk,khj->hij">(x, w) }'
    assert operators(check(model_of(graph, 13, w=weight), *RULES, hits=1)) == ["MatMul", "Transpose", "Transpose"]


@pytest.mark.parametrize("dims, hits", [("K, J", 1), ("L, J", 0)])
def test_summed_dimensions_must_be_the_same(dims, hits):
    graph = f'g (float[I, K] x, float[{dims}] z) => (float[I, J] y) {{ y = Einsum<equation="ik,kj->ij">(x, z) }}'
    check(model_of(graph, 13), *RULES, hits=hits)
