"""Activation functions that exporters write out."""

import numpy as np
import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.fusions.activation import RULES
from tests.engine.passes.checks import check, f32, model_of, operators
from tests.engine.passes.special import SPECIAL, run_as_written

CONSTANTS = {
    "half": f32(0.5), "one": f32(1), "two": f32(2), "three": f32(3), "six": f32(6), "zero": f32(0), "minus": f32(-1),
    "quarter": f32(0.25), "sixth": f32(1 / 6), "root2": f32(2**0.5), "rroot2": f32(0.5**0.5), "cubic": f32(0.044715),
    "scale": f32((2 / np.pi) ** 0.5), "quick": f32(1.702), "lo": np.float32(0), "hi": np.float32(6),
    "top": np.float32(1),
}  # fmt: skip


def graph_of(body, dtype="float"):
    return f"g ({dtype}[2, 6] x) => ({dtype}[2, 6] y) {{ {body} }}"


def model_with(body, opset, dtype="float", numpy_dtype=np.float32):
    used = {name: array.astype(numpy_dtype) for name, array in CONSTANTS.items() if name in body.replace("=", " ")}
    return model_of(graph_of(body, dtype), opset, 10, **used)


RELU6 = "a = Add(x, three) c = Clip(a, lo, hi)"
ERF = "d = Div(x, root2) e = Erf(d)"
CUBE = "p = Pow(x, three) q = Mul(cubic, p) r = Add(x, q) s = Mul(scale, r) t = Tanh(s) u = Add(t, one)"

# name: body, opset, operators afterwards
DONE = {
    "a line between 0 and 1": ("a = Mul(x, quarter) b = Add(a, half) y = Clip(b, lo, top)", 13, ["HardSigmoid"]),
    "a clipped line of opset 10": (
        "a = Mul(x, quarter) b = Add(a, half) y = Clip<min=0.0, max=1.0>(b)",
        10,
        ["HardSigmoid"],
    ),
    "relu6 over 6": (f"{RELU6} y = Div(c, six)", 13, ["HardSigmoid"]),
    "relu6 by a sixth": (f"{RELU6} y = Mul(sixth, c)", 11, ["HardSigmoid"]),
    "x times relu6 over 6": (f"{RELU6} m = Mul(x, c) y = Div(m, six)", 14, ["HardSwish"]),
    "x times relu6 by a sixth": (f"{RELU6} m = Mul(c, x) y = Mul(m, sixth)", 22, ["HardSwish"]),
    "x times a sixth of relu6": (f"{RELU6} m = Div(c, six) y = Mul(m, x)", 14, ["HardSwish"]),
    "hard swish before opset 14": (f"{RELU6} m = Mul(x, c) y = Div(m, six)", 12, ["HardSigmoid", "Mul"]),
    "hard swish of opset 10": (
        "a = Add(x, three) c = Clip<min=0.0, max=6.0>(a) m = Mul(x, c) y = Div(m, six)",
        10,
        ["HardSigmoid", "Mul"],
    ),
    "gelu, x first": (f"{ERF} f = Add(e, one) m = Mul(x, f) y = Mul(m, half)", 20, ["Gelu"]),
    "gelu, the half first": (f"{ERF} f = Add(one, e) m = Mul(x, half) y = Mul(m, f)", 20, ["Gelu"]),
    "gelu, the half of the sum": (f"{ERF} f = Add(e, one) m = Mul(half, f) y = Mul(m, x)", 20, ["Gelu"]),
    "gelu over 2": (f"{ERF} f = Add(e, one) m = Mul(f, x) y = Div(m, two)", 20, ["Gelu"]),
    "gelu by the root of a half": (
        "d = Mul(x, rroot2) e = Erf(d) f = Add(e, one) m = Mul(f, x) y = Mul(half, m)",
        23,
        ["Gelu"],
    ),
    "gelu, a half of erf and a half": (f"{ERF} f = Mul(e, half) h = Add(f, half) y = Mul(x, h)", 20, ["Gelu"]),
    "tanh gelu": (f"{CUBE} v = Mul(x, half) y = Mul(v, u)", 20, ["Gelu"]),
    "tanh gelu, the half last": (f"{CUBE} v = Mul(x, u) y = Mul(v, half)", 20, ["Gelu"]),
    "tanh gelu, the half of the sum": (f"{CUBE} v = Mul(half, u) y = Mul(x, v)", 20, ["Gelu"]),
    "tanh gelu, products for powers": (
        "p = Mul(cubic, x) q = Mul(x, p) r = Mul(x, q) s = Add(x, r) t = Mul(s, scale) h = Tanh(t) u = Add(one, h)"
        " v = Mul(half, u) y = Mul(v, x)",
        20,
        ["Gelu"],
    ),
    "tanh gelu, x^2 x": (
        "p = Mul(x, x) q = Mul(p, x) r = Mul(q, cubic) s = Add(r, x) t = Mul(s, scale) h = Tanh(t) u = Add(one, h)"
        " v = Mul(half, x) y = Mul(v, u)",
        20,
        ["Gelu"],
    ),
    "tanh gelu, x factored out": (
        "p = Mul(x, x) q = Mul(p, cubic) r = Add(q, one) s = Mul(x, scale) t = Mul(s, r) h = Tanh(t) u = Add(h, one)"
        " v = Mul(u, x) y = Mul(v, half)",
        20,
        ["Gelu"],
    ),
    "silu": ("s = Sigmoid(x) y = Mul(x, s)", 24, ["Swish"]),
    "quick gelu": ("a = Mul(x, quick) s = Sigmoid(a) y = Mul(s, x)", 24, ["Swish"]),
    "mish": ("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", 18, ["Mish"]),
    "sigmoid": ("n = Neg(x) e = Exp(n) s = Add(one, e) y = Div(one, s)", 13, ["Sigmoid"]),
    "sigmoid by a reciprocal": ("n = Neg(x) e = Exp(n) s = Add(e, one) y = Reciprocal(s)", 7, ["Sigmoid"]),
    "softsign": ("a = Abs(x) s = Add(a, one) y = Div(x, s)", 13, ["Softsign"]),
    "leaky relu by a maximum": ("a = Mul(quarter, x) y = Max(a, x)", 8, ["LeakyRelu"]),
    "leaky relu by a choice": ("a = Mul(x, quarter) c = Greater(x, zero) y = Where(c, x, a)", 13, ["LeakyRelu"]),
    "leaky relu by the other choice": (
        "a = Mul(x, two) c = Less(x, zero) y = Where(c, a, x)",
        13,
        ["LeakyRelu"],
    ),
    "prelu of one slope": ("y = PRelu(x, quarter)", 16, ["LeakyRelu"]),
}


