"""Shapes computed at run time become constants, where that is provable."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.remove_dead_code import remove_dead_code
from onnxgrad.engine.passes.simplify_shapes import simplify_shapes
from tests.engine.passes.checks import check, i64, model_of, operators

CONSTANTS = {"z": np.array(0), "one": np.array(1), "two": np.array(2), "ax": i64(0), "m1": i64(-1), "twelve": i64(12)}
FIRST = "s = Shape(x) i = Gather<axis=0>(s, z) u = Unsqueeze(i, ax)"

REWRITTEN = {
    # text, the constant that Reshape or Expand gets
    "batch and -1": (f"g (float[N,3,4] x) => (float[a,b] y) {{ {FIRST} c = Concat<axis=0>(u, m1) y = Reshape(x, c) "
                     f"}}", [0, -1]),
    "batch and a number": (f"g (float[N,3,4] x) => (float[a,b] y) {{ {FIRST} c = Concat<axis=0>(u, twelve) y = "
                           f"Reshape(x, c) }}", [-1, 12]),
    "static": (f"g (float[2,3,4] x) => (float[a,b] y) {{ {FIRST} c = Concat<axis=0>(u, m1) y = Reshape(x, c) "
               f"}}", [2, -1]),
    "product of dimensions": (
        "g (float[N,M,4] x) => (float[a,b] y) { s = Shape(x) i = Gather<axis=0>(s, z) j = Gather<axis=0>(s, one) p = "
        "Mul(i, j) "
        "u = Unsqueeze(p, ax) four = Constant<value_ints=[4]>() c = Concat<axis=0>(u, four) y = Reshape(x, c) "
        "}", [-1, 4]),
    "two copied dimensions": (
        "g (float[N,M,4] x) => (float[a,b,c,d] y) { s = Shape<end=2>(x) t = Constant<value_ints=[2,2]>() c = "
        "Concat<axis=0>(s, t) "
        "y = Reshape(x, c) }", [0, 0, 2, 2]),
    "expand to itself": ("g (float[N,3] x) => (float[a,b] y) { s = Shape(x) y = Expand(x, s) }", [1, 3]),
    "the masks of exporters": (
        "g (float[N,1] x) => (float[a,b] y) { r = Constant<value_ints=[2]>() k = Constant<value_ints=[-1,5]>() o = "
        "ConstantOfShape<value=int64[1]{1}>(r) "
        "m = Constant<value_ints=[-1,-1]>() e = Equal(k, m) w = Where(e, o, k) y = Expand(x, w) }", [1, 5]),
}  # fmt: skip

KEPT = {
    "two open dimensions": "g (float[N,M,4] x) => (float[a,b,c] y) "
    "{ s = Shape(x) k = Constant<value_ints=[1,0]>() g = Gather(s, k) t = Constant<value_ints=[4]>() c = "
    "Concat<axis=0>(g, t) "
    "y = Reshape(x, c) }",
    "-1 beside a copied dimension could meet an empty batch": "g (float[N,M,4] x) => (float[a,b,c] y) "
    "{ s = Shape(x) i = Gather<axis=0>(s, z) u = Unsqueeze(i, ax) j = Gather<axis=0>(s, one) f = Mul(j, two) v = "
    "Unsqueeze(f, ax) "
    "t = Constant<value_ints=[2]>() c = Concat<axis=0>(u, v, t) y = Reshape(x, c) }",
    "data": "g (float[N] x, int64[1] d) => (float[a] y) { y = Reshape(x, d) }",
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_becomes_a_constant(name):
    text, target = REWRITTEN[name]
    result = check(model_of(text, **CONSTANTS), simplify_shapes, remove_dead_code)
    (node,) = [node for node in result.graph if node.op_type != "Constant"]
    assert node.inputs[1].const_value.numpy().tolist() == target


@pytest.mark.parametrize("name", KEPT)
def test_stays(name):
    result = check(model_of(KEPT[name], **CONSTANTS), simplify_shapes)
    assert next(n for n in result.graph if n.op_type == "Reshape").inputs[1].const_value is None


def test_an_empty_batch_still_works():
    """The constant shape must take what the computed one takes: here N = 0."""
    text = f"g (float[N,3,4] x) => (float[a,b] y) {{ {FIRST} c = Concat<axis=0>(u, twelve) y = Reshape(x, c) }}"
    result = check(model_of(text, **CONSTANTS), simplify_shapes)
    assert og.compile(result)(np.zeros((0, 3, 4), np.float32))["y"].shape == (0, 12)


def test_literal_zeros_of_allowzero_stay():
    text = "g (float[0,6,2] x) => (float[a,b,c] y) { m = Reshape(x, s1) y = Reshape<allowzero=1>(m, s2) }"
    result = check(model_of(text, s1=i64(3, 2, -1), s2=i64(0, 0, 3)), simplify_shapes)
    assert operators(result) == ["Reshape", "Reshape"]


def test_integer_arithmetic_of_shapes():
    text = ("g (float[7,2] x) => (int64[2] y) { s = Shape(x) k = Constant<value_ints=[-2,3]>() d = Div(s, k) y = "
            "Sub(d, s) }")  # fmt: skip
    assert operators(check(model_of(text), simplify_shapes)) == []
