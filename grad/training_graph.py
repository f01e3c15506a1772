"""Training as a model: forward, loss, gradients and update in one graph whose state goes in and comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OptionError, TrainingError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.grad.gradient_model import add_output, claim_name, differentiable_copy, pick_outputs
from onnxgrad.grad.losses import Loss
from onnxgrad.grad.optimizers import Optimizer
from onnxgrad.grad.parameters import lift_weights, select_trainable
from onnxgrad.grad.reverse import gradients
from onnxgrad.grad.training_mode import set_training_mode
from onnxgrad.importers import ModelSource

Losses = Loss | Mapping[str, Loss | tuple[float, Loss]]
"""A loss for the first output, or by output name a loss, or a pair of a weight and a loss."""

METADATA = "onnxgrad.training"


@dataclass
class TrainingGraph:
    """A training model and what its inputs and outputs are.

    state: input name -> output name that holds its next value; slots: the state inputs that start at zero, with the
    name of their parameter; statistics: running statistics of normalizations; labels: label input -> (loss, prediction
    it judges).
    """

    model: ir.Model
    parameters: list[str]
    inputs: list[str]
    state: dict[str, str] = field(default_factory=dict)
    slots: dict[str, str] = field(default_factory=dict)
    statistics: list[str] = field(default_factory=list)
    labels: dict[str, tuple[Loss, ir.Value]] = field(default_factory=dict)
    loss: str = "loss"
    learning_rate: str = "learning_rate"
    step: str = "step"


def training_model(
    model: ModelSource, loss: Losses, optimizer: Optimizer, trainable: str | Sequence[str] = "*"
) -> ir.Model:
    """One ONNX model that makes a training step.

    Inputs: those of `model`; a label for each loss ("label", or "<output>.label" for several); "learning_rate" (float32
    scalar, optional: that of the optimizer); "step" (int64 scalar, the number of steps done); and the state: each
    trained parameter and running statistic under its own name (optional: the value in `model`), and the optimizer's
    slots, "<parameter>.<slot>" (zeros at the start). Outputs: "loss", then "<name>.next" for every state input: feed it
    back at the next step. The entry "onnxgrad.training" of the metadata holds these names as JSON. Normalizations and
    dropout are in training mode.

    trainable: patterns of parameter names, see `select_trainable`.

    Raises: OptionError for patterns and outputs that match nothing; GradientRuleMissing; TrainingError if no gradient
    arrives.
    """
    return build_training_graph(model, loss, optimizer, trainable).model


def build_training_graph(
    source: ModelSource, loss: Losses, optimizer: Optimizer, trainable: str | Sequence[str] = "*"
) -> TrainingGraph:
    """The graph of `training_model` with a description of its parts."""
    model = differentiable_copy(source)
    graph = model.graph
    lift_weights(graph)
    chosen = select_trainable(graph, trainable)
    for value in [v for v in graph.inputs if v.name in graph.initializers]:
        graph.inputs.remove(value)  # overridable initializers: weights of old files, fed by nobody
    result = TrainingGraph(model, [value.name or "" for value in chosen], [value.name or "" for value in graph.inputs])
    statistics = set_training_mode(model)
    total = _add_losses(graph, loss, result)
    grads = gradients(total, chosen)
    untouched = [value.name for value, grad in zip(chosen, grads, strict=True) if grad is None]
    if len(untouched) == len(chosen):
        raise TrainingError("the loss depends on none of the chosen parameters", where=", ".join(map(str, untouched)))
    del graph.outputs[:]
    op = Builder(graph, share=True)
    op.scope = "update"
    total.name = claim_name(op, "loss")
    result.loss = total.name
    graph.outputs.append(total)
    pairs = [(value, grad) for value, grad in zip(chosen, grads, strict=True) if grad is not None]
    result.parameters = [value.name or "" for value, _ in pairs]
    _add_updates(op, pairs, optimizer, result)
    for name, after in statistics.items():
        _carry(op, graph.initializers[name], after, result)
        result.statistics.append(name)
    adopt_functions(model)
    model.metadata_props[METADATA] = json.dumps(_names(result))
    return result


@dataclass
class EvaluationGraph:
    """A model for judging: the weights are inputs, the outputs are predictions and, with labels, the loss.

    judged: the predictions that the losses are about, in the order of the labels.
    """

    model: ir.Model
    predictions: list[str]
    labels: dict[str, tuple[Loss, ir.Value]]
    judged: list[str]
    loss: str


def build_evaluation_graph(source: ModelSource, loss: Losses | None, weights: Sequence[str]) -> EvaluationGraph:
    """The model in inference mode with `weights` as inputs, its outputs, and the loss if there is one."""
    model = differentiable_copy(source)
    graph = model.graph
    lift_weights(graph)
    for value in [v for v in graph.inputs if v.name in graph.initializers]:
        graph.inputs.remove(value)
    parts = TrainingGraph(model, list(weights), [value.name or "" for value in graph.inputs])
    predictions = [value.name or "" for value in graph.outputs]
    judged: list[str] = []
    if loss is not None:
        judged = [value.name or "" for value in _judged(graph, loss)]
        total = _add_losses(graph, loss, parts)
        parts.loss = total.name = claim_name(Builder(graph), "loss")
        graph.outputs.append(total)
    for name in weights:
        value = graph.initializers.pop(name)
        value.const_value = None
        graph.inputs.append(value)
    adopt_functions(model)
    return EvaluationGraph(model, predictions, parts.labels, judged, parts.loss)


def _names(result: TrainingGraph) -> dict[str, object]:
    names = ("parameters", "inputs", "state", "slots", "statistics", "loss", "learning_rate", "step")
    return {**{name: getattr(result, name) for name in names}, "labels": list(result.labels)}


def _judged(graph: ir.Graph, losses: Losses) -> list[ir.Value]:
    """The outputs that the losses are about."""
    return pick_outputs(graph, None)[:1] if isinstance(losses, Loss) else pick_outputs(graph, list(losses))


def _add_losses(graph: ir.Graph, losses: Losses, result: TrainingGraph) -> ir.Value:
    """Add label inputs and losses; returns the weighted sum, a scalar."""
    outputs = _judged(graph, losses)
    if not outputs:
        raise OptionError("no loss was given", fix='loss=og.losses.CrossEntropy(), or {"output": loss}')
    terms: list[ir.Value] = []
    for prediction, given in zip(outputs, [losses] if isinstance(losses, Loss) else losses.values(), strict=True):
        weight, loss = given if isinstance(given, tuple) else (1.0, given)
        output, op = prediction.name, Builder(graph)
        op.scope = "loss"
        prediction = _before_activation(prediction, loss.activation)
        dtype, shape = loss.label_like(prediction)
        label = ir.Value(
            name=claim_name(op, "label" if len(outputs) == 1 else f"{output}.label"),
            type=ir.TensorType(dtype),
            shape=shape,
        )
        graph.inputs.append(label)
        result.labels[label.name or ""] = (loss, prediction)
        term = loss.build(op, prediction, label)
        terms.append(term if weight == 1 else op.Mul(term, weight))
    return terms[0] if len(terms) == 1 else Builder(graph).Sum(*terms)


def _before_activation(prediction: ir.Value, activation: str) -> ir.Value:
    """The input of the Softmax (over axis 1) or Sigmoid that made the output, past Identity nodes; else the output."""
    value = prediction
    while (node := value.producer()) is not None and node.op_type in ("Identity", activation) and node.inputs[0]:
        if node.op_type == "Softmax":
            rank = len(value.shape) if value.shape is not None else 0
            if node.attributes.get_int("axis", -1) not in (1, 1 - rank):
                return prediction
        value = node.inputs[0]
        if node.op_type == activation:
            return value
    return prediction


def _add_updates(
    op: Builder, pairs: Sequence[tuple[ir.Value, ir.Value]], optimizer: Optimizer, result: TrainingGraph
) -> None:
    rate = _input(op, "learning_rate", np.asarray(optimizer.learning_rate, np.float32))
    step = _input(op, "step", None)
    result.learning_rate, result.step = rate.name or "", step.name or ""
    after = op.Add(step, 1)
    scalars = optimizer.scalars(op, rate, after)
    for parameter, grad in pairs:
        op.scope = f"{parameter.name}.update"
        slots = {}
        for slot in optimizer.slots:
            name = claim_name(op, f"{parameter.name}.{slot}")
            slots[slot] = ir.Value(name=name, type=parameter.type, shape=parameter.shape)
            result.slots[name] = parameter.name or ""
        new, new_slots = optimizer.build(op, parameter, grad, slots, scalars)
        _carry(op, parameter, new, result)
        for slot, value in slots.items():
            op.graph.inputs.append(value)
            _carry(op, value, new_slots[slot], result)
    op.scope = "update"
    _carry(op, step, after, result)


def _carry(op: Builder, before: ir.Value, after: ir.Value, result: TrainingGraph) -> None:
    """Make `before` an input and `after` the output that replaces it at the next step."""
    if not before.is_graph_input():
        op.graph.inputs.append(before)
    output = add_output(op, after, f"{before.name}.next", before, ())
    result.state[before.name or ""] = output.name or ""


def _input(op: Builder, name: str, default: np.ndarray | None) -> ir.Value:
    dtype = ir.DataType.INT64 if default is None else ir.DataType.FLOAT
    value = ir.Value(name=claim_name(op, name), type=ir.TensorType(dtype), shape=ir.Shape([]))
    op.graph.inputs.append(value)
    if default is not None:
        value.const_value = ir.tensor(default, name=value.name)
        op.graph.register_initializer(value)
    return value
