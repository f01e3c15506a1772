"""Models as graphs and graphs as models: the same values on either side."""

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxgrad as og

HEADER = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]> '
MODELS = {
    "weights": """g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, 1}>
        { h = Gemm (x, w, b) y = Relu(h) }""",
    "a branch": """g (float[N, 3] x) => (float[N, 3] y) {
        s = ReduceSum <keepdims = 0> (x) z = Constant <value = float {0}> ()
        c = Greater (s, z) y = If (c) <then_branch = t () => (float[N, 3] a) { a = Neg(x) },
        else_branch = e () => (float[N, 3] a) { a = Exp(x) }> }""",
    "a loop": """g (float[N, 3] x) => (float[N, 3] y) {
        n = Constant <value = int64 {3}> () k = Constant <value = bool {1}> ()
        y = Loop (n, k, x) <body = b (int64 i, bool c, float[N, 3] s) => (bool m, float[N, 3] t)
        { m = Identity(c) t = Add(s, x) }> }""",
    "several outputs": """g (float[N, 3] x) => (float[N, 1] a, int64[N, 1] b, float[N, 3] x2)
        { k = Constant <value = int64[1] {1}> () a, b = TopK (x, k) x2 = Identity(x) }""",
    "a function": """g (float[N, 3] x) => (float[N, 3] y) { y = local.twice (x) }
        <domain: "local", opset_import: ["" : 21]> twice (a) => (b) { b = Add (a, a) }""",
}
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return onnx.parser.parse_model(HEADER + MODELS[request.param])


@pytest.mark.parametrize("parameters", [True, False])
def test_a_model_as_a_graph_computes_the_same(model, parameters):
    graph, outputs = og.Graph.from_model(og.load(model), parameters=parameters)
    run = graph.compile(None, [og.copy_output(value) for value in outputs.values()])
    want = og.compile(model)(X)
    assert list(outputs) == list(want)
    for got, expected in zip(run(x=X), want.values(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_there_and_back_is_the_same_model(model):
    graph, outputs = og.Graph.from_model(og.load(model))
    again = graph.to_model(outputs)
    onnx.checker.check_model(og.to_proto(again))
    want = og.compile(model)(X)
    got = og.compile(again)(X)
    assert list(got) == list(want)
    for name, expected in want.items():
        np.testing.assert_allclose(got[name], expected, rtol=1e-6)


def test_weights_become_parameters_that_can_be_set():
    graph, outputs = og.Graph.from_model(og.load(onnx.parser.parse_model(HEADER + MODELS["weights"])))
    run = graph.compile(None, og.copy_output(outputs["y"]))
    (bias,) = [var for var in graph.inputs if var.name == "b"]
    before = run(x=X)
    og.SharedTensor.from_var(bias).set(np.array([100, 200], np.float32))
    np.testing.assert_allclose(run(x=X).min(axis=0) > 50, [True, True])
    assert before.max() < 50


def test_a_scalar_is_a_constant_of_the_model():
    graph = og.Graph()
    x, scale = graph.input("x", "float32", (2, 3)), og.SharedScalar(2.0)
    saved = graph.to_model({"y": x * scale})
    scale.set(7.0)
    np.testing.assert_allclose(og.compile(saved)(X)["y"], 2 * X)
