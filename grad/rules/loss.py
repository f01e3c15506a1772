"""Losses that compare scores with labels."""

from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.scatter import scatter_add
from onnxgrad.grad.outputs import expose
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("SoftmaxCrossEntropyLoss", note="mean over labels that are all ignored: gradient 0")
def softmax_cross_entropy_loss(
    op: GradientBuilder, node: ir.Node, dloss: ir.Value | None, dlog: ir.Value | None = None
) -> Grads:
    """loss = -w[label] log_softmax(scores)[label], reduced:  dscores = c (softmax(scores) - onehot(label))

    c = w[label] dloss, divided by sum(w[label]) in a mean.
    """
    scores = node.inputs[0]
    assert scores is not None
    log = expose(op, node, 2)[1]
    chances = op.Exp(log)
    dscores = dweights = None
    if dlog is not None:
        dscores = op.Sub(dlog, op.Mul(chances, op.ReduceSum(dlog, [1], keepdims=1)))
    if dloss is not None:
        labels = _labels(op, node)
        if op.wants(scores):
            share = op.Unsqueeze(_share(op, node, labels, dloss), [1])
            spread = op.Mul(chances, share) if dscores is None else op.Add(dscores, op.Mul(chances, share))
            dscores = scatter_add(op, spread, labels.column, op.Neg(share), axis=1)
        dweights = _dweights(op, node, labels, log, dloss)
    return dscores, None, dweights


@gradient("NegativeLogLikelihoodLoss", note="mean over labels that are all ignored: gradient 0")
def negative_log_likelihood_loss(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = -w[label] x[label], reduced:  dx[label] = -c, c = w dy / sum(w)"""
    x = node.inputs[0]
    assert x is not None
    labels, dx = _labels(op, node), None
    if op.wants(x):
        share = op.Neg(op.Unsqueeze(_share(op, node, labels, dy), [1]))
        dx = scatter_add(op, op.zeros_like(x), labels.column, share, axis=1)
    return dx, None, _dweights(op, node, labels, x, dy)


@dataclass(frozen=True)
class Labels:
    """The labels of a loss, with 0 for those to ignore.

    places: int[N, ...], column: int[N, 1, ...], weights: float[N, ...], 0 where ignored, None where all count 1;
    counts: float[N, ...], 0 where ignored, else 1; None where none is.
    """

    places: ir.Value
    column: ir.Value
    weights: ir.Value | None
    counts: ir.Value | None


def _labels(op: GradientBuilder, node: ir.Node) -> Labels:
    x, places, weights = [*node.inputs, None][:3]
    assert x is not None and places is not None and x.dtype is not None
    ignored, counts = node.attributes.get_int("ignore_index", None), None
    if ignored is not None:
        assert places.dtype is not None
        zero = op.constant_like(places, 0)
        is_kept = op.Not(op.Equal(places, op.constant_like(places, ignored)))
        places = op.Where(is_kept, places, zero)
        counts = op.Cast(is_kept, to=x.dtype)
    picked = None if weights is None else op.Gather(weights, places)
    if picked is None or counts is None:
        picked = picked if picked is not None else counts
    else:
        picked = op.Mul(picked, counts)
    return Labels(places, op.Unsqueeze(places, [1]), picked, counts)


def _share(op: GradientBuilder, node: ir.Node, labels: Labels, dy: ir.Value) -> ir.Value:
    """How much of dy each label takes, [N, ...]."""
    if node.attributes.get_string("reduction", "mean") == "mean":
        dy = op.Div(dy, _total(op, node, labels))
    return op.Expand(dy, op.Shape(labels.places)) if labels.weights is None else op.Mul(labels.weights, dy)


def _total(op: GradientBuilder, node: ir.Node, labels: Labels) -> ir.Value:
    """What a mean divides by: the sum of the weights, 1 where that is 0."""
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    if labels.weights is None:
        return op.Cast(op.Size(labels.places), to=x.dtype)
    total = op.ReduceSum(labels.weights, keepdims=0)
    return op.Where(op.Equal(total, op.constant_like(total, 0)), op.constant_like(total, 1), total)


def _dweights(op: GradientBuilder, node: ir.Node, labels: Labels, log: ir.Value, dy: ir.Value) -> ir.Value | None:
    """The gradient of the weights:  each label adds -dy log[label], less the loss in a mean, divided by its total."""
    weights = node.inputs[2] if len(node.inputs) > 2 else None
    if weights is None or not op.wants(weights):
        return None
    assert labels.weights is not None
    parts = op.Neg(op.Squeeze(op.GatherElements(log, labels.column, axis=1), [1]))
    if node.attributes.get_string("reduction", "mean") == "mean":
        total = _total(op, node, labels)
        loss = op.Div(op.ReduceSum(op.Mul(parts, labels.weights), keepdims=0), total)
        parts = op.Div(op.Sub(parts, loss), total)
    parts = op.Mul(parts, dy)
    if labels.counts is not None:
        parts = op.Mul(parts, labels.counts)
    places, parts = (op.Reshape(value, [-1]) for value in (labels.places, parts))
    return scatter_add(op, op.zeros_like(weights), places, parts)
