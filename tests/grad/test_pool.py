"""Pooling: which element takes the gradient, and where onnxruntime lacks operators that the gradient could use."""

import numpy as np
import pytest

from tests.grad.checks import Case, build, evaluate, gradient_model_of, run_gradient, run_in_onnxruntime


def gradient(op, x, **attributes):
    case = Case(op, [np.asarray(x, np.float64)], attributes, opset=20)
    model, feeds = build(case, np.float32, symbolic=False)
    first = gradient_model_of(model, ["x0"])
    ones = np.ones_like(run_in_onnxruntime(model, feeds)["y0"])
    return run_in_onnxruntime(first, {**feeds, "y0.grad": ones})["x0.grad"][0, 0]


@pytest.mark.parametrize("kernel", [2, 40], ids=["compared", "by index"])
def test_the_first_maximum_takes_the_gradient(kernel):
    x = np.zeros(max(kernel, 3))
    x[:3] = 0, 7, 7
    want = np.zeros_like(x)
    want[1] = 2 if kernel == 2 else 1  # windows of two: [0, 7] and [7, 7]
    np.testing.assert_array_equal(gradient("MaxPool", x[None, None], kernel_shape=[kernel]), want)


def test_ties_after_relu_give_each_window_one_gradient():
    grads = gradient("MaxPool", np.zeros((1, 1, 4, 4)), kernel_shape=[2, 2], strides=[2, 2])
    np.testing.assert_array_equal(grads, [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])


def test_ties_of_a_global_maximum_share():
    np.testing.assert_array_equal(gradient("GlobalMaxPool", [[[3, 1, 3, 2.0]]]), [0.5, 0, 0.5, 0])


def test_padding_takes_no_gradient_of_a_maximum():
    grads = gradient("MaxPool", np.full((1, 1, 3), -5.0), kernel_shape=[3], pads=[1, 1])
    assert grads.sum() == 3


@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
def test_norms_have_gradient_0_at_0(op):
    attributes = {"kernel_shape": [2]} if op == "LpPool" else {}
    np.testing.assert_array_equal(gradient(op, np.zeros((1, 1, 3)), **attributes), np.zeros(3))


def test_padding_counts_in_the_mean_on_request_only():
    np.testing.assert_allclose(gradient("AveragePool", [[[1.0, 2]]], kernel_shape=[2], pads=[1, 0]), [1.5, 0.5])
    grads = gradient("AveragePool", [[[1.0, 2]]], kernel_shape=[2], pads=[1, 0], count_include_pad=1)
    np.testing.assert_allclose(grads, [1, 0.5])


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_only_the_batch_is_known_at_run_time(op):
    case = Case(op, [(3, 2, 7, 8)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})
    model, feeds = build(case, np.float32, symbolic=False)
    exact = run_gradient(model, feeds, ["x0"], evaluate)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    np.testing.assert_allclose(
        run_gradient(model, feeds, ["x0"], run_in_onnxruntime)["x0.grad"], exact["x0.grad"], atol=1e-5
    )
