"""Reshape, Flatten, Squeeze and Unsqueeze in a row, and around what does not mind the shape."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.reshape import RULES
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators

X, N = "g (float[2,3,4] x)", "g (float[N,3,4] x)"

BETTER = {
    # name: text, opset, constants, the operators that are left
    "Reshape, Reshape": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) y = Reshape(a, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6)},
        ["Reshape"],
    ),
    "Reshape, Reshape to the shape of x": (
        f"{X} => (float[a,b,c] y) {{ a = Reshape(x, s) b = Reshape(a, t) y = Abs(b) }}",
        18,
        {"s": i64(6, 4), "t": i64(2, 3, 4)},
        ["Abs"],
    ),
    "Reshape to -1, Reshape": (
        f"{N} => (float[a,b] y) {{ a = Reshape(x, s) y = Reshape(a, t) }}",
        18,
        {"s": i64(-1), "t": i64(-1, 6)},
        ["Reshape"],
    ),
    "Reshape, Reshape that copies a dimension of the first": (
        f"{X} => (float[a,b,c] y) {{ a = Reshape(x, s) b = Reshape(a, t) y = Abs(b) }}",
        18,
        {"s": i64(6, 4), "t": i64(0, 2, 2)},
        ["Abs", "Reshape"],
    ),
    "Flatten, Reshape": (
        f"{N} => (float[a,b] y) {{ a = Flatten(x) b = Reshape(a, t) y = Abs(b) }}",
        18,
        {"t": i64(-1, 4)},
        ["Abs", "Reshape"],
    ),
    "Flatten, Flatten": (
        f"{N} => (float[a,b] y) {{ a = Flatten<axis=2>(x) b = Flatten<axis=0>(a) y = Abs(b) }}",
        13,
        {},
        ["Abs", "Reshape"],
    ),
    "Unsqueeze, Squeeze": (
        f"{N} => (float[a,b,c] y) {{ a = Unsqueeze(x, o) b = Squeeze(a, o) y = Abs(b) }}",
        18,
        {"o": i64(1)},
        ["Abs"],
    ),
    "Unsqueeze, Squeeze at an output": (
        f"{N} => (float[a,b,c] y) {{ r = Abs(x) a = Unsqueeze(r, o) y = Squeeze(a, o) }}",
        18,
        {"o": i64(1)},
        ["Abs"],
    ),
    "Unsqueeze, Squeeze, axes as attributes": (
        f"{N} => (float[a,b,c] y) {{ a = Unsqueeze<axes=[1,3]>(x) b = Squeeze<axes=[3,1]>(a) y = Abs(b) }}",
        11,
        {},
        ["Abs"],
    ),
    "Squeeze, Unsqueeze": (
        "g (float[N,1,M] x) => (float[a,b,c] y) { a = Squeeze(x, o) b = Unsqueeze(a, o) y = Abs(b) }",
        18,
        {"o": i64(1)},
        ["Abs"],
    ),
    "Unsqueeze, Unsqueeze": (
        "g (float[N,M] x) => (float[a,b,c,d,e] y) { a = Unsqueeze(x, o) y = Unsqueeze(a, p) }",
        18,
        {"o": i64(0, 3), "p": i64(1)},
        ["Unsqueeze"],
    ),
    "Squeeze, Squeeze": (
        "g (float[1,N,1,M,1] x) => (float[a,b] y) { a = Squeeze(x, o) y = Squeeze(a, p) }",
        18,
        {"o": i64(0, 2), "p": i64(2)},
        ["Squeeze"],
    ),
    "Squeeze, Squeeze, from the end": (
        "g (float[1,N,1,M,1] x) => (float[a,b] y) { a = Squeeze<axes=[-3]>(x) y = Squeeze<axes=[-1,0]>(a) }",
        9,
        {},
        ["Squeeze"],
    ),
    "a scalar": (
        "g (float x) => (float[a] y) { a = Unsqueeze(x, o) b = Reshape(a, t) y = Abs(b) }",
        18,
        {"o": i64(0), "t": i64(1)},
        ["Abs", "Reshape"],
    ),
    "row 18: 0 means the dimension of the first": (
        f"{X} => (float[a,b,c] y) {{ a = Reshape(x, s) y = Reshape(a, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(2, 3, 4)},
        ["Reshape"],
    ),
    "row 7: literal zeros": (
        "g (float[0,6,2] x) => (float[a,b,c] y) { a = Reshape(x, s) y = Reshape<allowzero=1>(a, t) }",
        18,
        {"s": i64(3, 2, -1), "t": i64(0, 0, 3)},
        ["Reshape"],
    ),
    "around Relu": (
        f"{N} => (float[a,b,c] y) {{ a = Flatten(x) r = Relu(a) b = Reshape(r, t) y = Abs(b) }}",
        18,
        {"t": i64(-1, 3, 4)},
        ["Abs", "Relu"],
    ),
    "around a scaling": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) m = Mul(a, k) y = Reshape(m, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6), "k": f32(2)},
        ["Mul", "Reshape"],
    ),
    "around 1 - x": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) m = Sub(k, a) y = Reshape(m, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6), "k": np.float32(1)},
        ["Reshape", "Sub"],
    ),
    "around Clip": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) m = Clip(a, l, h) y = Reshape(m, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6), "l": np.float32(0), "h": np.float32(1)},
        ["Clip", "Reshape"],
    ),
    "Squeeze of a reduction": (
        f"{N} => (float[a,b] y) {{ a = ReduceMean(x, o) y = Squeeze(a, o) }}",
        18,
        {"o": i64(-1)},
        ["ReduceMean"],
    ),
    "Squeeze of a reduction, axes as attributes": (
        f"{N} => (float[a] y) {{ a = ReduceMean<axes=[1,2]>(x) y = Squeeze<axes=[2,1]>(a) }}",
        9,
        {},
        ["ReduceMean"],
    ),
    "Squeeze of ArgMax": (
        f"{N} => (int64[a,b] y) {{ a = ArgMax<axis=1>(x) y = Squeeze(a, o) }}",
        18,
        {"o": i64(1)},
        ["ArgMax"],
    ),
}

KEPT = {
    "one": (f"{X} => (float[a,b] y) {{ a = Abs(x) y = Reshape(a, s) }}", 18, {"s": i64(6, 4)}),
    "row 8: what is reshaped is a shape": (
        "g (float[4] x, int64[1,2] sh) => (float[a,b] y) { s = Reshape(sh, o) y = Reshape(x, s) }",
        18,
        {"o": i64(2)},
    ),
    "two free dimensions": (
        "g (float[N,3,M] x) => (float[a,b,c,d] y) { a = Reshape(x, s) b = Unsqueeze(a, o) y = Abs(b) }",
        18,
        {"s": i64(0, -1, 3), "o": i64(0)},
    ),
    "zeros before opset 14": (
        "g (float[0,6,2] x) => (float[a,b,c] y) { a = Reshape(x, s) b = Reshape(a, t) y = Abs(b) }",
        13,
        {"s": i64(0, 3, 4), "t": i64(0, 4, 3)},
    ),
    "around a bias of several": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) m = Add(a, k) y = Reshape(m, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6), "k": f32(1, 2, 3, 4)},
    ),
    "around Softmax": (
        f"{X} => (float[a,b] y) {{ a = Reshape(x, s) m = Softmax(a) y = Reshape(m, t) }}",
        18,
        {"s": i64(6, 4), "t": i64(4, 6)},
    ),
    "around Relu that others read": (
        "g (float[2,6] x) => (float[a,b] y, float[c,d] z) "
        "{ a = Reshape(x, s) r = Relu(a) y = Reshape(r, t) z = Neg(r) }",
        18,
        {"s": i64(3, 4), "t": i64(4, 3)},
    ),
    "Squeeze of another axis": (
        "g (float[1,3] x) => (float[a] y) { a = ReduceMean(x, o) y = Squeeze(a, p) }",
        18,
        {"o": i64(1), "p": i64(0)},
    ),
    "Squeeze of all axes": (
        "g (float[N,3] x) => (float[a] y) { a = ReduceMean(x, o) y = Squeeze(a) }",
        18,
        {"o": i64(1)},
    ),
    "Squeeze of a reduction that is an output": (
        "g (float[N,3] x) => (float[a] y, float[b,1] a) { a = ReduceMean(x, o) y = Squeeze(a, o) }",
        18,
        {"o": i64(1)},
    ),
}

BIAS = "g (float[1,2,1,W] x) => (float[a,b,c] y) {{ h = Conv({conv}) s = Squeeze(h, o) y = Add(s, c) }}"


def test_a_bias_behind_a_squeeze_moves_to_its_convolution():
    weights = {"w": np.ones((3, 2, 1, 2), np.float32), "o": i64(-2), "c": np.arange(3, dtype=np.float32).reshape(3, 1)}
    result = check(model_of(BIAS.format(conv="x, w"), 13, **weights), *RULES, hits=1)
    assert [node.op_type for node in result.graph if node.op_type != "Constant"] == ["Conv", "Add", "Squeeze"]


def test_a_bias_stays_where_the_convolution_has_one():
    weights = {"w": np.ones((3, 2, 1, 2), np.float32), "o": i64(2), "c": np.ones((3, 1), np.float32)}
    check(model_of(BIAS.format(conv="x, w, b"), 13, b=np.ones(3, np.float32), **weights), *RULES, hits=0)


def test_a_bias_of_more_dimensions_stays():
    weights = {"w": np.ones((3, 2, 1, 2), np.float32), "o": i64(2), "c": np.ones((2, 1, 3, 1), np.float32)}
    text = BIAS.format(conv="x, w").replace("float[a,b,c]", "float[d,a,b,c]")
    check(model_of(text, 13, **weights), *RULES, hits=0)


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    assert operators(check(model_of(text, opset, **constants), *RULES)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    check(model_of(text, opset, **constants), *RULES, hits=0)


def test_a_first_reshape_that_others_read_stays_beside_the_merged_one():
    model = model_of(
        "g (float[2,3,4] x) => (float[4,6] y, float[6,4] z) { a = Reshape(x, s) y = Reshape(a, t) z = Neg(a) }",
        s=i64(6, 4),
        t=i64(4, 6),
    )
    result = check(model, *RULES, hits=1)
    assert operators(result) == ["Neg", "Reshape", "Reshape"]
    assert {node.inputs[0].name for node in result.graph if node.op_type == "Reshape"} == {"x"}


def test_a_target_that_is_an_input_is_not_known():
    model = model_of(
        "g (float[2,3,4] x, int64[2] t) => (float[a,b] y) { a = Reshape(x, s) y = Reshape(a, t) }", s=i64(6, 4)
    )
    result, record = apply(model, *RULES)
    assert operators(result) == ["Reshape", "Reshape"]
    assert "the target cannot be written" in record["merge_reshapes"].reasons
