"""Losses as graphs: each takes a prediction and a label of a graph to one scalar."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OptionError, ShapeError
from onnxgrad.engine.ir.builder import Builder, describe_value, is_float

Reduction = Literal["mean", "sum"]


class Loss(ABC):
    """A scalar to make small. `activation`: the operator whose input, if it made the output, is what the loss wants."""

    activation: str = ""

    @abstractmethod
    def label_like(self, prediction: ir.Value) -> tuple[ir.DataType, ir.Shape]:
        """Dtype and shape of the label that belongs to `prediction`."""

    @abstractmethod
    def build(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        """Add the nodes of the loss and return it, a scalar of the dtype of the prediction."""

    def check_labels(self, label: np.ndarray, prediction: ir.Value) -> None:  # noqa: B027 - most losses take any number
        """Raise ShapeError, naming the place, if `label` holds a number that the loss has no meaning for."""


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """-log softmax(logits)[label], averaged: y = sum_i w[label_i] nll_i / sum_i w[label_i].

    prediction: logits [N, C] or [N, C, d1, ...]; label: int64 [N] or [N, d1, ...] in 0..C-1. An output made by a
    Softmax over the classes is taken before it. class_weights: C numbers. ignore_index: a label that does not count.
    label_smoothing e mixes the one-hot target with a uniform one, as (1 - e) onehot + e / C. A batch in which nothing
    counts has the loss 0.
    """

    class_weights: Sequence[float] | None = None
    ignore_index: int | None = None
    label_smoothing: float = 0.0
    reduction: Reduction = "mean"

    activation = "Softmax"

    def __post_init__(self) -> None:
        _check_reduction(self.reduction)
        if not 0 <= self.label_smoothing < 1:
            raise OptionError(f"label_smoothing must lie in 0..1, not {self.label_smoothing}")

    def label_like(self, prediction: ir.Value) -> tuple[ir.DataType, ir.Shape]:
        """int64, with the shape of the logits without the class axis 1."""
        self._classes(prediction)
        assert prediction.shape is not None
        dims = list(prediction.shape)
        return ir.DataType.INT64, ir.Shape([dims[0], *dims[2:]])

    def build(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        """See the class."""
        classes = self._classes(prediction)
        counted: ir.Value | None = None
        index = label
        if self.ignore_index is not None:
            mask = op.Not(op.Equal(label, op.constant(self.ignore_index)))
            index = op.Where(mask, label, op.constant(0))
            counted = op.Cast(mask, to=prediction.dtype)
        log_p = op.LogSoftmax(prediction, axis=1)
        nll = op.Neg(op.Squeeze(op.GatherElements(log_p, op.Unsqueeze(index, [1]), axis=1), [1]))
        if self.class_weights is not None:
            weights = self._weights(op, prediction, classes)
            per_label = op.Gather(weights, index, axis=0)
            counted = per_label if counted is None else op.Mul(counted, per_label)
        else:
            weights = None
        smooth = self._smooth(op, log_p, weights, classes) if self.label_smoothing else None
        total = self._total(op, nll, counted, smooth, label)
        if self.reduction == "sum":
            return total
        if counted is None:
            size = op.Cast(op.Size(label), to=prediction.dtype)
        else:
            size = op.ReduceSum(counted, None, keepdims=0)
        return op.Div(total, op.Where(op.Equal(size, 0.0), op.constant_like(prediction, 1), size))

    def _total(
        self, op: Builder, nll: ir.Value, counted: ir.Value | None, smooth: ir.Value | None, label: ir.Value
    ) -> ir.Value:
        weighted = nll if counted is None else op.Mul(nll, counted)
        total = op.ReduceSum(weighted, None, keepdims=0)
        if smooth is None:
            return total
        if self.ignore_index is not None:
            mask = op.Cast(op.Not(op.Equal(label, op.constant(self.ignore_index))), to=nll.dtype)
            smooth = op.Mul(smooth, mask)
        uniform = op.ReduceSum(smooth, None, keepdims=0)
        return op.Add(op.Mul(total, 1.0 - self.label_smoothing), op.Mul(uniform, self.label_smoothing))

    def _smooth(self, op: Builder, log_p: ir.Value, weights: ir.Value | None, classes: int) -> ir.Value:
        assert log_p.shape is not None
        if weights is not None:
            log_p = op.Mul(log_p, op.Reshape(weights, [1, classes] + [1] * (len(log_p.shape) - 2)))
        return op.Neg(op.ReduceMean(log_p, [1], keepdims=0))

    def _weights(self, op: Builder, prediction: ir.Value, classes: int) -> ir.Value:
        given = list(self.class_weights or ())
        if len(given) != classes:
            raise OptionError(f"class_weights has {len(given)} numbers for {classes} classes")
        assert prediction.dtype is not None
        return op.constant(np.asarray(given).astype(prediction.dtype.numpy()))

    def check_labels(self, label: np.ndarray, prediction: ir.Value) -> None:
        """Labels lie in 0..C-1, or are `ignore_index`."""
        classes = self._classes(prediction)
        wrong = (label < 0) | (label >= classes)
        if self.ignore_index is not None:
            wrong &= label != self.ignore_index
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ShapeError(
                f"the label {int(label[place])} is out of range: the model has {classes} classes, 0 to {classes - 1}",
                where=f"label{list(place)}; {int(wrong.sum())} such labels in the batch",
                fix="give the model a head with more classes (og.models.replace_head), or set ignore_index",
            )

    def _classes(self, prediction: ir.Value) -> int:
        shape = prediction.shape
        if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
            raise ShapeError(
                "CrossEntropy needs logits [N, C] or [N, C, ...] with a known number of classes C",
                where=describe_value(prediction),
                fix="choose another output, or fix its shape",
            )
        return shape[1]


class _PerElement(Loss):
    """The mean, or the sum, of one number for each element of the prediction. label: its dtype and shape."""

    reduction: Reduction

    def __post_init__(self) -> None:
        _check_reduction(self.reduction)

    @abstractmethod
    def _each(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value: ...

    def label_like(self, prediction: ir.Value) -> tuple[ir.DataType, ir.Shape]:
        """As the prediction."""
        if prediction.dtype is None or prediction.shape is None or not is_float(prediction):
            raise ShapeError("a loss needs a floating-point output of known rank", where=describe_value(prediction))
        return prediction.dtype, prediction.shape.copy()

    def build(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        """See the class."""
        each = self._each(op, prediction, label)
        return (
            op.ReduceMean(each, None, keepdims=0) if self.reduction == "mean" else op.ReduceSum(each, None, keepdims=0)
        )


@dataclass(frozen=True)
class MSE(_PerElement):
    """y = mean((prediction - label)^2), over all elements. label: dtype and shape of the prediction."""

    reduction: Reduction = "mean"

    def _each(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        error = op.Sub(prediction, label)
        return op.Mul(error, error)


@dataclass(frozen=True)
class L1(_PerElement):
    """y = mean(|prediction - label|), over all elements. label: dtype and shape of the prediction."""

    reduction: Reduction = "mean"

    def _each(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        return op.Abs(op.Sub(prediction, label))


@dataclass(frozen=True)
class BCEWithLogits(_PerElement):
    """y = mean(max(x, 0) - x t + log(1 + exp(-|x|))): binary cross entropy of sigmoid(x), finite for every finite x.

    prediction: logits x; an output made by a Sigmoid is taken before it. label t: dtype and shape of the prediction, in
    0..1. positive_weight p counts the positives p times.
    """

    positive_weight: float = 1.0
    reduction: Reduction = "mean"

    activation = "Sigmoid"

    def __post_init__(self) -> None:
        _check_reduction(self.reduction)
        if not (math.isfinite(self.positive_weight) and self.positive_weight > 0):
            raise OptionError(f"positive_weight must be a positive number, not {self.positive_weight}")

    def _each(self, op: Builder, prediction: ir.Value, label: ir.Value) -> ir.Value:
        x, t = prediction, label
        tail = op.Log(op.Add(op.Exp(op.Neg(op.Abs(x))), 1.0))
        if self.positive_weight == 1:
            return op.Add(op.Sub(op.Relu(x), op.Mul(x, t)), tail)
        # (1 - t) x + (1 + (p - 1) t) (log(1 + exp(-|x|)) + max(-x, 0))
        scale = op.Add(op.Mul(t, self.positive_weight - 1.0), 1.0)
        return op.Add(op.Mul(op.Sub(1.0, t), x), op.Mul(scale, op.Add(tail, op.Relu(op.Neg(x)))))

    def check_labels(self, label: np.ndarray, prediction: ir.Value) -> None:
        """Labels are probabilities."""
        if label.size and not (label.min() >= 0 and label.max() <= 1):
            raise ShapeError(
                f"BCEWithLogits takes labels between 0 and 1, not {label.min()} to {label.max()}",
                where=describe_value(prediction),
            )


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum"):
        raise OptionError(f"reduction must be 'mean' or 'sum', not {reduction!r}")
