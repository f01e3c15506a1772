"""optimize_for_inference as a whole: what it promises, and graphs that optimizers are known to break."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine import optimize
from onnxgrad.engine.compare import compare
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Ops, Pattern, Rewrite
from onnxgrad.engine.passes.scope import Scope
from tests.engine.passes.checks import f32, i64, model_of, operators

BROKEN_ELSEWHERE: dict[str, tuple[str, dict[str, np.ndarray], list[str] | None]] = {
    # reports of reference optimizers: text, constants, operators that are left (None: any)
    "a dropout before a constant that is one": (
        "g (float[2] x) => (float[2] y) { mid = Dropout(x) one = Div(k, k) w = Mul(mid, one) y = Add(w, z) }",
        {"k": np.array(1, np.float32), "z": np.array(0, np.float32)}, None),
    "float to int to float": ("g (float[4] x) => (float[4] y) { a = Cast<to=6>(x) y = Cast<to=1>(a) "
                              "}", {}, ["Cast", "Cast"]),
    "double to float to double": ("g (double[4] x) => (double[4] y) { a = Cast<to=1>(x) y = Cast<to=11>(a) "
                                  "}", {}, ["Cast", "Cast"]),
    "int64 to int8 to int64": ("g (int64[4] x) => (int64[4] y) { a = Cast<to=3>(x) y = Cast<to=7>(a) "
                               "}", {}, ["Cast", "Cast"]),
    "an identity transpose before a Gemm": (
        "g (float[3,4] x) => (float[3,5] y) { t = Transpose<perm=[0,1]>(x) y = Gemm(t, w) }",
        {"w": np.arange(20, dtype=np.float32).reshape(4, 5)}, ["Gemm"]),
    "0 copies from the inner operand": (
        "g (float[2,3,4] x) => (float[a,b,c] y) { m = Reshape(x, s) y = Reshape(m, t) }",
        {"s": i64(6, 4), "t": i64(0, 2, 2)}, None),
    "a constant of several readers": (
        "g (float[2] x) => (float[2] y, float[2] z) { d = Div(x, a) y = Add(d, a) z = Mul(x, b) }",
        {"a": f32(2, 2), "b": f32(4, 4)}, None),
    "1 / -0.0": ("g (float[2] x) => (float[2] y) { a = Div(x, p) b = Div(x, n) y = Sub(a, b) }",
        {"p": f32(0, 0), "n": f32(-0.0, -0.0)}, None),
    "an output that is a constant": ("g (float[3] x) => (float[3] y, float[3] k) { y = Relu(x) k = Add(a, a) "
                                     "}", {"a": f32(1, 2, 3)}, None),
    "an output that is an input": ("g (float[3] x) => (float[3] y, float[3] z) { y = Identity(x) z = Identity(x) "
                                   "}", {}, ["Identity", "Identity"]),
    "a folded If whose result is an output": (
        "g (float[2] x) => (float[2] y, float[2] k) { k = If(c)<then_branch = t () => (float[2] to) { to = Add(w, w) "
        "}, "
        "else_branch = e () => (float[2] eo) { eo = Sub(w, w) }> y = Add(x, k) }",
        {"c": np.array(False), "w": f32(2, 3)}, None),
    "a function with a constant of its own": (
        "g (float[2] x) => (float[2] y) { y = local.f(x) }\n"
        '<domain: "local", opset_import: ["" : 18]> f (a) => (b) { k = Constant<value_int=3>() c = Cast<to=1>(k) b = '
        'Sub(a, c) }', {}, ["Sub"]),
    "unused outputs of a Split": (
        "g (float[6] x) => (float[2] y) { a, b, c = Split<axis=0>(x, s) y = Add(a, c) }",
        {"s": i64(2, 2, 2)}, ["Add", "Split"]),
    "a mask of a Dropout": ("g (float[3] x) => (float[3] y, bool[3] m) { y, m = Dropout(x) }", {}, ["Dropout"]),
    "x * 0 with NaN": ("g (float[3] x) => (float[3] y) { n = Log(x) y = Mul(n, z) }", {"z": f32(0)}, ["Log", "Mul"]),
    "all operands of a Concat empty": (
        "g (float[2,3] x) => (float[a,b] y) { c = Concat<axis=0>(e, e) y = Concat<axis=0>(x, c) }",
        {"e": np.zeros((0, 3), np.float32)}, None),
    "a reduction over no axes": (
        "g (float[2,3] x) => (float[a,b] y) { y = ReduceSum<noop_with_empty_axes=1>(x, ax) }", {"ax": i64()}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_ELSEWHERE)
def test_answers_stay(name):
    text, constants, left = BROKEN_ELSEWHERE[name]
    model = model_of(text, imports=', "local" : 1' if "local" in text else "", **constants)
    before = og.to_proto(model).SerializeToString()
    result = og.optimize_for_inference(model)
    assert og.to_proto(model).SerializeToString() == before
    onnx.checker.check_model(og.to_proto(result), full_check=True)
    compare(model, result, 2, {})
    assert left is None or operators(result) == left


def test_a_path_bytes_and_protos_are_taken(tmp_path):
    model = model_of("g (float[2] x) => (float[2] y) { a = Identity(x) y = Abs(a) }")
    og.save(model, tmp_path / "m.onnx")
    proto = og.to_proto(model)
    for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), proto.SerializeToString(), proto):
        assert operators(og.optimize_for_inference(source)) == ["Abs"]


def test_names_metadata_and_unused_inputs_stay():
    model = model_of(
        "g (float[2] x, float[7] unused, float[2] w) => (float[2] y) { a = Identity(x) [n] y = Mul(a, w) }", w=f32(1, 2)
    )
    model.metadata_props["author"] = "me"
    model.graph.doc_string = "doc"
    result = og.optimize_for_inference(model)
    assert [value.name for value in result.graph.inputs] == ["x", "unused", "w"]
    assert result.metadata_props["author"] == "me"
    assert result.graph.doc_string == "doc"
    assert result.graph[0].name == "n"
    got = og.compile(result)(x=f32(1, 1), unused=np.zeros(7, np.float32), w=f32(5, 6))
    assert got["y"].tolist() == [5, 6]


def test_initializers_that_old_files_list_as_inputs_are_folded():
    model = model_of(
        "g (float[2] x, float[2] w) => (float[2] y) { a = Add(w, w) y = Mul(x, a) }", opset=8, ir_version=3, w=f32(1, 2)
    )
    result = og.optimize_for_inference(model)
    assert (operators(result), [value.name for value in result.graph.inputs], result.ir_version) == (["Mul"], ["x"], 4)
    compare(model, result, 1, {})


def test_an_input_with_a_default_decides_no_shape():
    model = model_of("g (float[2,3] x, int64[2] s) => (float[a,b] y) { r = Reshape(x, s) y = Abs(r) }", s=i64(2, 3))
    result = og.optimize_for_inference(model)
    assert og.compile(result)(np.zeros((2, 3), np.float32), s=i64(3, 2))["y"].shape == (3, 2)


def test_what_is_left_alone_by_name():
    model = model_of("g (float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) y = Abs(b) }")
    result = og.optimize_for_inference(model, disable="remove_identity")
    assert operators(result).count("Identity") == 2
    assert og.optimization_report(result).disabled == ("remove_identity",)


def test_an_unknown_pass_is_an_error_that_helps():
    with pytest.raises(og.errors.OptionError, match="did you mean remove_identity"):
        og.optimize_for_inference(
            model_of("g (float[2] x) => (float[2] y) { y = Abs(x) }"), disable=["remove_identities"]
        )


def test_names_of_passes_are_unique_and_described():
    names = [optimize.name_of(entry) for entry in optimize.PASSES if isinstance(entry, Rewrite)]
    assert len(set(names)) == len(names)
    assert all(text.endswith(".") and len(text) > 10 for text in optimize.pass_names().values()), optimize.pass_names()


def test_the_report_counts_and_gives_reasons():
    model = model_of("g (float[2] x) => (float[2] y) { a = Identity(x) t = Cast<to=6>(a) y = Cast<to=1>(t) }")
    report = og.optimization_report(og.optimize_for_inference(model))
    assert report.hits["remove_identity"] == 1
    assert set(report.reasons["remove_cast"]) == {"not x.dtype == ir.DataType(to)"}
    assert "remove_identity  1" in str(report)
    assert report.to_dict()["hits"] == report.hits


def test_a_model_without_a_report():
    with pytest.raises(og.errors.OptionError, match="does not come from optimize_for_inference"):
        og.optimization_report(model_of("g (float[2] x) => (float[2] y) { y = Abs(x) }"))


def test_replaced_tells_where_a_value_went():
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = Abs(x) b = Identity(a) c = Identity(b) d = Neg(x) y = Exp(c) }"
    )
    result = og.optimize_for_inference(model)
    went = og.replaced("c", result)
    assert went is not None and went is result.graph[0].outputs[0]
    assert og.replaced(model.graph[0].outputs[0], result) is went
    assert og.replaced("x", result) is result.graph.inputs[0]
    assert og.replaced("d", result) is None
    with pytest.raises(og.errors.OptionError, match="no value 'q'"):
        og.replaced("q", result)


def test_input_shapes_open_more_simplifications():
    model = model_of("g (float[N,3] x) => (float[a,b] y) { s = Shape(x) c = Cast<to=1>(s) y = Mul(x, m) m = "
                     "ReduceMax<keepdims=0>(c) }".replace(
        "y = Mul(x, m) m = ReduceMax<keepdims=0>(c)", "m = ReduceMax<keepdims=0>(c) y = Mul(x, m)"))  # fmt: skip
    assert "Shape" in operators(og.optimize_for_inference(model))
    result = og.optimize_for_inference(model, input_shapes={"x": [5, None]}, check=1)
    assert operators(result) == ["Mul"]
    assert str(result.graph.inputs[0].shape) == "[5,3]"


def test_the_opset_stays_unless_it_is_raised():
    model = model_of("g (float[2,3] x) => (float[2] y) { y = ReduceMean<axes=[1], keepdims=0>(x) }", opset=13)
    assert og.optimize_for_inference(model).opset_imports[""] == 13
    assert og.optimize_for_inference(model, opset=18, check=1).opset_imports[""] == 18


class Wrong(Rewrite):
    """Abs(x) -> Neg(x)."""

    def pattern(self, op: Ops, x: Leaf) -> Pattern:
        return op.Abs(x)

    def rewrite(self, op: Builder, x: ir.Value) -> ir.Value:
        return op.Neg(x)


def test_check_finds_a_wrong_rewrite(monkeypatch):
    monkeypatch.setattr(optimize, "PASSES", (*optimize.PASSES, Wrong()))
    with pytest.raises(og.errors.EquivalenceError, match=r"run 0: y +float32.2. +differs by"):
        og.optimize_for_inference(model_of("g (float[2] x) => (float[2] y) { y = Abs(x) }"), check=1)


def break_model(scope: Scope) -> int:
    """Breaks the model."""
    scope.model.graph[0].outputs[0].name = "x"
    return 1


def test_a_pass_that_breaks_a_model_is_named(monkeypatch):
    monkeypatch.setattr(optimize, "PASSES", (break_model,))
    with pytest.raises(og.errors.VerificationError, match="break_model broke the model"):
        og.optimize_for_inference(model_of("g (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }"))


def test_a_random_model_cannot_be_checked():
    model = model_of("g (float[2] x) => (float[2] y) { a = RandomUniformLike(x) y = Add(a, x) }")
    assert operators(og.optimize_for_inference(model)) == ["Add", "RandomUniformLike"]
    with pytest.raises(og.errors.OptionError, match="draws random numbers"):
        og.optimize_for_inference(model, check=1)


def test_files_without_inner_types_get_none():
    model = model_of("g (float[2] x) => (float[2] y) { a = Abs(x) b = Identity(a) y = Exp(b) }")
    assert not og.to_proto(og.optimize_for_inference(model)).graph.value_info


def test_a_chain_of_thousands_of_nodes():
    nodes = " ".join(
        f"a{i} = Identity(a{i - 1}) b{i} = Cast<to=1>(a{i}) a{i}c = Sin(b{i})".replace(f"a{i - 1})", f"a{i - 1}c)")
        for i in range(1, 800)
    )
    model = model_of(f"g (float[2] x) => (float[2] y) {{ a0c = Neg(x) {nodes} y = Exp(a799c) }}")
    assert operators(og.optimize_for_inference(model)).count("Sin") == 799
