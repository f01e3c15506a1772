"""Losses against their definitions, and their gradients at hard places."""

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import OptionError, ShapeError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.losses import L1, MSE, BCEWithLogits, CrossEntropy, Loss
from onnxgrad.grad.reverse import gradients


def loss_and_gradient(loss: Loss, prediction: np.ndarray, label: np.ndarray) -> tuple[float, np.ndarray]:
    """Build the loss on an input with a symbolic batch; returns its value and the gradient of the prediction."""
    x = ir.Value(
        name="x",
        type=ir.TensorType(ir.DataType.from_numpy(prediction.dtype)),
        shape=ir.Shape(["N", *prediction.shape[1:]]),
    )
    dtype, shape = loss.label_like(x)
    t = ir.Value(name="t", type=ir.TensorType(dtype), shape=shape)
    graph = ir.Graph([x, t], [], nodes=[], opset_imports={"": 18}, name="loss")
    y = loss.build(Builder(graph), x, t)
    (dx,) = gradients(y, [x])
    assert dx is not None
    graph.outputs.extend([y, dx])
    run = compile(ir.Model(graph, ir_version=10))
    value, grad = run(prediction, label).values()
    return float(value), grad


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=1, keepdims=True)
    normal: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normal


def test_cross_entropy_is_the_mean_negative_log_likelihood(rng):
    x, t = rng.standard_normal((5, 4)), np.array([0, 3, 1, 1, 2])
    value, grad = loss_and_gradient(CrossEntropy(), x, t)
    assert value == pytest.approx(-log_softmax(x)[np.arange(5), t].mean(), rel=1e-12)
    assert np.allclose(grad, (np.exp(log_softmax(x)) - np.eye(4)[t]) / 5)


def test_cross_entropy_weighs_classes_smooths_labels_and_ignores(rng):
    x, t = rng.standard_normal((6, 3)), np.array([0, 2, -100, 1, -100, 2])
    w, e = np.array([0.5, 2.0, 1.0]), 0.1
    loss = CrossEntropy(class_weights=list(w), ignore_index=-100, label_smoothing=e)
    keep = t != -100
    log_p, labels = log_softmax(x)[keep], t[keep]
    nll = -(w[labels] * log_p[np.arange(keep.sum()), labels]).sum()
    smooth = -(w * log_p).sum(axis=1).sum() / 3
    want = ((1 - e) * nll + e * smooth) / w[labels].sum()  # torch.nn.functional.cross_entropy
    value, grad = loss_and_gradient(loss, x, t)
    assert value == pytest.approx(want, rel=1e-12)
    assert (grad[~keep] == 0).all() and (grad[keep] != 0).all()


def test_cross_entropy_takes_images_of_labels(rng):
    x, t = rng.standard_normal((2, 3, 4, 5)), rng.integers(0, 3, (2, 4, 5))
    value, _ = loss_and_gradient(CrossEntropy(), x, t)
    picked = np.take_along_axis(log_softmax(x), t[:, None], axis=1)
    assert value == pytest.approx(-picked.mean(), rel=1e-12)


def test_cross_entropy_of_a_batch_that_does_not_count_is_zero(rng):
    value, grad = loss_and_gradient(CrossEntropy(ignore_index=9), rng.standard_normal((3, 4)), np.array([9, 9, 9]))
    assert value == 0 and (grad == 0).all()


def test_cross_entropy_names_a_label_out_of_range():
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["N", 4]))
    with pytest.raises(ShapeError, match=r"label 4 is out of range: the model has 4 classes(.|\n)*label\[2\]"):
        CrossEntropy().check_labels(np.array([0, 3, 4]), x)


def test_squared_and_absolute_errors(rng):
    x, t = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    assert loss_and_gradient(MSE(), x, t)[0] == pytest.approx(((x - t) ** 2).mean())
    assert loss_and_gradient(L1(), x, t)[0] == pytest.approx(abs(x - t).mean())
    value, grad = loss_and_gradient(MSE("sum"), x, t)
    assert value == pytest.approx(((x - t) ** 2).sum()) and np.allclose(grad, 2 * (x - t))


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_binary_cross_entropy_is_finite_at_large_logits(p):
    x = np.array([[200.0, -200.0, 0.5, -200.0, 200.0]])
    t = np.array([[0.0, 1.0, 0.3, 0.0, 1.0]])
    value, grad = loss_and_gradient(BCEWithLogits(p), x, t)
    each = p * t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    sigmoid = 1 / (1 + np.exp(-x))
    assert value == pytest.approx(each.mean(), rel=1e-9)
    assert np.allclose(grad, ((1 - t) * sigmoid - p * t * (1 - sigmoid)) / 5)


def test_options_that_make_no_sense_are_refused():
    for make in (
        lambda: CrossEntropy(label_smoothing=1.0),
        lambda: CrossEntropy(reduction="none"),  # type: ignore[arg-type]
        lambda: BCEWithLogits(positive_weight=0),
    ):
        with pytest.raises(OptionError):
            make()
