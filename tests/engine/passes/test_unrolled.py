"""Products over time steps that an exporter wrote out one by one."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.unrolled import RULES
from tests.engine.passes.checks import check, model_of, operators

W, C = np.arange(20, dtype=np.float32).reshape(4, 5), np.arange(5, dtype=np.float32)


def unrolled(indices=(0, 1, 2), product="Gemm", operands="w, c", axis=0, size=3, extra="", **weights):
    """Concat over steps of x[t] @ w + c."""
    shape = [2, 4]
    shape.insert(axis, size)
    steps = "".join(
        f" a{n} = Gather<axis={axis}>(x, i{t}) b{n} = {product}(a{n}, {operands}) u{n} = Unsqueeze(b{n}, o)"
        for n, t in enumerate(indices)
    )
    numbers = "".join(f" i{t} = Constant<value_int = {t}>()" for t in sorted(set(indices)))
    joined = ", ".join(f"u{n}" for n in range(len(indices)))
    header = f"g (float[{','.join(map(str, shape))}] x) => (float[p,q,r] y{extra})"
    constants = {"w": W, "c": C, **weights}
    constants = {name: array for name, array in constants.items() if name in operands}
    text = f"{header} {{{numbers}{steps} y = Concat<axis={axis}>({joined}) }}".replace("i-1", "m1")
    return model_of(text, 13, o=np.array([axis]), **constants)


BETTER = {
    "Gemm": (unrolled(), ["Add", "MatMul"]),
    "MatMul": (unrolled(product="MatMul", operands="w"), ["MatMul"]),
    "Gemm without a bias": (unrolled(operands="w"), ["MatMul"]),
    "another axis": (unrolled(axis=1), ["Add", "MatMul"]),
    "the last step from the end": (unrolled(indices=(0, 1, -1)), ["Add", "MatMul"]),
}

KEPT = {
    "another order": unrolled(indices=(0, 2, 1)),
    "not all steps": unrolled(indices=(0, 1)),
    "a step twice": unrolled(indices=(0, 1, 1)),
    "an alpha": unrolled(product="Gemm<alpha=2.0>"),
    "a product that others read": unrolled(extra=", float[2,5] b1"),
    "a step that is an output": unrolled(extra=", float[2,4] a1"),
}


@pytest.mark.parametrize("name", BETTER)
def test_one_product_takes_their_place(name):
    model, left = BETTER[name]
    assert operators(check(model, *RULES, hits=1)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    check(KEPT[name], *RULES, hits=0)


def test_transposed_weights_are_turned():
    model = unrolled(product="Gemm<transB=1>", operands="v, c", v=np.ascontiguousarray(W.T))
    assert operators(check(model, *RULES, hits=1)) == ["Add", "MatMul", "Transpose"]
