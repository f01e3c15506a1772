"""DepthToSpace and SpaceToDepth from their parts; pools, Resize and reductions that do nothing."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.layout import RULES
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators

X, N = "g (float[2,8,3,5] x) => (float[a,b,c,d] y)", "g (float[N,8,3,5] x) => (float[a,b,c,d] y)"
PARTS = "{{ a = Reshape(x, s) b = Transpose<perm={perm}>(a) c = Reshape(b, t) y = Abs(c) }}"
DCR, CRD, BACK = (PARTS.format(perm=perm) for perm in ("[0,3,4,1,5,2]", "[0,1,4,2,5,3]", "[0,3,5,1,2,4]"))
R = "g (float[1,2,4,4] x) => (float[a,b,c,d] y)"

BETTER = {
    # name: text, opset, constants, the operators that are left
    "DepthToSpace": (f"{X} {DCR}", 9, {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)}, ["Abs", "DepthToSpace"]),
    "DepthToSpace, open batch": (
        f"{N} {DCR}",
        13,
        {"s": i64(-1, 2, 2, 2, 3, 5), "t": i64(-1, 2, 6, 10)},
        ["Abs", "DepthToSpace"],
    ),
    "DepthToSpace, CRD": (
        f"{X} {CRD}",
        13,
        {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)},
        ["Abs", "DepthToSpace"],
    ),
    "DepthToSpace at an output": (
        f"{X} {{ a = Reshape(x, s) b = Transpose<perm=[0,1,4,2,5,3]>(a) y = Reshape(b, t) }}",
        13,
        {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)},
        ["DepthToSpace"],
    ),
    "SpaceToDepth": (
        f"g (float[2,3,4,6] x) => (float[a,b,c,d] y) {BACK}",
        9,
        {"s": i64(2, 3, 2, 2, 3, 2), "t": i64(2, 12, 2, 3)},
        ["Abs", "SpaceToDepth"],
    ),
    "MaxPool": (f"{R} {{ a = MaxPool<kernel_shape=[1,1]>(x) y = Abs(a) }}", 9, {}, ["Abs"]),
    "AveragePool": (
        f'{R} {{ a = AveragePool<kernel_shape=[1,1],strides=[1,1],auto_pad="SAME_UPPER">(x) y = Abs(a) }}',
        9,
        {},
        ["Abs"],
    ),
    "Resize": (f"{R} {{ a = Resize(x, , c) y = Abs(a) }}", 13, {"c": f32(1, 1, 1, 1)}, ["Abs"]),
    "Resize, linear, opset 10": (
        f'{R} {{ a = Resize<mode="linear">(x, c) y = Abs(a) }}',
        10,
        {"c": f32(1, 1, 1, 1)},
        ["Abs"],
    ),
    "Resize to a size": (
        f'{R} {{ a = Resize<mode="cubic">(x, , , z) y = Abs(a) }}',
        13,
        {"z": i64(1, 2, 4, 4)},
        ["Abs"],
    ),
    "Resize of two axes": (f"{R} {{ a = Resize<axes=[2,3]>(x, , , z) y = Abs(a) }}", 18, {"z": i64(4, 4)}, ["Abs"]),
    "Upsample": (f"{R} {{ a = Upsample(x, c) y = Abs(a) }}", 9, {"c": f32(1, 1, 1, 1)}, ["Abs"]),
    "Upsample, attribute": (f"{R} {{ a = Upsample<scales=[1.0,1.0,1.0,1.0]>(x) y = Abs(a) }}", 7, {}, ["Abs"]),
    "ReduceMax of 1": (
        "g (float[N,1,3] x) => (float[a,b,c] y) { a = ReduceMax<axes=[1]>(x) y = Abs(a) }",
        13,
        {},
        ["Abs"],
    ),
    "ReduceMin of 1, without it": (
        "g (float[N,1,3] x) => (float[a,b] y) { a = ReduceMin<keepdims=0>(x, o) y = Abs(a) }",
        18,
        {"o": i64(-2)},
        ["Abs", "Squeeze"],
    ),
}

KEPT = {
    "another order": (
        f"{X} {PARTS.format(perm='[0,3,4,2,5,1]')}",
        13,
        {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)},
    ),
    "blocks that are no squares": (
        "g (float[2,8,3,5] x) => (float[a,b,c,d] y) " + DCR,
        13,
        {"s": i64(2, 4, 1, 2, 3, 5), "t": i64(2, 2, 12, 5)},
    ),
    "another shape at the end": (f"{X} {DCR}", 13, {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 10, 6)}),
    "CRD before opset 11": (f"{X} {CRD}", 9, {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)}),
    "what is between is read": (
        "g (float[2,8,3,5] x) => (float[a,b,c,d] y, float[k,l,m,n,o,p] a) "
        "{ a = Reshape(x, s) b = Transpose<perm=[0,3,4,1,5,2]>(a) y = Reshape(b, t) }",
        13,
        {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)},
    ),
    "integers": (
        "g (int32[2,8,3,5] x) => (int32[a,b,c,d] y) " + DCR,
        13,
        {"s": i64(2, 2, 2, 2, 3, 5), "t": i64(2, 2, 6, 10)},
    ),
    "SpaceToDepth of other blocks": (
        f"g (float[2,3,4,6] x) => (float[a,b,c,d] y) {BACK}",
        13,
        {"s": i64(2, 3, 2, 2, 2, 3), "t": i64(2, 18, 2, 2)},
    ),
    "MaxPool with strides": (f"{R} {{ a = MaxPool<kernel_shape=[1,1],strides=[2,2]>(x) y = Abs(a) }}", 13, {}),
    "MaxPool with pads": (f"{R} {{ a = MaxPool<kernel_shape=[1,2],pads=[0,1,0,0]>(x) y = Abs(a) }}", 13, {}),
    "MaxPool with indices": (
        "g (float[1,2,4,4] x) => (float[a,b,c,d] y, int64[e,f,g,h] i) { y, i = MaxPool<kernel_shape=[1,1]>(x) }",
        13,
        {},
    ),
    "Resize that crops": (
        f'{R} {{ a = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, c) y = Abs(a) }}',
        13,
        {"r": f32(0, 0, 0, 0, 1, 1, 0.5, 0.5), "c": f32(1, 1, 1, 1)},
    ),
    "Resize by 2": (f"{R} {{ a = Resize(x, , c) y = Abs(a) }}", 13, {"c": f32(1, 1, 1, 2)}),
    "Resize to another size": (f"{R} {{ a = Resize(x, , , z) y = Abs(a) }}", 13, {"z": i64(1, 2, 4, 3)}),
    "ReduceMax of 3": ("g (float[N,1,3] x) => (float[a,b,c] y) { a = ReduceMax<axes=[2]>(x) y = Abs(a) }", 13, {}),
    "ReduceMax of an open axis": (
        "g (float[N,1,3] x) => (float[a,b,c] y) { a = ReduceMax<axes=[0]>(x) y = Abs(a) }",
        13,
        {},
    ),
    "ReduceSum of 1, where -0 becomes 0": (
        "g (float[N,1,3] x) => (float[a,b,c] y) { a = ReduceSum(x, o) y = Abs(a) }",
        13,
        {"o": i64(1)},
    ),
    "ReduceL2 of nothing": ("g (float[2,3] x) => (float[a,b] y) { y = ReduceL2<axes=[0]>(x) }", 13, {}),
}


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    assert operators(check(model_of(text, opset, **constants), *RULES)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    _, record = apply(model_of(text, opset, **constants), *RULES)
    assert sum(entry.hits for entry in record.values()) == 0


def test_a_reduction_of_no_axes_goes_where_it_means_nothing_is_reduced():
    text = "g (float[2,3] x) => (float[a,b] y) {{ a = ReduceSum<noop_with_empty_axes={noop}>(x, o) y = Abs(a) }}"
    empty = np.zeros(0, np.int64)
    result, _ = apply(model_of(text.format(noop=1), 13, o=empty), *RULES)
    assert operators(result) == ["Abs"]
    result, _ = apply(model_of(text.format(noop=0), 13, o=empty), *RULES)
    assert operators(result) == ["Abs", "ReduceSum"]
