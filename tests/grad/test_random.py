"""Dropout: one mask for both directions."""

import numpy as np
import pytest
from onnx import numpy_helper

from tests.grad.at_points import gradients_of
from tests.grad.checks import Case, build, gradient_model_of, run_in_onnxruntime

SWITCHED = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x, bool t) => (float[N] y)
              <float ratio = {0.75}> { y = Dropout<seed = 7>(x, ratio, t) }"""


def test_forward_and_backward_share_the_mask():
    case = Case("Dropout", ((50,), np.array(0.4), np.array(True)), fixed=[1])
    model, feeds = build(case, np.float32, symbolic=True)
    feeds["x0"] = np.ones(50, np.float32)
    both = gradient_model_of(model, ["x0"])
    both.graph.output.add().CopyFrom(model.graph.output[0])
    found = run_in_onnxruntime(both, {**feeds, "y0.grad": np.ones(50, np.float32)})
    np.testing.assert_array_equal(found["y0"], found["x0.grad"])
    assert 0 < np.count_nonzero(found["y0"]) < 50
    np.testing.assert_allclose(found["y0"].max(), 1 / 0.6, rtol=1e-6)


@pytest.mark.parametrize(("training", "kept"), [(True, 4.0), (False, 1.0)])
def test_the_mode_may_be_known_at_run_time_only(training, kept):
    feeds = {"x": np.ones(40, np.float32), "t": np.array(training)}
    (dx,) = gradients_of(SWITCHED, feeds, {"y": np.ones(40, np.float32)})
    assert set(dx) <= {0.0, kept} and kept in dx
    assert training == (0 in dx)


def test_the_ratio_keeps_its_own_type():
    case = Case("Dropout", ((4,), np.array(0.5), np.array(True)), fixed=[1])
    model, feeds = build(case, np.float16, symbolic=False)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(0.5, np.float32), "x1"))
    (dx,) = gradients_of(model, feeds, {"y0": np.ones(4, np.float16)})
    assert dx.dtype == np.float16 and set(dx) <= {0, 2}
