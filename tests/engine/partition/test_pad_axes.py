"""Pad with axes between transposes: onnxruntime's optimizer moves them over it wrongly, compiled functions do not."""

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as og

HEADER = '<ir_version: 8, opset_import: ["" : 18]> '
PADS = {
    "constants": ("", "<int64[4] p = {1, 2, 3, 4}, int64[2] a = {1, -2}>", "q = Pad (t, p, , a)"),
    "amounts of the run": (", int64[4] p", "<int64[2] a = {3, 2}>", 'q = Pad <mode = "reflect"> (t, p, , a)'),
    "axes of the run": (", int64[4] p, int64[2] a", "<float k = {2.5}>", "q = Pad (t, p, k, a)"),
    "axes of 32 bits": (", int64[4] p, int32[2] b", "", "q = Pad (t, p, , b)"),
}
FEEDS: dict[str, np.ndarray] = {
    "x": np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32),
    "p": np.array([1, 2, 1, 0]),
    "a": np.array([-2, 1]),
    "b": np.array([-1, 2], np.int32),
}


@pytest.mark.parametrize(("inputs", "constants", "pad"), PADS.values(), ids=PADS.keys())
def test_values_are_those_of_the_reference(inputs, constants, pad):
    nodes = f"t = Transpose <perm = [1, 0, 3, 2]> (x) {pad} y = Transpose <perm = [1, 0, 3, 2]> (q)"
    graph = f"g (float[A, B, C, D] x{inputs}) => (float[E, F, G, H] y) {constants} {{ {nodes} }}"
    model = onnx.parser.parse_model(HEADER + graph)
    run = og.compile(model)
    feeds = {name: FEEDS[name] for name in run.input_names}
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(run(feeds)["y"], want)


def test_graphs_that_are_built_hold_no_such_pad():
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 3, 4))
    model = graph.to_model({"y": og.op.Pad(x, [1, 2], None, [-1])})
    assert all(len(node.inputs) < 4 for node in model.graph)
    array = np.ones((1, 3, 4), np.float32)
    np.testing.assert_array_equal(og.compile(model)(array)["y"], np.pad(array, ((0, 0), (0, 0), (1, 2))))


def test_second_derivatives_of_a_transposed_convolution_run_on_any_optimization_level():
    text = "g (float[N, C, H, W] x, float[C, K, 3, 3] w) => (float[N, K, P, Q] y)"
    nodes = "{ y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }"
    first = og.gradient_model(onnx.parser.parse_model(HEADER + text + nodes))
    second = og.gradient_model(first, of=["x.grad", "w.grad"])
    shapes = {"x": (2, 3, 4, 5), "w": (3, 2, 3, 3), "y.grad": (2, 2, 7, 9)}
    shapes |= {f"{name}.grad.grad": shapes[name] for name in "xw"}
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    plain = og.compile(second, optimize=False)(feeds)
    for name, value in og.compile(second)(feeds).items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-4, atol=1e-4)