@pytest.mark.parametrize("name", DONE)
def test_is_fused_with_the_same_values_nan_infinities_and_zeros(name):
    body, opset, expected = DONE[name]
    model = model_with(body, opset)
    result = check(model, *RULES)
    assert operators(result) == expected
    x = SPECIAL.astype(np.float32).reshape(2, 6)
    (want,), (got,) = run_as_written(model, x=x), run_as_written(result, x=x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    finite = np.abs(x) < 1e20
    np.testing.assert_array_equal(np.signbit(got[(want == 0) & finite]), np.signbit(want[(want == 0) & finite]))


@pytest.mark.parametrize("name", DONE)
def test_is_found_among_all_passes(name):
    body, opset, expected = DONE[name]
    assert operators(og.optimize_for_inference(model_with(body, opset))) == expected


# name: body, opset
KEPT = {
    "another reader": (f"{RELU6} m = Mul(x, c) o = Div(m, six) z = Mul(c, o) y = Add(o, z)", 14),
    "another shift": ("a = Add(x, two) c = Clip(a, lo, hi) m = Mul(x, c) y = Div(m, six)", 14),
    "another bound": ("a = Add(x, three) c = Clip(a, lo, top) m = Mul(x, c) y = Div(m, six)", 14),
    "no lower bound": ("a = Mul(x, quarter) b = Add(a, half) y = Clip(b, , top)", 13),
    "gelu before opset 20": (f"{ERF} f = Add(e, one) m = Mul(x, f) y = Mul(m, half)", 19),
    "erf of another scale": ("d = Div(x, two) e = Erf(d) f = Add(e, one) m = Mul(x, f) y = Mul(m, half)", 20),
    "erf without the half": (f"{ERF} f = Add(e, one) y = Mul(x, f)", 20),
    "erf and another one": (f"{ERF} f = Add(e, half) m = Mul(x, f) y = Mul(m, half)", 20),
    "tanh of another cubic": (
        "p = Pow(x, three) q = Mul(half, p) r = Add(x, q) s = Mul(scale, r) t = Tanh(s) u = Add(t, one)"
        " v = Mul(x, half) y = Mul(v, u)",
        20,
    ),
    "silu before opset 24": ("s = Sigmoid(x) y = Mul(x, s)", 23),
    "sigmoid of another value": ("n = Neg(x) s = Sigmoid(n) y = Mul(x, s)", 24),
    "mish before opset 18": ("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", 17),
    "a maximum of a steeper line": ("a = Mul(two, x) y = Max(a, x)", 13),
    "a maximum of a falling line": ("a = Mul(minus, x) y = Max(a, x)", 13),
    "a choice at another place": ("a = Mul(x, quarter) c = Greater(x, one) y = Where(c, x, a)", 13),
    "a choice the other way round": ("a = Mul(x, quarter) c = Greater(x, zero) y = Where(c, a, x)", 13),
    "softsign of another shift": ("a = Abs(x) s = Add(a, two) y = Div(x, s)", 13),
    "softsign squared": ("a = Abs(x) s = Add(a, one) o = Div(x, s) y = Mul(s, o)", 13),
    "two over": ("n = Neg(x) e = Exp(n) s = Add(one, e) y = Div(two, s)", 13),
}


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    check(model_with(body, opset), *RULES, hits=0)


def test_an_inner_value_that_is_an_output_stays():
    body = f"{ERF} f = Add(e, one) m = Mul(x, f) y = Mul(m, half)"
    graph = f"g (float[2, 6] x) => (float[2, 6] y, float[2, 6] m) {{ {body} }}"
    check(model_of(graph, 20, root2=f32(2**0.5), one=f32(1), half=f32(0.5)), *RULES, hits=0)


def test_hard_swish_of_doubles_stays_because_onnxruntime_has_no_kernel():
    check(model_with(f"{RELU6} m = Mul(x, c) y = Div(m, six)", 14, "double", np.float64), *RULES, hits=0)


@pytest.mark.parametrize("slope, hits", [(0.25, 1), (0.1, 0)])
def test_a_slope_of_doubles_must_fit_an_attribute(slope, hits):
    graph = "g (double[3] x) => (double[3] y) { a = Mul(x, k) y = Max(x, a) }"
    check(model_of(graph, 13, k=np.array(slope)), *RULES, hits=hits)


def test_half_precision_constants_are_met():
    body = f"{ERF} f = Add(e, one) m = Mul(x, f) y = Mul(m, half)"
    assert operators(check(model_with(body, 20, "float16", np.float16), *RULES, hits=1)) == ["Gelu"]


@pytest.mark.parametrize("shape, hits", [((), 1), ((1,), 0)])
def test_constants_may_not_add_dimensions(shape, hits):
    graph = "g (float x) => (float[a] y) { d = Div(x, r) e = Erf(d) f = Add(e, o) m = Mul(x, f) y = Mul(m, h) }"
    if shape == ():
        graph = graph.replace("float[a] y", "float y")
    constants = {name: np.full(shape, value, np.float32) for name, value in (("r", 2**0.5), ("o", 1), ("h", 0.5))}
    check(model_of(graph, 20, **constants), *RULES, hits=hits)


def test_constants_that_an_input_overrides_are_none():
    graph = "g (float[3] x, float[1] k = {0.5}) => (float[3] y) { a = Mul(x, k) y = Max(x, a) }"
    check(model_of(graph, 13), *RULES, hits=0)


def test_bodies_of_branches_are_rewritten():
    graph = (
        "g (bool c, float[3] x) => (float[3] y) { y = If (c) <"
        " then_branch = t () => (float[3] u) { s = Sigmoid(x) u = Mul(x, s) },"
        " else_branch = e () => (float[3] v) { v = Relu(x) }> }"
    )
    assert operators(check(model_of(graph, 24), *RULES, hits=1)) == ["If", "Relu", "Swish"]


def test_bodies_of_functions_are_rewritten():
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 24, "f" : 1]>'
        "g (float[3] x) => (float[3] y) { y = f.silu(x) }"
        '<domain: "f", opset_import: ["" : 24]> silu (x) => (y) { s = Sigmoid(x) y = Mul(x, s) }'
    )
    result = check(og.load(proto), *RULES, hits=1)
    (function,) = result.functions.values()
    assert [node.op_type for node in function] == ["Swish"]
