"""Relu, Clip, Max and Min in turn."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions import clip
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators
from tests.engine.passes.special import SPECIAL, assert_same_values

X = SPECIAL.astype(np.float32)

# body, constants, operators afterwards
MERGED = {
    "Relu of Relu": ("h = Relu(x) y = Relu(h)", {}, ["Relu"]),
    "Clip of Clip": ("h = Clip(x, a, b) y = Clip(h, c, d)", {"a": -2.0, "b": 8.0, "c": -1.0, "d": 50.0}, ["Clip"]),
    "Clip of Clip that do not meet": (
        "h = Clip(x, a, b) y = Clip(h, c, d)",
        {"a": -2.0, "b": -1.0, "c": 3.0, "d": 5.0},
        ["Clip"],
    ),
    "half open": ("h = Clip(x, a) y = Clip(h, , b)", {"a": -2.0, "b": 3.0}, ["Clip"]),
    "Relu of Clip": ("h = Clip(x, a, b) y = Relu(h)", {"a": -1.0, "b": 6.0}, ["Clip"]),
    "Relu of Clip without maximum": ("h = Clip(x, a) y = Relu(h)", {"a": -1.0}, ["Clip"]),
    "Clip of Relu": ("h = Relu(x) y = Clip(h, a, b)", {"a": -1.0, "b": 6.0}, ["Clip"]),
    "Clip below 0 of Relu": ("h = Relu(x) y = Clip(h, a, b)", {"a": -3.0, "b": -1.0}, ["Clip"]),
    "Min of Max": ("h = Max(x, a) y = Min(b, h)", {"a": -1.0, "b": 6.0}, ["Clip"]),
    "Max of Min": ("h = Min(a, x) y = Max(h, b)", {"a": 6.0, "b": -1.0}, ["Clip"]),
    "Max of Max": ("h = Max(x, a) y = Max(h, b)", {"a": 1.0, "b": 3.0}, ["Max"]),
    "Min of Min": ("h = Min(x, a) y = Min(h, b)", {"a": 1.0, "b": 3.0}, ["Min"]),
    "Max of Relu": ("h = Relu(x) y = Max(h, a)", {"a": 2.0}, ["Max"]),
    "three": ("h = Relu(x) k = Clip(h, a, b) y = Relu(k)", {"a": -3.0, "b": 6.0}, ["Clip"]),
    "Max with 0": ("y = Max(a, x)", {"a": 0.0}, ["Relu"]),
    "Clip from 0 to infinity": ("y = Clip(x, a, b)", {"a": 0.0, "b": np.inf}, ["Relu"]),
    "Clip to infinity": ("h = Relu(x) y = Clip(h, a, b)", {"a": 2.0, "b": np.inf}, ["Clip"]),
    "Relu of what is never negative": ("h = Sigmoid(x) k = Mul(h, h) y = Relu(k)", {}, ["Mul", "Sigmoid"]),
}


@pytest.mark.parametrize("name", MERGED)
def test_clamps_merge(name):
    body, constants, expected = MERGED[name]
    model = model_of(
        f"g (float[12] x) => (float[12] y) {{ {body} }}",
        **{key: np.array(value, np.float32) for key, value in constants.items()},
    )
    result = check(model, *clip.RULES)
    assert operators(result) == expected
    assert_same_values(model, result, x=X, signs=False)


def test_clamps_of_a_large_tensor_keep_nan():
    model = model_of("g (float[60] x) => (float[60] y) { h = Max(x, a) y = Min(h, b) }", a=f32(-1), b=f32(6))
    assert_same_values(model, check(model, *clip.RULES, hits=1), x=np.tile(X, 5), signs=False)


def test_bounds_before_opset_11_are_attributes_and_infinity_is_beyond_the_default():
    for body, attributes in {
        "h = Clip<min=-1.0,max=1.0>(x) y = Relu(h)": (0.0, 1.0),
        "h = Clip<min=-1.0>(x) y = Relu(h)": (0.0, float(np.finfo(np.float32).max)),
        "h = Relu(x) y = Clip<max=6.0>(h)": (0.0, 6.0),
        "h = Max(x, a) y = Min(h, b)": (-1.0, 6.0),
    }.items():
        constants = {"a": f32(-1), "b": f32(6)} if "a)" in body else {}
        model = model_of(f"g (float[12] x) => (float[12] y) {{ {body} }}", 10, 5, **constants)
        result = check(model, *clip.RULES, hits=1)
        (node,) = (node for node in result.graph if node.op_type == "Clip")
        assert tuple(node.attributes[name].as_float() for name in ("min", "max")) == attributes, body
        assert_same_values(model, result, x=X, signs=False)


def test_integers_are_clamped_without_rounding():
    large = 2**53 + 1
    text = "g (int64[4] x) => (int64[4] y) { h = Max(x, a) y = Min(h, b) }"
    model = model_of(text, a=i64(-large), b=i64(large))
    result = check(model, *clip.RULES, hits=1)
    assert operators(result) == ["Clip"]
    assert_same_values(model, result, x=i64(-(2**60), -large, large, 2**60))


KEPT = {
    "a bound per element": "h = Max(x, v) y = Min(h, v)",
    "bounds that are no constants": "h = Max(x, z) y = Min(h, z)",
    "a bound that adds a dimension": "h = Max(x, r) y0 = Min(h, r) y = Squeeze(y0, ax)",
    "Clip from 0 to the last finite number": "y = Clip(x, o)",
    "no range": "h = Clip(x, b, a) y = Relu(h)",
    "a bound that is no number": "h = Clip(x, n) y = Relu(h)",
    "other activations": "h = Relu(x) y = Tanh(h)",
    "another reader": "h = Clip(x, a, b) k = Relu(h) y = Add(h, k)",
    "what may be negative": "h = Tanh(x) y = Relu(h)",
    "a difference": "h = Exp(x) k = Sub(h, s) y = Relu(k)",
    "a bound of -0.0": "h = Max(x, m) y = Relu(h)",
}


@pytest.mark.parametrize("name", KEPT)
def test_clamps_stay(name):
    constants = {
        **{"a": np.float32(-1), "b": np.float32(6), "s": np.float32(0.5), "n": np.float32(np.nan), "o": np.float32(0)},
        **{"v": f32(*range(12)), "r": f32(1).reshape(1, 1), "ax": i64(0), "m": np.float32(-0.0)},
    }
    used = {key: value for key, value in constants.items() if any(f", {key}{end}" in KEPT[name] for end in ",)")}
    used |= {"b": constants["b"]} if "(x, b" in KEPT[name] else {}
    model = model_of(f"g (float[12] x, float z) => (float[12] y) {{ {KEPT[name]} }}", **used)
    _, record = apply(model, *clip.RULES)
    assert not any(found.hits for found in record.values())


@pytest.mark.parametrize(("dtype", "opset", "expected"), [("double", 11, ["Max", "Min"]), ("double", 12, ["Clip"])])
def test_clip_is_made_only_where_it_takes_the_dtype(dtype, opset, expected):
    text = f"g ({dtype}[3] x) => ({dtype}[3] y) {{ h = Max(x, a) y = Min(h, b) }}"
    result = check(model_of(text, opset, a=np.array([-1.0]), b=np.array([6.0])), *clip.RULES)
    assert operators(result) == expected
