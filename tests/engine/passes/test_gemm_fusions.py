"""MatMul and Gemm with bias, scale, normalization and transposes around them."""

import numpy as np
import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.fusions import gemm, gemm_weights
from tests.engine.passes.checks import check, f32, i64, model_of, operators

RULES = (*gemm_weights.RULES, *gemm.RULES)
_RANDOM = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return _RANDOM.standard_normal(shape).astype(dtype)


def statistics(channels):
    """The constants of a BatchNormalization."""
    scale, var = np.abs(normal(channels)) + 0.5, np.abs(normal(channels)) + 0.5
    return dict(zip("stmv", (scale, normal(channels), normal(channels), var), strict=True))


W, B = normal(3, 4), normal(4)
TWO = "float[N,3] x, float[3,4] z"

# graph, constants, operators afterwards, first opset
DONE = {
    "bias": (f"g ({TWO}) => (float[N,4] y) {{ h = MatMul(x, z) y = Add(b, h) }}", {"b": B}, ["Gemm"], 7),
    "bias of reshaped rows": (
        "g (float[10,3] x, float[3,4] z) => (float[2,5,4] y) { r = Reshape(x, s) h = MatMul(r, z) y = Add(b, h) }",
        {"b": B, "s": i64(2, -1, 3)},
        ["Gemm", "Reshape"],
        9,
    ),
    "bias of a matrix with one dimension more": (
        f"g ({TWO}) => (float[1,N,4] y) {{ r = Unsqueeze(x, ax) h = MatMul(r, z) y = Add(h, b) }}",
        {"b": B.reshape(1, 4), "ax": i64(0)},
        ["Gemm", "Reshape"],
        13,
    ),
    "bias of a row each": (
        "g (float[2,3] x, float[3,4] z, float[2,1] b) => (float[2,4] y) { h = MatMul(x, z) y = Add(h, b) }",
        {},
        ["Gemm"],
        7,
    ),
    "a sum of products": (
        f"g ({TWO}, float[N,3] u) => (float[N,4] y) {{ h = MatMul(x, z) k = MatMul(u, z) y = Add(h, k) }}",
        {},
        ["Gemm", "MatMul"],
        7,
    ),
    "a bias less a product": (
        f"g ({TWO}, float[4] b) => (float[N,4] y) {{ h = MatMul(x, z) y = Sub(b, h) }}",
        {},
        ["Gemm"],
        7,
    ),
    "a constant less a Gemm": (
        f"g ({TWO}) => (float[N,4] y) {{ h = Gemm<alpha=0.5>(x, z, b) y = Sub(c, h) }}",
        {"b": B, "c": normal(4)},
        ["Gemm"],
        7,
    ),
    "a second bias": (
        f"g ({TWO}) => (float[N,4] y) {{ h = Gemm<beta=2.0>(x, z, b) y = Sub(h, c) }}",
        {"b": B, "c": f32(3)},
        ["Gemm"],
        7,
    ),
    "bias of Gemm": (
        f"g ({TWO}, float[4] b) => (float[N,4] y) {{ h = Gemm<alpha=2.0>(x, z) y = Add(h, b) }}",
        {},
        ["Gemm"],
        11,
    ),
    "transposes": (
        "g (float[3,N] x, float[4,3] z, float[4] b) => (float[N,4] y) "
        "{ p = Transpose<perm=[1,0]>(x) q = Transpose(z) y = Gemm(p, q, b) }",
        {},
        ["Gemm"],
        7,
    ),
    "a transpose of what is transposed": (
        "g (float[N,3] x, float[4,3] z, float[4] b) => (float[N,4] y) "
        "{ q = Transpose(z) r = Transpose(q) y = Gemm<transB=1>(x, r, b) }",
        {},
        ["Gemm"],
        7,
    ),
    "a transpose before MatMul": (
        "g (float[N,3] x, float[4,3] z) => (float[N,4] y) { q = Transpose(z) y = MatMul(x, q) }",
        {},
        ["Gemm"],
        11,
    ),
    "scale": (
        f"g ({TWO}, float[4] b) => (float[N,4] y) {{ h = Gemm(x, z, b) y = Div(h, c) }}",
        {"c": np.float32(4)},
        ["Gemm"],
        7,
    ),
    "scale of MatMul": (
        f"g ({TWO}) => (float[N,4] y) {{ h = MatMul(x, z) y = Mul(c, h) }}",
        {"c": f32(3)},
        ["Gemm"],
        11,
    ),
    "scales of operands": (
        f"g ({TWO}, float[4] b) => (float[N,4] y) "
        "{ p = Mul(x, c) q = Div(z, d) r = Mul(b, c) h = Gemm(p, q, r) y = Neg(h) }",
        {"c": np.float32(4), "d": np.float32(3)},
        ["Gemm"],
        7,
    ),
    "batch norm of Gemm": (
        "g (float[N,3] x) => (float[N,4] y) "
        "{ h = Gemm<alpha=2.0,beta=0.5>(x, w, b) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W, "b": B, **statistics(4)},
        ["Gemm"],
        9,
    ),
    "batch norm of Gemm with turned weights": (
        "g (float[N,3] x) => (float[N,4] y) { h = Gemm<transB=1>(x, w, b) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W.T.copy(), "b": B, **statistics(4)},
        ["Gemm"],
        9,
    ),
    "batch norm of MatMul": (
        "g (float[N,3] x) => (float[N,4] y) { h = MatMul(x, w) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W, **statistics(4)},
        ["Gemm"],
        9,
    ),
    "batch norm of the input": (
        "g (float[N,3] x) => (float[N,4] y) { k = BatchNormalization(x, s, t, m, v) y = Gemm<alpha=2.0>(k, w, b) }",
        {"w": W, "b": B, **statistics(3)},
        ["Gemm"],
        9,
    ),
    "summand of the input": (
        "g (float[N,3] x) => (float[N,4] y) { k = Sub(x, c) y = Gemm<transB=1>(k, w, b) }",
        {"w": W.T.copy(), "b": B, "c": normal(3)},
        ["Gemm"],
        7,
    ),
    "scale of columns": (
        "g (float[N,2,3] x) => (float[N,2,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": W, "c": normal(4)},
        ["MatMul"],
        7,
    ),
    "scale of columns of Gemm": (
        "g (float[N,3] x) => (float[N,4] y) { h = Gemm(x, w, b) y = Div(h, c) }",
        {"w": W, "b": B, "c": normal(1, 4)},
        ["Gemm"],
        7,
    ),
    "scale of many products": (
        "g (float[N,2,5,3] x) => (float[N,2,5,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": normal(2, 3, 4), "c": normal(1, 1, 1, 4)},
        ["MatMul"],
        7,
    ),
    "scale of rows": (
        "g (float[N,2,3] x) => (float[N,2,4] y) { k = Div(x, c) y = MatMul(k, w) }",
        {"w": W, "c": normal(3)},
        ["MatMul"],
        7,
    ),
    "scale of rows of a turned operand": (
        "g (float[3,N] x) => (float[N,4] y) { k = Mul(x, c) y = Gemm<transA=1>(k, w, b) }",
        {"w": W, "b": B, "c": normal(3, 1)},
        ["Gemm"],
        7,
    ),
    "negation": ("g (float[N,2,3] x) => (float[N,2,4] y) { h = MatMul(x, w) y = Neg(h) }", {"w": W}, ["MatMul"], 7),
}


