"""Training-mode BatchNormalization: onnxruntime's kernel writes into its inputs, compiled functions do not."""

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as og

HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
INPUTS = "float[N,3] x, float[3] s, float[3] b, float[3] m, float[3] v"
NORMALIZE = "y, m2, v2 = BatchNormalization <training_mode = 1> (x, s, b, m, v)"
GRAPHS = {
    "statistics unused": f"g ({INPUTS}) => (float[N,3] y) {{ {NORMALIZE} }}",
    "statistics read": f"g ({INPUTS}) => (float[N,3] y, float[3] z) {{ {NORMALIZE} z = Neg(m2) }}",
    "read before and after": f"g ({INPUTS}) => (float[3] z) {{ {NORMALIZE} k = Sub(m2, m) z = Add(k, v2) }}",
    "statistics given": f"g ({INPUTS}) => (float[N,3] y, float[3] m2, float[3] v2) {{ {NORMALIZE} }}",
}
ARRAYS = {
    "x": np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32),
    **{name: np.full(3, number, np.float32) for name, number in {"s": 1.5, "b": 0.5, "m": 2.0, "v": 3.0}.items()},
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_arrays_of_the_caller_stay_as_they_are(graph):
    model = onnx.parser.parse_model(HEADER + graph)
    feeds = {name: array.copy() for name, array in ARRAYS.items()}
    got = og.compile(model)(feeds)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(feeds[name], array)
    for value, want in zip(got.values(), ReferenceEvaluator(model).run(None, ARRAYS), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6)


def test_constants_stay_as_they_are():
    weights = "float[3] s = {1, 1, 1}, float[3] b = {0, 0, 0}, float[3] m = {0, 0, 0}, float[3] v = {1, 1, 1}"
    graph = f"g (float[N,3] x) => (float[N,3] y, float[3] z) <{weights}> {{ {NORMALIZE} z = Neg(m2) }}"
    run = og.compile(onnx.parser.parse_model(HEADER + graph))
    first = run(ARRAYS["x"])["z"].copy()
    np.testing.assert_array_equal(run(ARRAYS["x"])["z"], first)


def test_statistics_computed_for_the_node_alone_cost_nothing():
    inputs = INPUTS.replace("m, float", "m0, float").replace("[3] v", "[3] v0")
    nodes = f"m = Neg(m0) v = Abs(v0) {NORMALIZE} z = Neg(m2)"
    graph = f"g ({inputs}) => (float[N,3] y, float[3] z) {{ {nodes} }}"
    explanation = og.compile(onnx.parser.parse_model(HEADER + graph)).explain()
    assert "expanded" not in str(explanation)
