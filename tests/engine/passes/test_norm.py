"""Normalizations that exporters write out."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.fusions.norm import RULES
from tests.engine.passes.checks import check, f32, i64, model_of, operators
from tests.engine.passes.special import run_as_written

_RANDOM = np.random.default_rng(0)


def normal(*shape):
    return _RANDOM.standard_normal(shape).astype(np.float32)


CONSTANTS = {
    "two": np.float32(2), "eps": np.float32(1e-5), "one": f32(1), "less": f32(-0.5), "gamma": normal(6),
    "beta": normal(6), "rows": normal(4, 1), "gamma3": normal(1, 1, 6), "last": i64(-1), "whole": normal(4, 6),
    "planes": i64(2, 3), "cscale": normal(3, 1, 1), "cbias": normal(1, 3, 1, 1), "tail": i64(1, 2),
}  # fmt: skip


def model_with(body, opset, shape="N, 4, 6"):
    used = {name: array for name, array in CONSTANTS.items() if f"{name}" in body.replace("(", " ")}
    return model_of(f"g (float[{shape}] x) => (float[{shape}] y) {{ {body} }}", opset, 10, **used)


def mean(y, x, axes="-1", opset=17):
    if opset >= 18:
        return f"{y} = ReduceMean<keepdims=1>({x}, {axes})"
    return f"{y} = ReduceMean<axes=[{axes}], keepdims=1>({x})"


CENTRED = f"{mean('m', 'x')} d = Sub(x, m) "
POWER = f"{CENTRED} p = Pow(d, two) {mean('v', 'p')} s = Add(v, eps)"
SQUARE = f"{CENTRED} p = Mul(d, d) {mean('v', 'p')} s = Add(eps, v)"
RMS = f"p = Mul(x, x) {mean('v', 'p', 'last', 23)} s = Add(v, eps)"
PLANES = f"{mean('m', 'x', '2, 3')} d = Sub(x, m) p = Mul(d, d) {mean('v', 'p', '2, 3')} s = Add(v, eps) r = Sqrt(s)"
LAYER = "LayerNormalization"

# name: body, opset, operators afterwards
DONE = {
    "paddle": (f"{POWER} r = Sqrt(s) n = Div(d, r) a = Mul(n, gamma) y = Add(a, beta)", 17, [LAYER]),
    "without scale": (f"{POWER} r = Sqrt(s) y = Div(d, r)", 17, [LAYER]),
    "without bias": (f"{SQUARE} r = Sqrt(s) n = Div(d, r) y = Mul(gamma, n)", 17, [LAYER]),
    "a scale with leading ones": (f"{SQUARE} r = Sqrt(s) n = Div(d, r) y = Mul(gamma3, n)", 17, [LAYER]),
    "by a reciprocal": (f"{SQUARE} r = Sqrt(s) i = Reciprocal(r) n = Mul(d, i) y = Mul(n, gamma)", 17, [LAYER]),
    "by one over": (f"{SQUARE} r = Sqrt(s) i = Div(one, r) n = Mul(d, i) y = Mul(n, gamma)", 17, [LAYER]),
    "by a power": (f"{SQUARE} i = Pow(s, less) n = Mul(i, d) y = Mul(n, gamma)", 17, [LAYER]),
    "axes as inputs": (
        f"{mean('m', 'x', 'last', 18)} d = Sub(x, m) p = Pow(d, two) {mean('v', 'p', 'last', 18)} s = Add(v, eps)"
        " r = Sqrt(s) n = Div(d, r) a = Mul(n, gamma) y = Add(a, beta)",
        18,
        [LAYER],
    ),
    "two axes": (
        f"{mean('m', 'x', '1, 2')} d = Sub(x, m) p = Pow(d, two) {mean('v', 'p', '-1, -2')} s = Add(v, eps)"
        " r = Sqrt(s) n = Div(d, r) y = Mul(n, whole)",
        17,
        [LAYER],
    ),
    "a scale of other rows": (f"{SQUARE} r = Sqrt(s) n = Div(d, r) y = Mul(n, rows)", 17, [LAYER, "Mul"]),
    "root mean square": (f"{RMS} r = Sqrt(s) n = Div(x, r) y = Mul(n, gamma)", 23, ["RMSNormalization"]),
    "root mean square by a power": (
        f"{RMS} i = Pow(s, less) n = Mul(x, i) y = Mul(gamma, n)",
        23,
        ["RMSNormalization"],
    ),
    "root mean square by a reciprocal": (
        f"{RMS} r = Sqrt(s) i = Reciprocal(r) y = Mul(x, i)",
        24,
        ["RMSNormalization"],
    ),
}


def feeds(*shape):
    """Values of several sizes, a row of equal ones among them."""
    x = normal(*shape)
    x[0, 0] = 3
    x[1] *= 100
    return x


@pytest.mark.parametrize("name", DONE)
def test_is_fused_with_the_same_values(name):
    body, opset, expected = DONE[name]
    model = model_with(body, opset)
    result = check(model, *RULES)
    assert operators(result) == expected
    x = feeds(2, 4, 6)
    (want,), (got,) = run_as_written(model, x=x), run_as_written(result, x=x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DONE)
def test_is_found_among_all_passes(name):
    body, opset, expected = DONE[name]
    assert operators(og.optimize_for_inference(model_with(body, opset))) == expected


KEPT = {
    "before opset 17": (f"{POWER} r = Sqrt(s) y = Div(d, r)", 16),
    "root mean square before opset 23": (f"{RMS} r = Sqrt(s) y = Div(x, r)", 22),
    "another axis of the variance": (
        f"{CENTRED} p = Mul(d, d) {mean('v', 'p', '1')} s = Add(v, eps) r = Sqrt(s) y = Div(d, r)",
        17,
    ),
    "a middle axis": (
        f"{mean('m', 'x', '1')} d = Sub(x, m) p = Mul(d, d) {mean('v', 'p', '1')} s = Add(v, eps) r = Sqrt(s)"
        " y = Div(d, r)",
        17,
    ),
    "an epsilon outside the root": (
        f"{CENTRED} p = Mul(d, d) {mean('v', 'p')} r = Sqrt(v) s = Add(r, eps) y = Div(d, s)",
        17,
    ),
    "another reader of the deviation": (f"{SQUARE} r = Sqrt(s) n = Div(d, r) y = Mul(n, r)", 17),
    "the mean itself over": (f"{SQUARE} r = Sqrt(s) y = Div(x, r)", 17),
    "a cube": (f"{CENTRED} q = Mul(d, d) p = Mul(q, d) {mean('v', 'p')} s = Add(v, eps) r = Sqrt(s) y = Div(d, r)", 17),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    check(model_with(body, opset), *RULES, hits=0)


def test_a_centred_value_that_is_an_output_stays():
    body = f"{SQUARE} r = Sqrt(s) y = Div(d, r)"
    graph = f"g (float[2, 6] x) => (float[2, 6] y, float[2, 6] d) {{ {body} }}"
    check(model_of(graph, 17, eps=CONSTANTS["eps"]), *RULES, hits=0)


def test_doubles_stay_because_the_standard_computes_in_float32():
    body = f"{SQUARE} r = Sqrt(s) y = Div(d, r)"
    graph = f"g (double[2, 6] x) => (double[2, 6] y) {{ {body} }}"
    check(model_of(graph, 17, eps=np.array(1e-5)), *RULES, hits=0)


def test_a_symbolic_last_axis_stays():
    check(model_with(f"{SQUARE} r = Sqrt(s) y = Div(d, r)", 17, "4, N"), *RULES, hits=0)


def test_a_large_core_keeps_the_file_small():
    model = model_with(f"{SQUARE} r = Sqrt(s) y = Div(d, r)", 17, "2, 1000")
    assert operators(check(model, *RULES, hits=1)) == ["ConstantOfShape", LAYER]
    scaled = model_of(
        f"g (float[2, 1000] x) => (float[2, 1000] y) {{ {SQUARE} r = Sqrt(s) n = Div(d, r) y = Mul(n, w) }}",
        17,
        eps=CONSTANTS["eps"],
        w=normal(1000),
    )
    assert operators(check(scaled, *RULES, hits=2)) == [LAYER]


def test_planes_become_an_instance_normalization_of_any_opset():
    model = model_with(f"{PLANES} n = Div(d, r) a = Mul(n, cscale) y = Add(cbias, a)", 11, "N, 3, H, W")
    assert operators(check(model, *RULES, hits=3)) == ["InstanceNormalization"]


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 4, 4), (2, 3, 1, 1)])
def test_scales_that_are_not_one_per_channel_stay_outside(shape):
    graph = f"g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) {{ {PLANES} n = Div(d, r) y = Mul(n, w) }}"
    model = model_of(graph, 11, eps=CONSTANTS["eps"], w=normal(*shape))
    assert operators(check(model, *RULES, hits=1)) == ["InstanceNormalization", "Mul"]
