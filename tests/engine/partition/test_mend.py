"""Models that onnxruntime refuses or gets wrong run all the same, each by the first remedy that helps."""

import ml_dtypes
import numpy as np
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import ModelError, OpsetError
from tests.engine.text_models import compiled, f32, f64, model_of

BF16 = ml_dtypes.bfloat16


def remedies(run):
    return [(remedy.kind, remedy.op_type) for remedy in run.explain().remedies if remedy.node]


def check(run, feeds, wanted):
    for got, want in zip(run(*feeds).values(), wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5)


MENDED = [  # graph, opset, inputs, outputs, remedies
    (
        "g (bfloat16[N] x, bfloat16[N] z) => (bfloat16[N] y) { y = Mul(x, z) }",
        21,
        [np.asarray([1.5, -2], BF16), np.asarray([3, 0.25], BF16)],
        [np.asarray([4.5, -0.5], BF16)],
        [("widened", "Mul")],
    ),
    (
        "g (int16[N] x, int16[N] z) => (int16[N] y) { y = Max(x, z) }",
        21,
        [np.asarray([-7, 300], np.int16), np.asarray([2, -300], np.int16)],
        [np.asarray([2, 300], np.int16)],
        [("widened", "Max")],
    ),
    (
        "g (uint64[N] x, int64[1] k) => (uint64[M] y, int64[M] i) { y, i = TopK(x, k) }",
        24,
        [np.asarray([5, 2**63 + 5, 7], np.uint64), np.asarray([2], np.int64)],
        [np.asarray([2**63 + 5, 7], np.uint64), np.asarray([1, 2], np.int64)],
        [("host", "TopK")],
    ),
    (
        "g (float[N] x, float[N] z) => (float[N] y) { y = Mod <fmod: int = 0> (x, z) }",
        28,
        [f32([-3, 5, -1]), f32([2, -3, np.inf])],
        [np.mod(f32([-3, 5, -1]), f32([2, -3, np.inf]))],
        [("rewritten", "Mod")],
    ),
    (
        "g (double[1, 1, 1] x, double[1, 4, 1] w) => (double[1, 1, 1, 1] y) { y = LSTM <hidden_size = 1> (x, w, w) }",
        22,
        [f64([[[1]]]), np.zeros((1, 4, 1))],
        [np.zeros((1, 1, 1, 1))],
        [("host", "LSTM")],
    ),
    (
        "g (bool[N, M] x) => (bool[N] y) <int64[1] a = {1}> { y = ReduceMin <keepdims: int = 0> (x, a) }",
        20,
        [np.zeros((2, 0), np.bool_)],
        [np.ones(2, np.bool_)],
        [("widened", "ReduceMin")],
    ),
    (
        "g (float[2, 3] x, float[3] b) => (float[2, 3] y) { y = Add <axis: int = 1, broadcast: int = 1> (x, b) }",
        6,
        [f32([[1, 2, 3], [4, 5, 6]]), f32([1, 1, 0])],
        [f32([[2, 3, 3], [5, 6, 6]])],
        [],
    ),
    (
        "g (float[N] x) => (float16[N] y) { h = Cast <to: int = 23> (x) y = Cast <to: int = 10> (h) }",
        25,
        [f32([0.4, -3.2, 100])],
        [np.asarray([0.5, -3, 6], np.float16)],
        [("host", "Cast"), ("host", "Cast")],
    ),
]


@pytest.mark.parametrize(("graph", "opset", "feeds", "wanted", "kinds"), MENDED, ids=[row[0][:60] for row in MENDED])
def test_a_node_without_a_kernel_is_mended(graph, opset, feeds, wanted, kinds):
    run = compile(model_of(graph, opset, ir_version=13 if opset > 24 else 10), providers="cpu", threads=1)
    check(run, feeds, wanted)
    assert remedies(run) == kinds


def test_a_model_that_onnxruntime_runs_is_left_alone():
    explanation = compiled("g (float[N] x) => (float[N] y) { y = Relu(x) }").explain()
    assert explanation.remedies == () and len(explanation.regions) == 1 and explanation.delegated_share == 1


@pytest.mark.parametrize(("opset", "ir_version"), [(27, 14), (28, 14)])
def test_opsets_newer_than_onnxruntime_run(opset, ir_version):
    model = model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }", opset, ir_version)
    run = compile(model, providers="cpu")
    check(run, [f32([-1, 2])], [f32([0, 2])])
    assert run.explain().delegated_share == 1


