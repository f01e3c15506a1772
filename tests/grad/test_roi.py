"""Reading regions: none of them, and the gradient as one readable node."""

import numpy as np
import pytest

from tests.grad.cases.roi import align
from tests.grad.checks import Arrays, build, gradient_model_of, run_in_onnxruntime


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
def test_no_regions_give_gradients_of_zeros(mode, samples):
    model, feeds = build(align(sampling_ratio=samples, mode=mode), np.float32, symbolic=True)
    feeds["x1"] = np.zeros((0, 4), np.float32)
    del model.graph.initializer[:]
    model.graph.input.add(name="x2").type.tensor_type.elem_type = 7
    model.graph.input[-1].type.tensor_type.shape.dim.add(dim_param="x1_0")
    first = gradient_model_of(model, ["x0", "x1"])
    none: Arrays = {"x2": np.zeros(0, np.int64), "y0.grad": np.zeros((0, 2, 2, 3), np.float32)}
    grads = run_in_onnxruntime(first, {**feeds, **none})
    np.testing.assert_array_equal(grads["x0.grad"], np.zeros_like(feeds["x0"]))
    assert grads["x1.grad"].shape == (0, 4)


def test_the_gradient_is_one_call():
    model, _ = build(align(sampling_ratio=2), np.float32, symbolic=False)
    nodes = gradient_model_of(model, ["x0", "x1"]).graph.node
    assert [node.op_type for node in nodes if node.op_type != "Constant"] == ["RoiAlign", "RoiAlignGrad"]
