"""What attention must get right beyond the table."""

import numpy as np
import onnx

from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from tests.grad.checks import evaluate, gradient_model_of, run_in_onnxruntime

GUARDED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,3] x, float[2,3] v) => (float[2,3] y) <bool[2,1] empty = {0, 1}, float zero = {0}> {
    s = Add(x, mask)
    p = Softmax(s)
    q = Where(empty, zero, p)
    y = Mul(q, v)
}"""


def test_a_guarded_softmax_of_a_row_without_keys_has_gradient_0():
    model = onnx.parser.parse_model(GUARDED)
    mask = np.array([[0, 0, -np.inf], [-np.inf] * 3], np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
    gradient = gradient_model_of(model, ["x", "v"])
    feeds = {"x": np.ones((2, 3), "f4"), "v": np.array([[1, 2, 3]] * 2, "f4"), "y.grad": np.ones((2, 3), "f4")}
    for run in (evaluate, run_in_onnxruntime):
        got = run(gradient, feeds)
        np.testing.assert_allclose(got["x.grad"], [[-0.25, 0.25, 0.0], [0.0, 0.0, 0.0]], atol=1e-6)
        np.testing.assert_allclose(got["v.grad"], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], atol=1e-6)
