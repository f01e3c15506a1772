"""Losses on labels: exact gradients, ignored labels, and nothing but the loss as output."""

import numpy as np
import onnx
import pytest

from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from tests.grad.checks import gradient_model_of, run_in_onnxruntime

LOSSES = ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")


def gradient(op_type, scores, labels, attributes="", weights=None, outputs="loss", dtype="float"):
    """dscores (and dweights) for a loss with seed 1 (or ones), in onnxruntime."""
    shape = ",".join(map(str, scores.shape))
    kept = f", {dtype}[{len(weights)}] w" if weights is not None else ""
    result = f"{dtype}[{','.join(map(str, labels.shape))}]" if "none" in attributes else dtype
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    g ({dtype}[{shape}] x, int64[{",".join(map(str, labels.shape))}] labels{kept}) => ({result} loss) {{
        {outputs} = {op_type}<{attributes or "reduction = 'mean'"}>(x, labels{", w" if kept else ""})
    }}""".replace("'", '"')
    names = ["x", "w"] if kept else ["x"]
    model = gradient_model_of(onnx.parser.parse_model(text), names)
    kind = "f4" if dtype == "float" else "f8"
    feeds = {"x": scores.astype(kind), "labels": labels}
    if kept:
        feeds["w"] = np.asarray(weights, kind)
    seed = np.ones(labels.shape if "none" in attributes else (), kind)
    got = run_in_onnxruntime(model, {**feeds, "loss.grad": seed})
    return [got[f"{name}.grad"] for name in names]


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


SCORES = np.random.default_rng(0).standard_normal((4, 3))
LABELS = np.array([2, 0, 1, 1])


def test_cross_entropy_with_the_loss_as_the_only_output():
    (dx,) = gradient("SoftmaxCrossEntropyLoss", SCORES, LABELS)
    np.testing.assert_allclose(dx, (softmax(SCORES) - np.eye(3)[LABELS]) / 4, atol=1e-6)


@pytest.mark.parametrize("op_type", LOSSES)
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_that_are_all_ignored_have_gradient_0(op_type, weights, reduction):
    labels = np.full(4, -100)
    attributes = f"reduction = '{reduction}', ignore_index = -100"
    for grad in gradient(op_type, SCORES, labels, attributes, weights):
        assert not grad.any() and np.isfinite(grad).all()


def test_weights_that_are_all_0_have_gradient_0():
    dx, _ = gradient("SoftmaxCrossEntropyLoss", SCORES, LABELS, weights=[0.0, 0.0, 0.0])
    assert not dx.any()


@pytest.mark.parametrize("op_type", LOSSES)
def test_ignored_labels_may_be_out_of_range(op_type):
    labels = np.array([2, 255, 1, 255])
    (dx,) = gradient(op_type, SCORES, labels, "ignore_index = 255")
    (want,) = gradient(op_type, SCORES[[0, 2]], labels[[0, 2]])
    np.testing.assert_allclose(dx[[0, 2]], want, atol=1e-6)
    assert not dx[[1, 3]].any()


def test_scores_of_several_positions():
    scores = np.random.default_rng(1).standard_normal((2, 3, 5))
    labels = np.random.default_rng(2).integers(0, 3, (2, 5))
    (dx,) = gradient("SoftmaxCrossEntropyLoss", scores, labels)
    want = (softmax(scores) - np.moveaxis(np.eye(3)[labels], 2, 1)) / 10
    np.testing.assert_allclose(dx, want, atol=1e-6)


def test_great_scores_are_no_trouble():
    scores = np.array([[1000.0, 0.0, -1000.0], [-1000.0, 1000.0, 1000.0]])
    (dx,) = gradient("SoftmaxCrossEntropyLoss", scores, np.array([1, 1]), "reduction = 'sum'")
    np.testing.assert_allclose(dx, [[1.0, -1.0, 0.0], [0.0, -0.5, 0.5]], atol=1e-6)


def test_the_weighted_mean_divides_by_the_weights_of_the_labels():
    weights = np.array([1.0, 2.0, 4.0])
    dx, _ = gradient("SoftmaxCrossEntropyLoss", SCORES, LABELS, weights=weights)
    share = weights[LABELS] / weights[LABELS].sum()
    np.testing.assert_allclose(dx, share[:, None] * (softmax(SCORES) - np.eye(3)[LABELS]), atol=1e-6)
