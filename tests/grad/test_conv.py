"""Convolutions: run-time image sizes with a kernel of known size, nothing to do for frozen weights, empty batches."""

import numpy as np
import onnx
import pytest

import onnxgrad as og
from tests.grad.cases.conv import CASES
from tests.grad.checks import Case, build, evaluate, gradient_model_of, run_gradient, run_in_onnxruntime, seeds_of

SOME = [case for case in CASES if case.op_type in ("Conv", "ConvTranspose") and case.runs32]


def with_run_time_image(case: Case, first: int = 0) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a case with symbolic dimensions of x from axis `first` on, and a weight of known shape."""
    model, feeds = build(case, np.float32, symbolic=False)
    for axis, dim in enumerate(model.graph.input[0].type.tensor_type.shape.dim):
        if axis >= first and axis != 1:
            dim.dim_param = f"d{axis}"
    return model, feeds


def conv_model(**shapes) -> onnx.ModelProto:
    case = Case("Conv", [shapes["x"], shapes["w"]], {"pads": [1, 1, 1, 1]}, domain=(-1, 1))
    return build(case, np.float32, symbolic=False)[0]


@pytest.mark.parametrize("first", [0, 2], ids=["batch and image", "image"])
@pytest.mark.parametrize("case", SOME, ids=str)
def test_sizes_of_images_may_be_known_at_run_time_only(case, first):
    model, feeds = with_run_time_image(case, first)
    exact = run_gradient(build(case, np.float64, symbolic=False)[0], feeds, list(feeds), evaluate)
    found = run_gradient(model, feeds, list(feeds), run_in_onnxruntime)
    for name, want in exact.items():
        np.testing.assert_allclose(found[name], want, atol=2e-4, err_msg=name)


def test_a_symbolic_batch_gives_the_same_function_as_a_known_one():
    case = Case("Conv", [(4, 3, 6, 6), (5, 3, 3, 3)], {"pads": [1, 1, 1, 1]})
    model, feeds = build(case, np.float32, symbolic=False)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    (function,) = gradient_model_of(model, ["x1"]).functions
    assert "Shape" not in {node.op_type for node in function.node}
    assert run_gradient(model, feeds, ["x1"], run_in_onnxruntime)["x1.grad"].shape == (5, 3, 3, 3)


@pytest.mark.parametrize("shape", [(0, 2, 4, 4), (0, 40, 3, 3)], ids=str)
def test_an_empty_batch_gives_a_weight_gradient_of_zeros(shape):
    case = Case("Conv", [shape, (48, shape[1], 3, 3)], {"pads": [1, 1, 1, 1]})
    model, feeds = build(case, np.float32, symbolic=False)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    y = np.zeros((0, 48, *shape[2:]), np.float32)
    grads = run_in_onnxruntime(gradient_model_of(model, list(feeds)), {**feeds, **seeds_of(model, {"y0": y})})
    assert grads["x0.grad"].shape == shape
    np.testing.assert_array_equal(grads["x1.grad"], np.zeros_like(feeds["x1"]))


def test_a_frozen_weight_costs_no_node():
    model = conv_model(x=(1, 2, 4, 4), w=(3, 2, 3, 3))
    found = og.to_proto(og.gradient_model(model.SerializeToString(), wrt=["x0"]))
    assert "ConvWeightGrad" not in {node.op_type for node in found.graph.node}
    found = og.to_proto(og.gradient_model(model.SerializeToString(), wrt=["x1"]))
    assert "ConvTranspose" not in {node.op_type for node in found.graph.node}


def test_equal_convolutions_share_one_function():
    graph = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 4, 6, 6] x, float[4, 4, 3, 3] v, float[4, 4, 3, 3] w) => (float[N, 4, 6, 6] y) {
            h = Conv <pads = [1, 1, 1, 1]> (x, v)
            y = Conv <pads = [1, 1, 1, 1]> (h, w)
        }""")
    found = og.to_proto(og.gradient_model(graph.SerializeToString(), wrt=["v", "w"]))
    assert [function.name for function in found.functions] == ["ConvWeightGrad"]