def test_an_operator_newer_than_onnxruntime_is_expanded():
    model = model_of("g (float[N] x, float[N] z) => (float[N] y) { y = SwiGLU(x, z) }", 28, 14)
    x, z = np.linspace(-2, 2, 8, dtype=np.float32), np.linspace(1, 3, 8, dtype=np.float32)
    run = compile(model, providers="cpu")
    assert remedies(run) == [("expanded", "SwiGLU")]
    check(run, [x, z], [x / (1 + np.exp(-x)) * z])


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_with_the_batch_first_agree_with_those_without(op_type):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    text = f"""g (float[B, T, 2] x, float[1, {gates * 3}, 2] w, float[1, {gates * 3}, 3] r, float[B, 1, 3] h)
      => (float[B, T, 1, 3] y, float[B, 1, 3] yh) {{
      y, yh = {op_type} <hidden_size: int = 3, layout: int = 1> (x, w, r, "", "", h) }}"""
    plain = f"""g (float[T, B, 2] x, float[1, {gates * 3}, 2] w, float[1, {gates * 3}, 3] r, float[1, B, 3] h)
      => (float[T, 1, B, 3] y, float[1, B, 3] yh) {{
      y, yh = {op_type} <hidden_size: int = 3> (x, w, r, "", "", h) }}"""
    rng = np.random.default_rng(0)
    x, w, r, h = (
        rng.standard_normal(s, np.float32) for s in ((4, 5, 2), (1, gates * 3, 2), (1, gates * 3, 3), (4, 1, 3))
    )
    run = compiled(text)
    first = run(x, w, r, h)
    second = compiled(plain)(x.transpose(1, 0, 2), w, r, h.transpose(1, 0, 2))
    np.testing.assert_array_equal(first["y"], second["y"].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(first["yh"], second["yh"].transpose(1, 0, 2))
    assert remedies(run) == [("rewritten", op_type)]


def test_bodies_are_mended_inside_where_no_host_is_needed():
    graph = """g (bool c, bfloat16[2] x) => (bfloat16[2] y) { y = If (c) <
      then_branch = t () => (bfloat16[2] a) { a = Add(x, x) },
      else_branch = e () => (bfloat16[2] b) { b = Mul(x, x) }> }"""
    run = compiled(graph)
    x = np.asarray([3, -2], BF16)
    np.testing.assert_array_equal(run(np.asarray(True), x)["y"], np.asarray([6, -4], BF16))
    np.testing.assert_array_equal(run(np.asarray(False), x)["y"], np.asarray([9, 4], BF16))
    assert {kind for kind, _ in remedies(run)} == {"widened"}


def test_bodies_inside_bodies_that_read_one_value_are_mended():
    graph = """g (bool c, bfloat16[2] x) => (bfloat16[2] y) { y = If (c) <
      then_branch = t () => (bfloat16[2] a) { a = If (c) <
        then_branch = tt () => (bfloat16[2] p) { p = Neg(x) },
        else_branch = te () => (bfloat16[2] q) { q = Identity(x) }> },
      else_branch = e () => (bfloat16[2] b) { b = Identity(x) }> }"""
    run = compiled(graph)
    np.testing.assert_array_equal(run(np.asarray(True), np.asarray([3, -2], BF16))["y"], np.asarray([-3, 2], BF16))
    assert remedies(run) == [("widened", "Neg")]


def test_a_body_that_needs_the_host_takes_its_node_there():
    graph = """g (bool c, uint64[3] x, int64[1] k) => (uint64[2] y) { y = If (c) <
      then_branch = t () => (uint64[2] a) { a, i = TopK(x, k) },
      else_branch = e () => (uint64[2] b) { s, j = TopK <largest: int = 0> (x, k) b = Identity(s) }> }"""
    run = compiled(graph, 24)
    x, k = np.asarray([5, 9, 7], np.uint64), np.asarray([2], np.int64)
    np.testing.assert_array_equal(run(np.asarray(True), x, k)["y"], [9, 7])
    np.testing.assert_array_equal(run(np.asarray(False), x, k)["y"], [5, 7])
    assert ("host", "If") in remedies(run)
    assert run.explain().on_host == run.explain().nodes == 4


def test_functions_of_the_model_are_mended_through():
    text = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
      g (bfloat16[2] x) => (bfloat16[2] y) { y = own.twice(x) }
      <domain: "own", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) }"""
    from onnx import parser

    run = compile(parser.parse_model(text), providers="cpu")
    np.testing.assert_array_equal(run(np.asarray([1, 2], BF16))["y"], np.asarray([2, 4], BF16))


def test_a_float32_transform_is_computed_in_float64():
    run = compiled("g (float[1, N, 1] x) => (float[1, N, 2] y) { y = DFT(x) }", 20)
    x = np.arange(100, dtype=np.float32).reshape(1, 100, 1)
    want = np.fft.fft(x[..., 0])
    np.testing.assert_allclose(run(x)["y"][..., 0], want.real, rtol=1e-6, atol=1e-4)
    assert remedies(run) == [("widened", "DFT")]


def test_gradient_nodes_of_the_training_preview_run():
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
      g (float[3] x) => (float[3] d, float[3] dd) {
        s = Mul(x, x)
        z = Mul(s, x)
        d = ai.onnx.preview.training.Gradient <xs: strings = ["x"], y: string = "z"> (x)
        dd = ai.onnx.preview.training.Gradient <xs: strings = ["x"], y: string = "d"> (x)
      }"""
    from onnx import parser

    x = f32([1, 2, 3])
    check(compile(parser.parse_model(text), providers="cpu"), [x], [3 * x * x, 6 * x])


INVALID = [
    ("g (float[N] x, int64[N] z) => (float[N] y) { y = Add(x, z) }", 21, ModelError, "Add"),
    ("g (float[N] x) => (float[N] y) { y = Relu <alpha: float = 1.0> (x) }", 21, ModelError, "alpha"),
    ("g (bfloat16[N] x) => (bfloat16[N] y) { y = Relu <alpha: float = 1.0> (x) }", 21, ModelError, "alpha"),
    ("g (bfloat16[N] x, float[N] z) => (bfloat16[N] y) { y = Add(x, z) }", 21, ModelError, "must be the same"),
    ("g (float[N] x) => (float[N] y) { y = Nope(x) }", 21, ModelError, "ai.onnx::Nope"),
    ("g (float[N] x) => (float[N] y) { y = Relu(x) }", 99, OpsetError, "99"),
]


@pytest.mark.parametrize(("graph", "opset", "kind", "part"), INVALID, ids=[row[0][:60] for row in INVALID])
def test_what_is_not_valid_is_an_error_and_no_case_for_a_remedy(graph, opset, kind, part):
    with pytest.raises(kind, match=part):
        compiled(graph, opset)


def test_float64_stays_exact_on_the_host():
    run = compiled("g (double[N] x) => (double[N] y) { y = Selu <alpha: float = 2.0, gamma: float = 1.0> (x) }", 22)
    check(run, [f64([1, 1 + 2**-50])], [f64([1, 1 + 2**-50])])
