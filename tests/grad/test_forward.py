"""og.jvp_model: against finite differences, and against the reverse mode."""

import numpy as np
import onnx.checker
import pytest

from onnxgrad.engine.errors import GradientError, OptionError
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.grad.forward import jvp, jvp_model
from onnxgrad.grad.gradient_model import differentiable_copy, gradient_model
from tests.engine.text_models import f32, f64, model_of
from tests.grad.checks import Arrays, evaluate, run_in_onnxruntime

GRAPHS = {
    "broadcasting": ("g (double[2, 3] x, double[3] z) => (double[2, 3] y) { m = Mul(x, z) y = Tanh(m) }", {}),
    "matmul": (
        "g (double[2, 3] x, double[3, 4] z) => (double[2, 4] y) { m = MatMul(x, z) y = Softmax(m) }",
        {},
    ),
    "two outputs": (
        """g (double[2, 3] x) => (double[2] y, double[3, 2] v) {
        y = ReduceLogSumExp<keepdims = 0>(x, a) v = Transpose(x) }""",
        {"a": np.array([1])},
    ),
    "conv": (
        """g (double[1, 2, 4, 4] x, double[3, 2, 3, 3] z) => (double[1, 3] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, z) p = GlobalAveragePool(c) y = Flatten(p) }""",
        {},
    ),
    "gather": ("g (double[4, 2] x) => (double[3, 2] y) { e = Gather(x, i) y = Exp(e) }", {"i": np.array([3, 0, 3])}),
    "if": (
        """g (double[3] x, double[3] z) => (double[3] y) { y = If(c) <
        then_branch = a () => (double[3] t) { t = Mul(x, z) },
        else_branch = b () => (double[3] e) { e = Add(x, z) }> }""",
        {"c": np.array(True)},
    ),
    "scan": (
        """g (double[2] x, double[4, 2] z) => (double[2] y, double[4, 2] v) {
        y, v = Scan<num_scan_inputs = 1, body = b (double[2] s, double[2] i) => (double[2] n, double[2] o) {
            m = Mul(s, i) n = Tanh(m) o = Add(n, i) }>(x, z) }""",
        {},
    ),
    "lstm": (
        """g (double[3, 2, 2] x, double[1, 12, 2] z, double[1, 12, 3] r) => (double[3, 1, 2, 3] y) {
        y = LSTM<hidden_size = 3>(x, z, r) }""",
        {},
    ),
}


def build(name: str):
    """A model of the table whose constants are initializers, with float inputs and a tangent for each."""
    graph, constants = GRAPHS[name]
    model = model_of(graph, 21)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, key) for key, value in constants.items())
    rng = np.random.default_rng(1)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    feeds = {key: rng.standard_normal(shape) for key, shape in shapes.items()}
    tangents = {f"{key}.tangent": rng.standard_normal(shape) for key, shape in shapes.items()}
    return model, feeds, tangents


@pytest.mark.parametrize("name", GRAPHS)
def test_tangents_agree_with_central_differences(name):
    model, feeds, tangents = build(name)
    result = jvp_model(model)
    verify(result)
    proto = to_proto(result)
    onnx.checker.check_model(proto, full_check=True)
    got = evaluate(proto, {**feeds, **tangents})
    h = 1e-6
    ahead, behind = (evaluate(model, moved(feeds, tangents, step)) for step in (h, -h))
    for key, value in ahead.items():
        assert np.allclose(got[f"{key}.tangent"], (value - behind[key]) / (2 * h), rtol=1e-7, atol=1e-7), key


def moved(feeds: Arrays, tangents: Arrays, step: float) -> Arrays:
    return {key: value + step * tangents[f"{key}.tangent"] for key, value in feeds.items()}


@pytest.mark.parametrize("name", GRAPHS)
def test_forward_mode_is_the_transpose_of_reverse_mode(name, rng):
    """<u, J t> = <J^T u, t>."""
    model, feeds, tangents = build(name)
    forward = evaluate(to_proto(jvp_model(model)), {**feeds, **tangents})
    seeds = {f"{v.name}.grad": rng.standard_normal(forward[v.name].shape) for v in model.graph.output}
    wrt = list(feeds)
    reverse = evaluate(to_proto(gradient_model(model, wrt)), {**feeds, **seeds})
    left = sum((seeds[f"{v.name}.grad"] * forward[f"{v.name}.tangent"]).sum() for v in model.graph.output)
    right = sum((reverse[f"{key}.grad"] * tangents[f"{key}.tangent"]).sum() for key in wrt)
    assert left == pytest.approx(right, rel=1e-10)


def test_names_of_inputs_and_outputs():
    graph = "g (float[N] x, float[N] z) => (float[N] y, float[N] v) { y = Mul(x, z) v = Neg(z) }"
    everything = to_proto(jvp_model(model_of(graph)))
    assert [v.name for v in everything.graph.input] == ["x", "z", "x.tangent", "z.tangent"]
    assert [v.name for v in everything.graph.output] == ["y", "v", "y.tangent", "v.tangent"]
    some = to_proto(jvp_model(model_of(graph), wrt=["x"], of=["y"]))
    assert [v.name for v in some.graph.input] == ["x", "z", "x.tangent"]
    assert [v.name for v in some.graph.output] == ["y", "v", "y.tangent"]


def test_an_output_that_does_not_depend_on_the_input_has_a_tangent_of_zeros():
    graph = "g (float[N] x, float[N] z) => (float[N] y, float[N] v) { y = Mul(x, x) v = Neg(z) }"
    proto = to_proto(jvp_model(model_of(graph), wrt=["x"]))
    got = run_in_onnxruntime(proto, {"x": f32([2, 3]), "z": f32([1, 1]), "x.tangent": f32([1, 1])})
    assert got["y.tangent"].tolist() == [4, 6] and got["v.tangent"].tolist() == [0, 0]
    none = to_proto(jvp_model(model_of(graph), wrt=["x"], of=["v"]))
    assert [node.op_type for node in none.graph.node].count("Mul") == 1, "nothing is left behind"


def test_outputs_of_functions_have_tangents():
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (double[N] x) => (double[N] y, double[N] v) { y, v = my.Both(x) }
    <domain: "my", opset_import: ["": 21]> Both (a) => (b, c) { b = Mul(a, a) c = Neg(a) }"""
    proto = to_proto(jvp_model(onnx.parser.parse_model(text)))
    onnx.checker.check_model(proto, full_check=True)
    got = evaluate(proto, {"x": f64([3]), "x.tangent": f64([2])})
    assert got["y.tangent"].tolist() == [12] and got["v.tangent"].tolist() == [-2]


def test_initializers_may_move():
    graph = "g (float[N, 2] x) => (float[N, 1] y) <float[2, 1] w = {1, 2}> { y = MatMul(x, w) }"
    proto = to_proto(jvp_model(model_of(graph), wrt=["w"]))
    got = run_in_onnxruntime(proto, {"x": f32([[3, 4]]), "w.tangent": f32([[1], [10]])})
    assert got["y.tangent"].tolist() == [[43]]


def test_unknown_names_are_errors():
    with pytest.raises(OptionError, match=r"no input, initializer or value 'q'"):
        jvp_model(model_of("g (float[N] x) => (float[N] y) { y = Neg(x) }"), wrt=["q"])
    model = differentiable_copy(model_of("g (float[N] x) => (float[N] y) { y = Neg(x) }"))
    with pytest.raises(GradientError, match="1 values need as many tangents, not 0"):
        jvp(model.graph.outputs, model.graph.inputs, [])
