"""Constant factors move to the weights that take them up."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions import conv, gemm_weights, redistribute
from tests.engine.passes.checks import check, f32, i64, model_of, operators

RULES = (*redistribute.RULES,) * 3 + (*conv.RULES, *gemm_weights.RULES)
_RANDOM = np.random.default_rng(0)


def normal(*shape):
    return _RANDOM.standard_normal(shape).astype(np.float32)


W, K = normal(4, 3, 3, 3), normal(6, 8)
C = np.abs(normal(4, 1, 1)) + 0.5
IMAGE = "g (float[N,3,8,8] x) => (float[A,B,C,D] y)"
ROWS = "g (float[N,5,6] x, float[N,2,4,5] z) => (float[A,B,C,D] y)"

DONE = {
    "before Relu": (f"{IMAGE} {{ h = Conv(x, w) r = Relu(h) y = Mul(r, c) }}", {"w": W, "c": C}, ["Conv", "Relu"]),
    "before LeakyRelu": (
        f"{IMAGE} {{ h = Conv(x, w) r = LeakyRelu<alpha=0.3>(h) y = Div(r, c) }}",
        {"w": W, "c": f32(3)},
        ["Conv", "LeakyRelu"],
    ),
    "before a pool": (
        f"{IMAGE} {{ h = Conv(x, w) r = Relu(h) p = MaxPool<kernel_shape=[2,2]>(r) y = Mul(p, c) }}",
        {"w": W, "c": np.float32(2)},
        ["Conv", "MaxPool", "Relu"],
    ),
    "before a sum of convolutions": (
        f"{IMAGE} {{ h = Conv(x, w) k = Conv(x, v) a = Add(h, k) y = Mul(a, c) }}",
        {"w": W, "v": normal(4, 3, 3, 3), "c": np.float32(2)},
        ["Add", "Conv", "Conv"],
    ),
    "before heads are split": (
        f"{ROWS} {{ h = MatMul(x, k) a = Add(h, b) r = Reshape(a, s) t = Transpose<perm=[0,2,1,3]>(r) y = Div(t, c) }}",
        {"k": K, "b": normal(8), "s": i64(0, 0, 2, 4), "c": np.float32(3)},
        ["Add", "MatMul", "Reshape", "Transpose"],
    ),
    "before scores": (
        f"{ROWS} {{ h = MatMul(x, k) r = Reshape(h, s) t = Transpose<perm=[0,2,1,3]>(r) m = MatMul(t, z) "
        "y = Mul(m, c) }",
        {"k": K, "s": i64(0, 0, 2, 4), "c": np.float32(0.3)},
        ["MatMul", "MatMul", "Reshape", "Transpose"],
    ),
}


@pytest.mark.parametrize("name", DONE)
def test_a_factor_moves(name):
    text, constants, expected = DONE[name]
    assert operators(check(model_of(text, **constants), *RULES)) == expected


KEPT = {
    "negative, after Relu": (f"{IMAGE} {{ h = Conv(x, w) r = Relu(h) y = Mul(r, c) }}", {"w": W, "c": f32(-2)}),
    "after another activation": (f"{IMAGE} {{ h = Conv(x, w) r = Tanh(h) y = Mul(r, c) }}", {"w": W, "c": f32(2)}),
    "after what others read": (
        f"{IMAGE} {{ h = Conv(x, w) r = Relu(h) s = Mul(r, c) t = Tanh(h) y = Add(s, t) }}",
        {"w": W, "c": f32(2)},
    ),
    "after an input": ("g (float[2,3] x) => (float[2,3] y) { r = Relu(x) y = Mul(r, c) }", {"c": f32(2)}),
    "after weights from outside": (
        "g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) { h = Conv(x, w) r = Relu(h) y = Mul(r, c) }",
        {"c": f32(2)},
    ),
    "per column, after heads are split": (
        f"{ROWS} {{ h = MatMul(x, k) r = Reshape(h, s) y = Mul(r, c) }}",
        {"k": K, "s": i64(0, 0, 2, 4), "c": f32(1, 2, 3, 4)},
    ),
    "infinite": (f"{IMAGE} {{ h = Conv(x, w) r = Relu(h) y = Mul(r, c) }}", {"w": W, "c": f32(np.inf)}),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_factor_stays(name):
    text, constants = KEPT[name]
    check(model_of(text, **constants), *redistribute.RULES, hits=0)
