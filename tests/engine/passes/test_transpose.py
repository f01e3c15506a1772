"""Transposes: merged, cancelled, moved through what is between them."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.move_transposes import move_transposes
from onnxgrad.engine.passes.fusions.transpose import LATE_RULES, RULES
from tests.engine.passes.checks import check, f32, i64, model_of, operators

ALL = (move_transposes, *RULES, *LATE_RULES)
X = "g (float[2,3,4,5] x) => (float[a,b,c,d] y)"
N = "g (float[N,3,H,W] x) => (float[a,b,c,d] y)"
NHWC, NCHW = "Transpose<perm=[0,2,3,1]>", "Transpose<perm=[0,3,1,2]>"

BETTER = {
    # name: text, opset, constants, the operators that are left
    "pair that cancels": (f"{X} {{ a = {NHWC}(x) b = {NCHW}(a) y = Abs(b) }}", 18, {}, ["Abs"]),
    "pair that merges": (f"{X} {{ a = {NHWC}(x) y = {NHWC}(a) }}", 18, {}, ["Transpose"]),
    "pair without perm": (f"{X} {{ a = Transpose(x) b = Transpose(a) y = Abs(b) }}", 18, {}, ["Abs"]),
    "pair at an output": (f"{X} {{ r = Abs(x) a = {NHWC}(r) y = {NCHW}(a) }}", 18, {}, ["Abs"]),
    "through Relu": (f"{N} {{ a = {NHWC}(x) r = Relu(a) y = {NCHW}(r) }}", 18, {}, ["Relu"]),
    "through a chain": (
        f"{N} {{ a = {NHWC}(x) r = Mul(a, k) s = Add(r, c) t = Clip(s, l) u = Sigmoid(t) y = {NCHW}(u) }}",
        18,
        {"k": np.float32(2), "c": f32(1, 2, 3), "l": np.float32(0)},
        ["Add", "Clip", "Mul", "Sigmoid"],
    ),
    "through both sides of Add": (
        f"g (float[2,3,4,5] x, float[2,3,1,1] z) => (float[a,b,c,d] y) "
        f"{{ a = {NHWC}(x) b = {NHWC}(z) s = Add(a, b) y = {NCHW}(s) }}",
        18,
        {},
        ["Add"],
    ),
    "two of three": (
        f"g (float[2,3,4,5] x, float[2,3,4,5] z, float[2,4,5,3] v) => (float[2,3,4,5] y) "
        f"{{ a = {NHWC}(x) b = {NHWC}(z) s = Add(a, b) t = Mul(s, v) y = {NCHW}(t) }}",
        18,
        {},
        ["Add", "Mul", "Transpose"],
    ),
    "through Softmax": (
        f"{X} {{ a = {NHWC}(x) s = Softmax<axis=-1>(a) y = {NCHW}(s) }}",
        13,
        {},
        ["Softmax"],
    ),
    "through Concat": (
        f"g (float[2,3,4,5] x, float[2,6,4,5] z) => (float[a,b,c,d] y) "
        f"{{ a = {NHWC}(x) b = {NHWC}(z) s = Concat<axis=3>(a, b) y = {NCHW}(s) }}",
        18,
        {},
        ["Concat"],
    ),
    "through Split": (
        f"{X} {{ a = {NHWC}(x) s, t = Split<axis=1>(a, n) u = Sub(t, s) y = {NCHW}(u) }}",
        13,
        {"n": i64(2, 2)},
        ["Split", "Sub"],
    ),
    "through ReduceMean": (
        f"{X} {{ a = {NHWC}(x) m = ReduceMean<axes=[1,-2]>(a) s = Sub(a, m) y = {NCHW}(s) }}",
        13,
        {},
        ["ReduceMean", "Sub"],
    ),
    "through Pad and Slice": (
        f"{X} {{ a = {NHWC}(x) p = Pad(a, w, v) s = Slice(p, b, e, o) y = {NCHW}(s) }}",
        13,
        {"w": i64(0, 1, 2, 0, 0, 3, 4, 0), "v": np.float32(7), "b": i64(1), "e": i64(6), "o": i64(-2)},
        ["Pad", "Slice"],
    ),
    "through a quantization": (
        f"{X} {{ a = {NHWC}(x) q = QuantizeLinear(a, s, z) d = DequantizeLinear(q, s, z) y = {NCHW}(d) }}",
        13,
        {"s": np.float32(0.1), "z": np.int8(3)},
        ["DequantizeLinear", "QuantizeLinear"],
    ),
    "through a residual block, and out of it": (
        f"g (float[2,3,4,5] x) => (float[2,3,4,5] y, float[2,4,5,3] z) "
        f"{{ a = {NHWC}(x) r = Relu(a) s = Sigmoid(r) t = Mul(r, s) y = {NCHW}(t) u = Abs(t) z = Exp(u) }}",
        18,
        {},
        ["Abs", "Exp", "Mul", "Relu", "Sigmoid", "Transpose"],
    ),
    "in a body": (
        f"g (float[2,3,4,5] x, bool c) => (float[2,3,4,5] y) {{ y = If(c) <then_branch = t () => (float[2,3,4,5] u) "
        f"{{ a = {NHWC}(x) r = Relu(a) u = {NCHW}(r) }}, else_branch = e () => (float[2,3,4,5] v) {{ v = Neg(x) }}> }}",
        18,
        {},
        ["If", "Neg", "Relu"],
    ),
    "into ReduceMean": (
        f"g (float[N,3,H,W] x) => (float[a,b] y) {{ a = {NHWC}(x) y = ReduceMean<axes=[1,2],keepdims=0>(a) }}",
        13,
        {},
        ["ReduceMean"],
    ),
    "into ReduceSum of all axes": (
        f"g (float[2,3,4,5] x) => (float y) {{ a = {NHWC}(x) y = ReduceSum<keepdims=0>(a) }}",
        18,
        {},
        ["ReduceSum"],
    ),
    "into ReduceMax, axes an input": (
        f"g (float[2,3,4,5] x) => (float[a,b,c] y) {{ a = {NHWC}(x) y = ReduceMax<keepdims=0>(a, o) }}",
        18,
        {"o": i64(-1)},
        ["ReduceMax"],
    ),
    "around MatMul": (
        "g (float[2,3,4] x, float[5,3] z) => (float[2,5,4] y) { a = Transpose<perm=[0,2,1]>(x) b = Transpose(z) "
        "m = MatMul(a, b) y = Transpose<perm=[0,2,1]>(m) }",
        18,
        {},
        ["MatMul"],
    ),
    "in front of MatMul and behind it": (
        "g (float[N,6,4] x) => (float[a,b,c] y) { a = Transpose<perm=[2,0,1]>(x) m = MatMul(a, w) b = Add(m, k) "
        "r = Relu(b) y = Transpose<perm=[1,0,2]>(r) }",
        18,
        {"w": np.ones((6, 5), np.float32), "k": np.arange(5, dtype=np.float32)},
        ["Add", "MatMul", "Relu", "Transpose"],
    ),
    "around ArgMax": (
        f"g (float[2,3,4,5] x) => (int64[a,b,c,d] y) {{ a = {NHWC}(x) m = ArgMax<axis=3>(a) y = {NCHW}(m) }}",
        13,
        {},
        ["ArgMax"],
    ),
    "of an axis of 1": (
        f"g (float[2,1,4,5] x) => (float[a,b,c,d] y) {{ a = Abs(x) y = {NHWC}(a) }}",
        18,
        {},
        ["Abs", "Reshape"],
    ),
    "of an axis of 1, open batch": (
        f"g (float[N,1,4,5] x) => (float[a,b,c,d] y) {{ a = Abs(x) y = {NHWC}(a) }}",
        9,
        {},
        ["Abs", "Reshape"],
    ),
    "of an axis of 1, no elements": (
        "g (float[0,1,4] x) => (float[a,b,c] y) { a = Abs(x) y = Transpose<perm=[0,2,1]>(a) }",
        14,
        {},
        ["Abs", "Reshape"],
    ),
}

KEPT = {
    "one": (f"{X} {{ a = Abs(x) y = {NHWC}(a) }}", 18, {}),
    "Relu after one": (f"{X} {{ a = {NHWC}(x) y = Relu(a) }}", 18, {}),
    "Softmax before opset 13": (f"{X} {{ a = {NHWC}(x) s = Softmax<axis=3>(a) y = {NCHW}(s) }}", 11, {}),
    "a broadcast of another rank": (
        f"g (float[2,3,4,5] x, float[5,3] z) => (float[a,b,c,d] y) {{ a = {NHWC}(x) s = Add(a, z) y = {NCHW}(s) }}",
        18,
        {},
    ),
    "another reader of what is between": (
        f"g (float[2,3,4,5] x) => (float[2,3,4,5] y, float[2,4,5,3] r, float[2,4,5,3] z) "
        f"{{ a = {NHWC}(x) z = Identity(a) r = Relu(a) y = {NCHW}(r) }}",
        18,
        {},
    ),
    "reduced axes that keep others out of order": (
        "g (float[2,3,4] x) => (float[a,b] y) { a = Transpose(x) y = ReduceSum<keepdims=0>(a, o) }",
        18,
        {"o": i64(0)},
    ),
    "a reduction of nothing": (
        "g (float[2,3,4] x) => (float[a,b,c] y) { a = Transpose(x) y = ReduceSum<noop_with_empty_axes=1>(a) }",
        18,
        {},
    ),
    "ArgMax with another way back": (
        f"g (float[2,3,4,5] x) => (int64[a,b,c,d] y) {{ a = {NHWC}(x) m = ArgMax<axis=3>(a) y = {NHWC}(m) }}",
        13,
        {},
    ),
    "MatMul of one transposed operand": (
        "g (float[3,2] x, float[3,5] z) => (float[5,2] y) { a = Transpose(x) m = MatMul(a, z) y = Transpose(m) }",
        18,
        {},
    ),
    "axes of 1 and an open one that copies": (
        "g (float[N,1,M] x) => (float[a,b,c] y) { a = Abs(x) y = Transpose<perm=[0,2,1]>(a) }",
        18,
        {},
    ),
    "no elements before opset 14": (
        "g (float[0,1,4] x) => (float[a,b,c] y) { a = Abs(x) y = Transpose<perm=[0,2,1]>(a) }",
        13,
        {},
    ),
}


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    assert operators(check(model_of(text, opset, **constants), *ALL)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    check(model_of(text, opset, **constants), *ALL, hits=0)


def test_a_constant_that_others_read_is_copied_in_the_other_order():
    model = model_of(
        f"g (float[2,3,2,2] x) => (float[2,3,2,2] y, float[3] z) "
        f"{{ a = {NHWC}(x) s = Mul(a, k) y = {NCHW}(s) z = Neg(k) }}",
        k=f32(1, 2, 3),
    )
    result = check(model, *ALL)
    assert operators(result) == ["Mul", "Neg"]
    assert result.graph.initializers["k"].shape == (3,)


def test_a_chain_that_leads_nowhere_does_not_hide_the_saving():
    model = model_of(
        f"g (float[2,3,4,5] x, float[2,4,5,3] v) => (float[2,3,4,5] y, float[5] z) "
        f"{{ a = {NHWC}(x) r = Relu(a) y = {NCHW}(r) s = Add(r, v) t = Exp(s) z = "
        f"ReduceMax<axes=[0,1,3],keepdims=0>(t) }}",
        13,
    )
    assert operators(check(model, *ALL)).count("Transpose") == 1
