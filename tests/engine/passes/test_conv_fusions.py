"""Conv and ConvTranspose with normalization, scale, bias and padding around them."""

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.passes.fusions import conv, fused_conv, pad
from tests.engine.passes.checks import apply, check, i64, model_of, operators

_RANDOM = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return _RANDOM.standard_normal(shape).astype(dtype)


def statistics(channels, dtype=np.float32):
    """The constants of a BatchNormalization."""
    scale, var = np.abs(normal(channels)) + 0.5, np.abs(normal(channels)) + 0.5
    arrays = (scale, normal(channels), normal(channels), var)
    return {name: array.astype(dtype) for name, array in zip("stmv", arrays, strict=True)}


W = normal(4, 3, 3, 3)
PER_CHANNEL = normal(4, 1, 1)
IMAGE = "(float[N,3,8,8] x) => (float[N,4,O,P] y)"
NORM = "{ h = Conv(x, w) y = BatchNormalization(h, s, t, m, v) }"

FOLDED = {
    "batch norm": (f"g {IMAGE} {NORM}", {"w": W, **statistics(4)}, ["Conv"]),
    "batch norm after a bias": (
        f"g {IMAGE} {{ h = Conv<pads=[1,1,1,1]>(x, w, b) y = BatchNormalization<epsilon=0.1>(h, s, t, m, v) }}",
        {"w": W, "b": normal(4), **statistics(4)},
        ["Conv"],
    ),
    "batch norm after groups": (
        "g (float[2,6,8,8] x) => (float[2,4,O,P] y) { h = Conv<group=2>(x, w) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W, **statistics(4)},
        ["Conv"],
    ),
    "batch norm after ConvTranspose with groups": (
        "g (float[2,4,5,5] x) => (float[2,6,O,P] y) "
        "{ h = ConvTranspose<group=2>(x, w, b) y = BatchNormalization(h, s, t, m, v) }",
        {"w": W, "b": normal(6), **statistics(6)},
        ["ConvTranspose"],
    ),
    "batch norm in one dimension": (
        "g (float[2,3,8] x) => (float[2,4,O] y) " + NORM,
        {"w": normal(4, 3, 3), **statistics(4)},
        ["Conv"],
    ),
    "bias": (f"g {IMAGE} {{ h = Conv(x, w) y = Add(c, h) }}", {"w": W, "c": PER_CHANNEL}, ["Conv"]),
    "two summands": (
        f"g {IMAGE} {{ h = Conv(x, w, b) k = Add(h, c) y = Sub(k, d) }}",
        {"w": W, "b": normal(4), "c": PER_CHANNEL, "d": np.float32(2)},
        ["Conv"],
    ),
    "bias of weights that are no constants": (
        "g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) { h = Conv(x, w) y = Add(h, c) }",
        {"c": PER_CHANNEL[None]},
        ["Conv"],
    ),
    "scale": (f"g {IMAGE} {{ h = Conv(x, w, b) y = Mul(c, h) }}", {"w": W, "b": normal(4), "c": PER_CHANNEL}, ["Conv"]),
    "divisor": (f"g {IMAGE} {{ h = Conv(x, w) y = Div(h, c) }}", {"w": W, "c": PER_CHANNEL[None]}, ["Conv"]),
    "scale by a number": (f"g {IMAGE} {{ h = Conv(x, w) y = Mul(h, c) }}", {"w": W, "c": np.float32(-3)}, ["Conv"]),
    "negation": (f"g {IMAGE} {{ h = Conv(x, w, b) y = Neg(h) }}", {"w": W, "b": normal(4)}, ["Conv"]),
    "a constant less a convolution": (
        f"g {IMAGE} {{ h = Conv(x, w) y = Sub(c, h) }}",
        {"w": W, "c": PER_CHANNEL},
        ["Conv"],
    ),
    "scale of the input, padded": (
        f"g {IMAGE} {{ k = Mul(x, c) y = Conv<pads=[1,1,1,1]>(k, w) }}",
        {"w": W, "c": normal(3, 1, 1)},
        ["Conv"],
    ),
    "scale of the input of groups": (
        "g (float[2,6,8,8] x) => (float[2,4,O,P] y) { k = Div(x, c) y = Conv<group=2>(k, w) }",
        {"w": W, "c": normal(6, 1, 1)},
        ["Conv"],
    ),
    "scale of the input of ConvTranspose": (
        "g (float[2,4,5,5] x) => (float[2,6,O,P] y) { k = Mul(x, c) y = ConvTranspose<group=2>(k, w) }",
        {"w": W, "c": normal(4, 1, 1)},
        ["ConvTranspose"],
    ),
    "image normalization": (
        f"g {IMAGE} {{ a = Sub(x, c) k = Div(a, d) y = Conv(k, w) }}",
        {"w": W, "c": normal(3, 1, 1), "d": np.abs(normal(1, 3, 1, 1)) + 1},
        ["Conv"],
    ),
    "batch norm of the input": (
        f"g {IMAGE} {{ k = BatchNormalization(x, s, t, m, v) y = Conv(k, w, b) }}",
        {"w": W, "b": normal(4), **statistics(3)},
        ["Conv"],
    ),
    "weights that a small model shares": (
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) "
        "{ h = Conv(x, w) y = BatchNormalization(h, s, t, m, v) z = Conv(x, w) }",
        {"w": W, **statistics(4)},
        ["Conv", "Conv"],
    ),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("opset", [9, 18])
