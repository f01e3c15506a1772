"""Constant folding: right, and never at the price of a bigger file."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.fold_constants import fold_constants
from onnxgrad.engine.passes.lift_constants import lift_constants
from onnxgrad.engine.passes.remove_dead_code import remove_dead_code
from tests.engine.passes.checks import check, f32, i64, model_of, operators

BIG = np.arange(4096, dtype=np.float32).reshape(64, 64)

FOLDED = {
    "a tree": ("g (float[3] x) => (float[3] y) { a = Exp(k) b = Add(a, k) c = Neg(b) y = Add(x, c) "
               "}", {"k": f32(1, 2, 3)}),
    "an output": ("g (float[3] x) => (float[3] y, float[3] z) { y = Abs(x) z = Add(k, k) }", {"k": f32(1, 2, 3)}),
    "int64 division truncates": (
        "g (int64[2] x) => (int64[2] y, int64[2] z) { d = Div(a, b) m = Mod(a, b) y = Add(x, d) z = Add(x, m) }",
        {"a": i64(-7, 7), "b": i64(2, -2)},
    ),
    "a transposed weight": ("g (float[2,64] x) => (float[2,64] y) { t = Transpose(w) y = MatMul(x, t) }", {"w": BIG}),
    "bfloat16": ("g (float[2] x) => (float[2] y) { s = Mul(a, a) c = Cast<to=1>(s) y = Add(x, c) }",
                 {"a": np.array([1.5, 2.5], ml_dtypes.bfloat16)}),
    "float8": ("g (float[2] x) => (float[2] y) { c = Cast<to=1>(a) y = Add(x, c) }",
               {"a": np.array([0.3, 448], ml_dtypes.float8_e4m3fn)}),
    "a small Range": ("g (int64[4] x) => (int64[4] y) { r = Range(a, b, c) y = Add(x, r) }",
                      {"a": np.array(0), "b": np.array(4), "c": np.array(1)}),
    "a sum of a big Range": ("g (int64[1] x) => (int64[1] y) { r = Range(a, b, c) s = ReduceSum(r, ax) y = Add(x, s) }",
                             {"a": np.array(0), "b": np.array(100000), "c": np.array(1), "ax": i64(0)}),
    "two outputs": ("g (float[2] x) => (float[2] y) { a, b = Split<num_outputs=2>(k) c = Add(x, a) y = Add(c, b) }",
                    {"k": f32(1, 2, 3, 4)}),
    "NaN and infinity": (
        "g (float[2] x) => (float[2] y) { a = Div(k, z) y = Add(x, a) }", {"k": f32(0, 1), "z": f32(0, 0)}),
}  # fmt: skip

KEPT = {
    "ConstantOfShape": ("g (float[64,64] x) => (float[64,64] y) { k = ConstantOfShape<value=float[1]{1}>(s) y = "
                        "Add(x, k) }",
                        {"s": i64(64, 64)}),
    "Expand": (
        "g (float[64,64] x) => (float[64,64] y) { k = Expand(a, s) y = Add(x, k) }", {"a": f32(1), "s": i64(64, 64)}),
    "Tile": ("g (float[640] x) => (float[640] y) { k = Tile(a, s) y = Add(x, k) }", {"a": f32(1, 2), "s": i64(320)}),
    "Range": ("g (float[3000] x) => (float[3000] y) { r = Range(a, b, c) f = Cast<to=1>(r) y = Add(x, f) }",
              {"a": np.array(0), "b": np.array(3000), "c": np.array(1)}),
    "a wider dtype": (
        "g (float[64,64] x) => (float[64,64] y) { k = Cast<to=1>(h) y = Add(x, k) }", {"h": BIG.astype(np.float16)}),
    "a weight that another node needs": (
        "g (float[64,64] x) => (float[64,64] y) { t = Transpose(w) a = MatMul(x, t) y = Add(a, w) }", {"w": BIG}),
    "dequantized weights": (
        "g (float[2,4] x) => (float[2,4] y) { w = DequantizeLinear(q, s) y = MatMul(x, w) }",
        {"q": np.ones((4, 4), np.int8), "s": np.float32(0.1)}),
    "sequences": ("g (float[2] x) => (float[6] y) { s = SequenceConstruct(k, k) t = SequenceInsert(s, x) y = "
                  "ConcatFromSequence<axis=0>(t) }",
                  {"k": f32(1, 2)}),
    "an input with a default": ("g (float[2] x, float[2] w) => (float[2] y) { c = Mul(w, w) y = Add(x, c) "
                                "}", {"w": f32(1, 2)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_folds(name):
    text, constants = FOLDED[name]
    result = check(
        model_of(text, opset=19, ir_version=9, **constants), fold_constants, lift_constants, remove_dead_code
    )
    assert len(operators(result)) == len(result.graph.outputs) - (name == "an output") + (name == "two outputs")


@pytest.mark.parametrize("name", KEPT)
def test_leaves_alone(name):
    text, constants = KEPT[name]
    model = model_of(text, **constants)
    before = og.to_proto(model).ByteSize()
    result = check(model, fold_constants)
    assert operators(result) == operators(model)
    assert og.to_proto(result).ByteSize() < before + 512


def test_what_is_too_large_to_keep_may_be_a_step_on_the_way():
    text = "g (float[1] x) => (float[1] y) { k = Expand(a, s) m = ReduceMean<keepdims=0>(k) y = Add(x, m) }"
    assert operators(check(model_of(text, a=f32(3), s=i64(64, 64)), fold_constants)) == ["Add"]


def test_below_a_result_that_is_too_large_folding_goes_on():
    text = "g (float[64,64] x) => (float[64,64] y) { b = Exp(a) c = Neg(b) k = Expand(c, s) y = Add(x, k) }"
    assert operators(check(model_of(text, a=f32(1), s=i64(64, 64)), fold_constants)) == ["Add", "Expand"]


def test_two_results_do_not_spend_the_same_weight():
    text = (
        "g (float[64,64] x) => (float[64,64] y) { a = Neg(w) b = Exp(a) c = Transpose(w) d = MatMul(x, b) y = "
        "MatMul(d, c) }"
    )
    model = model_of(text, w=(BIG / 1e5))
    result = check(model, fold_constants, lift_constants, remove_dead_code)
    assert og.to_proto(result).ByteSize() <= og.to_proto(model).ByteSize() + 512


def test_int32_wraps_as_it_does_at_run_time():
    check(
        model_of("g (int32[1] x) => (int32[1] y) { d = Add(a, a) y = Add(x, d) }", a=np.array([2**30], np.int32)),
        fold_constants,
    )


def test_constants_in_bodies_are_folded():
    body = (
        "<then_branch = t () => (float[2] u) { a = Add(k, k) u = Mul(x, a) }, else_branch = e () => (float[2] v) "
        "{ b = Neg(k) v = Mul(x, b) }>"
    )
    result = check(
        model_of(f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c){body} }}", k=f32(1, 2)), fold_constants, hits=2
    )
    assert operators(result) == ["If", "Mul", "Mul"]


def test_a_node_that_fails_is_left_to_fail_at_run_time():
    text = "g (float[2] x) => (float[d] y) { a = Reshape(k, s) b = Neg(j) c = Add(x, b) y = Concat<axis=0>(c, a) }"
    model = model_of(text, k=f32(1, 2, 3), s=i64(2), j=f32(1, 2))
    result = og.optimize_for_inference(model)
    assert [node.op_type for node in result.graph] == ["Reshape", "Add", "Concat"]


def test_folded_values_own_their_memory():
    weight = np.ones((2, 2), np.float32)
    model = model_of("g (float[2] x) => (float[4] y) { r = Reshape(w, s) y = Concat<axis=0>(r) }", w=weight, s=i64(4))
    result = check(model, fold_constants)
    assert result.graph.outputs[0].const_value.numpy().tolist() == [1, 1, 1, 1]


def test_constant_strings_stay():
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19]> g (string[1] x) => (string[3] y) { k = Concat<axis=0>(a, b) y = '
        "Concat<axis=0>(x, k) }"
    )
    for name in "ab":
        proto.graph.initializer.append(
            onnx.helper.make_tensor(name, onnx.TensorProto.STRING, [1], np.array([name], object))
        )
    model = og.load(proto)
    result = og.optimize_for_inference(model)
    assert og.compile(result)(np.array(["s"], object))["y"].tolist() == ["s", "a", "b"]
    assert isinstance(result, ir.Model)