@pytest.mark.parametrize("name", DONE)
def test_a_product_takes_up(name):
    text, constants, expected, since = DONE[name]
    for opset in (since, 21):
        assert operators(check(model_of(text, opset, **constants), *RULES)) == expected, opset


KEPT = {
    "a bias that makes it larger": "g (float[3,3] a, float[3,1] z, float[1,4] c) => (float[3,4] y) "
    "{ h = MatMul(a, z) y = Add(h, c) }",
    "a bias of unknown rows": "g (float[N,3] x, float[3,4] z, float[M,4] c) => (float[P,4] y) "
    "{ h = MatMul(x, z) y = Add(h, c) }",
    "a bias of more dimensions": "g (float[N,3] x, float[3,4] z, float[1,1,4] c) => (float[1,N,4] y) "
    "{ h = MatMul(x, z) y = Add(h, c) }",
    "three dimensions": "g (float[2,N,3] x, float[3,4] z, float[4] c) => (float[2,N,4] y) "
    "{ h = MatMul(x, z) y = Add(h, c) }",
    "one dimension": "g (float[3] x, float[3,4] z, float[4] c) => (float[4] y) { h = MatMul(x, z) y = Add(h, c) }",
    "integers": "g (int32[2,3] x, int32[3,4] z, int32[4] c) => (int32[2,4] y) { h = MatMul(x, z) y = Add(h, c) }",
    "another reader": "g (float[2,3] x, float[3,4] z, float[4] c) => (float[2,4] y, float[2,4] u) "
    "{ h = MatMul(x, z) y = Add(h, c) u = Relu(h) }",
    "a graph output": "g (float[2,3] x, float[3,4] z, float[4] c) => (float[2,4] y, float[2,4] h) "
    "{ h = MatMul(x, z) y = Add(h, c) }",
    "a transpose that moves nothing": "g (float[2,3] x, float[3,4] z, float[4] c) => (float[2,4] y) "
    "{ t = Transpose<perm=[0,1]>(x) y = Gemm(t, z, c) }",
    "a factor that varies": "g (float[2,3] x, float[3,4] z, float[4] c, float s) => (float[2,4] y) "
    "{ h = Gemm(x, z, c) y = Mul(h, s) }",
    "division by a product": "g (float[2,3] x, float[3,4] z, float[4] c) => (float[2,4] y) "
    "{ s = Constant<value_float=2.0>() h = Gemm(x, z, c) y = Div(s, h) }",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_product_stays_beside(name):
    check(model_of(KEPT[name]), *RULES, hits=0)


KEPT_WEIGHTS = {
    "scale of a middle axis": (
        "g (float[2,4,3] x) => (float[2,4,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": W, "c": normal(4, 1)},
    ),
    "batch norm of a middle axis": (
        "g (float[2,4,3] x) => (float[2,4,4] y) { h = MatMul(x, w) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W, **statistics(4)},
    ),
    "scale that makes columns of one": (
        "g (float[2,3] x) => (float[2,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": W[:, :1].copy(), "c": B},
    ),
    "scale that makes rows of one": (
        "g (float[2,1] x) => (float[2,4] y) { k = Mul(x, c) y = MatMul(k, w) }",
        {"w": W, "c": normal(3)},
    ),
    "weights that an input overrides": (
        "g (float[2,3] x, float[3,4] w) => (float[2,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": W, "c": B},
    ),
    "large weights with other readers": (
        "g (float[1,300] x) => (float[1,300] y, float[1,300] z) { h = MatMul(x, w) y = Mul(h, c) z = MatMul(y, w) }",
        {"w": normal(300, 300) * 0.01, "c": normal(300)},
    ),
    "infinite scale": (
        "g (float[2,3] x) => (float[2,4] y) { h = MatMul(x, w) y = Mul(h, c) }",
        {"w": W, "c": f32(1, 2, np.inf, 3)},
    ),
    "scale in float64 that float32 does not hold": (
        "g (double[2,3] x, double[3,4] z) => (double[2,4] y) { h = MatMul(x, z) y = Mul(h, c) }",
        {"c": np.float64(0.1)},
    ),
    "far summand of the input": (
        "g (float[2,3] x) => (float[2,4] y) { k = Add(x, c) y = Gemm(k, w, b) }",
        {"w": W, "b": B, "c": f32(1e6)},
    ),
}


@pytest.mark.parametrize("name", KEPT_WEIGHTS)
def test_weights_do_not_take_up(name):
    text, constants = KEPT_WEIGHTS[name]
    check(model_of(text, **constants), *RULES, hits=0)


@pytest.mark.parametrize("opset", [7, 10])
def test_no_gemm_without_bias_before_it_may_be_left_out(opset):
    text = "g (float[2,3] x, float[4,3] z) => (float[2,4] y) { t = Transpose(z) y = MatMul(x, t) }"
    check(model_of(text, opset), *RULES, hits=0)


def test_a_product_in_a_function_takes_up_negation():
    text = (
        '<ir_version: 10, opset_import: ["" : 18, "own" : 1]>\n'
        "g (float[2,3] x, float[3,4] z, float[4] c) => (float[2,4] y) { y = own.dense(x, z, c) }\n"
        '<domain: "own", opset_import: ["" : 18]>\n'
        "dense (x, z, c) => (y) { h = Gemm<alpha=2.0>(x, z) t = Neg(h) y = Add(t, c) }"
    )
    result = check(og.load(onnx.parser.parse_model(text)), *RULES)
    (function,) = result.functions.values()
    assert [node.op_type for node in function.graph] == ["Gemm", "Add"]
