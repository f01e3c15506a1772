"""og.losses on tensors and variables."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn
from onnxgrad.grad.tape.kernels import CACHES, clear_caches
from tests.models.nn.layers import floats

LABELS = np.array([0, 2, 1, 2])


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def test_cross_entropy_is_the_mean_of_negative_log_probabilities():
    x = floats(4, 3)
    want = -log_softmax(x)[np.arange(4), LABELS].mean()
    np.testing.assert_allclose(float(nn.cross_entropy(og.Tensor(x), LABELS)), want, rtol=1e-5)


def test_options_of_cross_entropy_are_those_of_the_loss():
    x = floats(4, 3)
    rows = -log_softmax(x)[[0, 2], [0, 1]].sum()
    found = nn.cross_entropy(og.Tensor(x), LABELS, ignore_index=2, reduction="sum")
    np.testing.assert_allclose(float(found), rows, rtol=1e-5)


def test_mse_is_the_mean_of_squares():
    x, t = floats(4, 3), floats(4, 3, seed=1)
    np.testing.assert_allclose(float(nn.mse(og.Tensor(x), og.Tensor(t))), ((x - t) ** 2).mean(), rtol=1e-5)


@pytest.mark.parametrize("loss", [og.losses.L1(), og.losses.BCEWithLogits(), og.losses.MSE("sum")], ids=repr)
def test_the_gradient_of_a_loss_is_its_derivative(loss):
    x, t = og.Tensor(floats(4, 3), "float64"), np.random.default_rng(1).random((4, 3))
    step = np.random.default_rng(2).standard_normal((4, 3))
    with og.GradManager().attach(x) as gm:
        gm.backward(nn.apply_loss(loss, x, t))
    values = [float(nn.apply_loss(loss, og.Tensor(x.numpy() + size * step), t)) for size in (1e-5, -1e-5)]
    assert x.grad is not None
    np.testing.assert_allclose((x.grad.numpy() * step).sum(), (values[0] - values[1]) / 2e-5, rtol=1e-6)


def test_the_gradient_of_cross_entropy_is_probabilities_without_the_label():
    x = og.Tensor(floats(4, 3))
    with og.GradManager().attach(x) as gm:
        gm.backward(nn.cross_entropy(x, og.Tensor(LABELS)))
    want = (np.exp(log_softmax(x.numpy())) - np.eye(3)[LABELS]) / 4
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4, atol=1e-6)


def test_one_graph_serves_batches_of_all_sizes():
    clear_caches()
    for count in (1, 2, 3):
        nn.cross_entropy(og.Tensor(floats(count, 3)), LABELS[:count])
    assert len(CACHES.kernels) == 1


def test_labels_are_cast():
    x = og.Tensor(floats(4, 3))
    want = nn.cross_entropy(x, LABELS).item()
    assert nn.cross_entropy(x, LABELS.astype(np.int32)).item() == want
    assert nn.cross_entropy(x, og.Tensor(LABELS, "uint8")).item() == want


def test_labels_that_are_no_whole_numbers_are_an_error():
    with pytest.raises(og.errors.InputError, match="labels must be whole numbers, not float"):
        nn.cross_entropy(og.Tensor(floats(4, 3)), LABELS.astype(np.float32))


@pytest.mark.parametrize("labels", [LABELS[:3], LABELS[:, None]], ids=["too few", "of another rank"])
def test_labels_of_another_shape_are_an_error(labels):
    with pytest.raises(og.errors.ShapeError, match=r"do not fit a prediction of shape \[4, 3\]"):
        nn.cross_entropy(og.Tensor(floats(4, 3)), labels)


def test_a_loss_of_variables_is_a_variable():
    graph = og.Graph()
    x, y = graph.input("x", "float32", ("N", 3)), graph.input("y", "int64", ("N",))
    run = graph.compile([x, y], og.copy_output(nn.cross_entropy(x, y)))
    want = nn.cross_entropy(og.Tensor(floats(4, 3)), LABELS).item()
    np.testing.assert_allclose(run(floats(4, 3), LABELS), want, rtol=1e-6)