def test_a_convolution_takes_up(name, opset):
    text, constants, expected = FOLDED[name]
    assert operators(check(model_of(text, opset, **constants), *conv.RULES)) == expected


KEPT = {
    "another reader": (
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) "
        "{ h = Conv(x, w) y = BatchNormalization(h, s, t, m, v) z = Relu(h) }",
        {"w": W, **statistics(4)},
    ),
    "a graph output": (
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] h) " + NORM,
        {"w": W, **statistics(4)},
    ),
    "statistics from outside": (
        "g (float[1,3,8,8] x, float[4] s) => (float[1,4,6,6] y) " + NORM,
        {"w": W, **{name: array for name, array in statistics(4).items() if name != "s"}},
    ),
    "weights from outside": (
        "g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) " + NORM,
        statistics(4),
    ),
    "weights that an input may override": (
        "g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) " + NORM,
        {"w": W, **statistics(4)},
    ),
    "a summand along the width": (
        "g (float[1,3,6,6] x) => (float[1,4,4,4] y) { h = Conv(x, w) y = Add(h, c) }",
        {"w": W, "c": normal(4)},
    ),
    "a summand per element": (
        "g (float[1,3,6,6] x) => (float[1,4,4,4] y) { h = Conv(x, w) y = Add(h, c) }",
        {"w": W, "c": normal(1, 4, 4, 4)},
    ),
    "a factor per sample": (
        "g (float[2,3,6,6] x) => (float[2,4,4,4] y) { h = Conv(x, w) y = Mul(h, c) }",
        {"w": W, "c": normal(2, 1, 1, 1)},
    ),
    "a factor that adds a dimension": (
        "g (float[2,3,6,6] x) => (float[1,2,4,4,4] y) { h = Conv(x, w) y = Mul(h, c) }",
        {"w": W, "c": normal(1, 1, 1, 1, 1)},
    ),
    "a factor that makes channels of one": (
        "g (float[2,3,6,6] x) => (float[2,5,4,4] y) { h = Conv(x, w) y = Mul(h, c) }",
        {"w": W[:1], "c": normal(5, 1, 1)},
    ),
    "a factor that makes input channels of one": (
        "g (float[2,1,6,6] x) => (float[2,4,4,4] y) { k = Mul(x, c) y = Conv(k, w) }",
        {"w": W, "c": normal(3, 1, 1)},
    ),
    "division by a convolution": (
        "g (float[2,3,6,6] x) => (float[2,4,4,4] y) { h = Conv(x, w) y = Div(c, h) }",
        {"w": W, "c": PER_CHANNEL},
    ),
    "division by zero": (
        "g (float[2,3,6,6] x) => (float[2,4,4,4] y) { h = Conv(x, w) y = Div(h, c) }",
        {"w": W, "c": np.array([1, 2, 0, 3], np.float32).reshape(4, 1, 1)},
    ),
    "an infinite factor": (
        "g (float[2,3,6,6] x) => (float[2,4,4,4] y) { h = Conv(x, w) y = Mul(h, c) }",
        {"w": W, "c": np.float32(np.inf)},
    ),
    "a summand of a padded input": (
        "g (float[2,3,6,6] x) => (float[2,4,6,6] y) { k = Add(x, c) y = Conv<pads=[1,1,1,1]>(k, w) }",
        {"w": W, "c": normal(3, 1, 1)},
    ),
    "a summand of an input that is padded at run time": (
        'g (float[2,3,6,6] x) => (float[2,4,6,6] y) { k = Add(x, c) y = Conv<auto_pad="SAME_UPPER">(k, w) }',
        {"w": W, "c": normal(3, 1, 1)},
    ),
    "a summand of the input of ConvTranspose": (
        "g (float[2,4,5,5] x) => (float[2,3,7,7] y) { k = Add(x, c) y = ConvTranspose(k, w) }",
        {"w": W, "c": normal(4, 1, 1)},
    ),
    "a factor that half precision does not hold": (
        "g (float16[1,3,6,6] x) => (float16[1,4,4,4] y) { h = Conv(x, w) y = Mul(h, c) }",
        {"w": W.astype(np.float16), "c": np.float16(1e-6)},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_convolution_does_not_take_up(name):
    text, constants = KEPT[name]
    check(model_of(text, **constants), *conv.RULES, hits=0)


def test_batch_normalization_in_training_mode_stays():
    text = (
        "g (float[2,3,8,8] x) => (float[2,4,6,6] y) "
        "{ h = Conv(x, w) y = BatchNormalization<training_mode=1>(h, s, t, m, v) }"
    )
    _, record = apply(model_of(text, **{"w": W, **statistics(4)}), conv.FoldBatchNormIntoConv())
    assert record["fold_batch_norm_into_conv"].hits == 0
    assert record["fold_batch_norm_into_conv"].reasons == {"its statistics are no constants, or it trains": 1}


def test_folding_reaches_bodies_with_weights_of_the_graph_around():
    text = (
        "g (float[1,3,8,8] x, bool p) => (float[1,4,6,6] y) { y = If(p) "
        "<then_branch = a () => (float[1,4,6,6] k) { h = Conv(x, w) k = Mul(h, c) }, "
        "else_branch = e () => (float[1,4,6,6] z) { z = Conv(x, w) }> }"
    )
    result = check(model_of(text, w=W, c=PER_CHANNEL), *conv.RULES, hits=1)
    assert operators(result) == ["Conv", "Conv", "If"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_keep_their_dtype(dtype):
    name = {np.float16: "float16", np.float64: "double"}[dtype]
    text = f"g ({name}[1,3,8,8] x) => ({name}[1,4,6,6] y) {NORM}"
    result = apply(model_of(text, **{"w": W.astype(dtype), **statistics(4, dtype)}), *conv.RULES)[0]
    node = next(node for node in result.graph if node.op_type == "Conv")
    assert {value.dtype for value in node.inputs} == {ir.DataType.from_numpy(np.dtype(dtype))}
    assert operators(result) == ["Conv"]


def test_weights_are_rounded_once():
    constants = {"w": W, **statistics(4)}
    result = check(model_of(f"g {IMAGE} {NORM}", **constants), *conv.RULES, hits=1)
    s, v = (constants[name].astype(np.float64) for name in "sv")
    factor = s / np.sqrt(v + float(np.float32(1e-5)))
    exact = (W.astype(np.float64) * factor[:, None, None, None]).astype(np.float32)
    conv_node = next(node for node in result.graph if node.op_type == "Conv")
    weight = ir.convenience.get_const_tensor(conv_node.inputs[1])
    assert weight is not None
    assert np.array_equal(weight.numpy(), exact)


PADDED = {
    "into Conv": ("y = Conv<pads=[0,1,0,1]>(p, w)", "Conv", [1, 3, 0, 1]),
    "into Conv that wants none": ('y = Conv<auto_pad="VALID">(p, w)', "Conv", [1, 2, 0, 0]),
    "into AveragePool": ("y = AveragePool<kernel_shape=[3,3]>(p)", "AveragePool", [1, 2, 0, 0]),
    "into AveragePool that counts its own": (
        "y = AveragePool<kernel_shape=[4,4],pads=[1,1,1,1],count_include_pad=1>(p)",
        "AveragePool",
        [2, 3, 1, 1],
    ),
}


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("opset", [10, 18])
def test_padding_moves(name, opset):
    reader, op_type, pads = PADDED[name]
    given = "<pads=[0,0,1,2,0,0,0,0]>(x)" if opset == 10 else "(x, q)"
    text = f"g (float[1,3,8,8] x) => (float[A,B,C,D] y) {{ p = Pad{given} {reader} }}"
    constants = {"w": W} if "w)" in reader else {}
    if opset == 18:
        constants["q"] = i64(0, 0, 1, 2, 0, 0, 0, 0)
    result = check(model_of(text, opset, **constants), *pad.RULES, hits=1)
    assert operators(result) == [op_type]
    assert list(result.graph[-1].attributes["pads"].as_ints()) == pads


def test_padding_with_minus_infinity_moves_into_max_pool():
    text = "g (float[1,3,8,8] x) => (float[A,B,C,D] y) { p = Pad(x, q, k) y = MaxPool<kernel_shape=[3,3]>(p) }"
    result = check(model_of(text, q=i64(0, 0, 1, 2, 0, 0, 0, 0), k=np.float32(-np.inf)), *pad.RULES, hits=1)
    assert list(result.graph[-1].attributes["pads"].as_ints()) == [1, 2, 0, 0]


def test_padding_with_axes_moves():
    text = "g (float[1,3,8,8] x) => (float[A,B,C,D] y) { p = Pad(x, q, , a) y = Conv(p, w) }"
    result = check(model_of(text, q=i64(1, 2), a=i64(-1), w=W), *pad.RULES, hits=1)
    assert list(result.graph[-1].attributes["pads"].as_ints()) == [0, 1, 0, 2]


def test_padding_with_zeros_moves_into_max_pool_of_what_is_never_negative():
    text = (
        "g (float[1,1,4,4] x) => (float[A,B,C,D] y) "
        "{ r = Relu(x) p = Pad(r, q) y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(p) }"
    )
    assert operators(check(model_of(text, q=i64(0, 0, 1, 1, 0, 0, 1, 1)), *pad.RULES)) == ["MaxPool", "Relu"]


UNPADDED = {
    "negative": ("p = Pad(x, q) y = Conv(p, w)", {"q": i64(0, 0, -1, -1, 0, 0, 1, 1)}),
    "of channels": ("p = Pad(x, q) y = Conv(p, w)", {"q": i64(0, 1, 0, 0, 0, 0, 0, 0), "w": normal(4, 4, 3, 3)}),
    "with a value": ("p = Pad(x, q, k) y = Conv(p, w)", {"k": np.float32(2)}),
    "by reflection": ('p = Pad<mode="reflect">(x, q) y = Conv(p, w)', {}),
    "before auto_pad": ('p = Pad(x, q) y = Conv<auto_pad="SAME_UPPER">(p, w)', {}),
    "before an average that leaves its own out": (
        "p = Pad(x, q) y = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1]>(p)",
        {},
    ),
    "wider than the window": ("p = Pad(x, q) y = AveragePool<kernel_shape=[1,1]>(p)", {}),
    "before an average of more windows": ("p = Pad(x, q) y = AveragePool<kernel_shape=[3,3],ceil_mode=1>(p)", {}),
    "with zeros before a maximum of anything": ("p = Pad(x, q) y = MaxPool<kernel_shape=[3,3]>(p)", {}),
    "before indices": (
        "p = Pad(x, q, k) y, i = MaxPool<kernel_shape=[3,3]>(p) z = Relu(i)",
        {"k": np.float32(-np.inf)},
    ),
    "with the lowest number before a maximum": (
        "p = Pad(x, q, k) y = MaxPool<kernel_shape=[3,3]>(p)",
        {"k": np.finfo(np.float32).min},
    ),
}


@pytest.mark.parametrize("name", UNPADDED)
def test_padding_stays(name):
    body, constants = UNPADDED[name]
    given = {"q": i64(0, 0, 1, 1, 0, 0, 1, 1), "w": W} | constants
    used = {key: value for key, value in given.items() if f", {key}" in body}
    outputs = ", int64[A,B,C,D] i" if "i =" in body else ""
    text = f"g (float[1,3,8,8] x) => (float[A,B,C,D] y{outputs}) {{ {body.replace(' z = Relu(i)', '')} }}"
    check(model_of(text, **used), *pad.RULES, hits=0)


FUSED = {
    "Relu": ("h = Conv(x, w, b) y = Relu(h)", ["FusedConv"]),
    "LeakyRelu": ("h = Conv(x, w) y = LeakyRelu<alpha=0.3>(h)", ["FusedConv"]),
    "Clip": ("h = Conv(x, w) y = Clip(h, l, u)", ["FusedConv"]),
    "addend": ("h = Conv(x, w) a = Add(z, h) y = Relu(a)", ["FusedConv"]),
    "addend that is broadcast": ("h = Conv(x, w) a = Add(z1, h) y = Relu(a)", ["Add", "Conv", "Relu"]),
    "unbounded Clip": ("h = Conv(x, w) y = Clip(h, l)", ["Clip", "Conv"]),
}


@pytest.mark.parametrize("name", FUSED)
def test_the_runtime_fuses(name):
    body, expected = FUSED[name]
    constants = {"w": W, "b": normal(4), "l": np.float32(-0.5), "u": np.float32(0.5)}
    used = {key: value for key, value in constants.items() if f", {key}" in body}
    inputs = "float[1,3,8,8] x, float[1,4,6,6] z, float[1,4,1,1] z1"
    model = model_of(f"g ({inputs}) => (float[1,4,6,6] y) {{ {body} }}", **used)
    result = check(model, *fused_conv.RUNTIME_RULES)
    assert operators(result) == expected
    assert ("com.microsoft" in result.opset_imports) == (expected == ["FusedConv"])
