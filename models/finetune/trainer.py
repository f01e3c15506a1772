"""The trainer: a model, a loss and an optimizer become a loop over data."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, OptionError, TrainingError
from onnxgrad.engine.runtime.binding import StepRunner
from onnxgrad.engine.runtime.providers import Provider
from onnxgrad.engine.runtime.session import create_session
from onnxgrad.exporters import save as save_model
from onnxgrad.grad.losses import Loss
from onnxgrad.grad.optimizers import Optimizer
from onnxgrad.grad.training_graph import Losses, build_training_graph
from onnxgrad.importers import ModelSource, load
from onnxgrad.models.finetune.checkpoint import load_checkpoint, save_checkpoint
from onnxgrad.models.finetune.data import Array, Arrays, Data, as_feeds, batches, by_name, number_of_batches
from onnxgrad.models.finetune.evaluator import Evaluator
from onnxgrad.models.finetune.history import Epoch, History
from onnxgrad.models.finetune.progress import Progress
from onnxgrad.models.finetune.schedule import Schedule, constant
from onnxgrad.models.finetune.weights import with_weights


class Trainer:
    """Trains an ONNX model; its state stays on the device from step to step.

    model: path, bytes, ModelProto or ir.Model; it is not changed. loss: an og.losses loss for the first output, or a
    dict from output name to a loss or (weight, loss). optimizer: one of og.optimizers. trainable: patterns of parameter
    names, such as "*", "classifier.*" or ["*", "!embedding.*"]. providers, threads: as in og.compile.

    BatchNormalization and Dropout are in training mode in a step, and as they were in `evaluate`, `predict` and
    `export`.

    Raises: OptionError for a pattern or output that matches nothing; GradientRuleMissing for an operator without
    gradient.
    """

    def __init__(
        self,
        model: ModelSource,
        loss: Losses,
        optimizer: Optimizer,
        trainable: str | Sequence[str] = "*",
        *,
        providers: Provider | Sequence[Provider] | None = None,
        threads: int | None = None,
    ) -> None:
        self.model = load(model)
        self.optimizer = optimizer
        self._loss, self._providers, self._threads = loss, providers, threads
        graph = build_training_graph(self.model, loss, optimizer, trainable)
        self.graph = graph
        initial = {name: graph.model.graph.initializers[name].const_value for name in self._weights()}
        state = {name: (graph.state[name], _array(tensor)) for name, tensor in initial.items()}
        for slot, parameter in graph.slots.items():
            state[slot] = (graph.state[slot], np.zeros_like(state[parameter][1]))
        state[graph.step] = (graph.state[graph.step], np.zeros((), np.int64))
        for name in initial:  # the session gets them as state: they need not lie in it too
            graph.model.graph.initializers.pop(name)
        session = create_session(graph.model, providers, threads)
        self._runner = StepRunner(session, state, [graph.loss])
        self._evaluators: dict[bool, Evaluator] = {}
        self.steps = 0
        self.history = History()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that are trained."""
        return tuple(self.graph.parameters)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs of the model, in order."""
        return tuple(self.graph.inputs)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels: "label", or "<output>.label" where there are several losses."""
        return tuple(self.graph.labels)

    def train_step(self, *arrays: Array, learning_rate: float | None = None) -> float:
        """One step on one batch: the inputs of the model in order, then the labels. Returns the loss of the batch.

        If the loss is not finite, the weights stay as they were and TrainingError is raised.
        """
        names = [*self.graph.inputs, *self.graph.labels]
        feeds = by_name(arrays, names, "input or label")
        return self._step(
            self._prepared(feeds), self.optimizer.learning_rate if learning_rate is None else learning_rate
        )

    def fit(
        self,
        data: Data,
        epochs: int = 1,
        batch_size: int = 32,
        *,
        validation: Data | None = None,
        schedule: Schedule | None = None,
        shuffle: bool = True,
        seed: int = 0,
        progress: bool = True,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> History:
        """Train on `data`: a pair (inputs, labels) of arrays, or of tuples or dicts of arrays; axis 0 counts examples.

        validation: judged after every epoch. schedule: one of og.schedules, a factor of the learning rate. progress: a
        bar with loss, speed and time left on stderr. Returns the history, which `history.plot(path)` draws.

        Raises: InputError, ShapeError for data that does not fit; TrainingError when the loss is not finite.
        """
        feeds = self._prepared(as_feeds(data, self.graph.inputs, list(self.graph.labels)))
        if epochs < 1 or batch_size < 1:
            raise OptionError(f"epochs and batch_size must be at least 1, not {epochs} and {batch_size}")
        rng = np.random.default_rng(seed) if shuffle else None
        count = len(next(iter(feeds.values())))
        whole = number_of_batches(count, batch_size, keep_last=not self.graph.statistics)
        factor, total = schedule or constant(), whole * epochs
        with Progress(total, count * epochs, enabled=progress) as bar:
            for number in range(1, epochs + 1):
                start = time.perf_counter()
                losses: list[float] = []
                for batch in batches(feeds, batch_size, rng, keep_last=not self.graph.statistics):
                    done = (number - 1) * whole + len(losses)
                    losses.append(self._step(batch, self.optimizer.learning_rate * factor(done, total)))
                    self.history.losses.append(losses[-1])
                    bar.step(losses[-1], len(next(iter(batch.values()))), number, epochs)
                metrics = self.evaluate(validation, batch_size) if validation is not None else {}
                epoch = Epoch(number, float(np.mean(losses)), metrics, time.perf_counter() - start)
                self.history.epochs.append(epoch)
                bar.epoch(epoch)
                if on_epoch is not None:
                    on_epoch(epoch)
        return self.history

    def evaluate(self, data: Data, batch_size: int = 256) -> dict[str, float]:
        """The mean loss over `data` in inference mode, and "accuracy" where there is one classification loss."""
        feeds = self._prepared(as_feeds(data, self.graph.inputs, list(self.graph.labels)))
        return self._judge(with_loss=True).evaluate(self._runner, feeds, batch_size)

    def predict(self, inputs: Arrays, batch_size: int = 256) -> dict[str, Array]:
        """The outputs of the model, as trained so far, for `inputs`: output name -> array."""
        feeds = by_name(inputs, self.graph.inputs, "input")
        return self._judge(with_loss=False).predict(self._runner, feeds, batch_size)

    def weights(self) -> dict[str, Array]:
        """The present values of the trained parameters and of the running statistics, as arrays."""
        return {name: self._runner.state(name) for name in self._weights()}

    def export(self, path: str | os.PathLike[str] | None = None) -> ir.Model:
        """The model with the trained weights in it, and nothing of training; with a `path`, also written there."""
        model = with_weights(self.model, self.weights())
        if path is not None:
            save_model(model, path)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, optimizer state and step count to a checkpoint (safetensors)."""
        state = {name: self._runner.state(name) for name in self.graph.state}
        save_checkpoint(path, state, {"steps": self.steps, "optimizer": type(self.optimizer).__name__})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint of `save`. Raises: TrainingError if it is damaged or belongs to another model."""
        state, _ = load_checkpoint(path)
        if set(state) != set(self.graph.state):
            other = sorted(set(state) ^ set(self.graph.state))
            raise TrainingError(
                f"the checkpoint {Path(path).name} belongs to another model, optimizer or choice of parameters",
                where=f"{len(other)} names differ: {', '.join(other[:5])}",
            )
        before = {name: self._runner.state(name) for name in state}
        try:
            for name, array in state.items():
                self._runner.set_state(name, array)
        except InputError as error:
            for name, array in before.items():
                self._runner.set_state(name, array)
            raise TrainingError(f"the checkpoint {Path(path).name} does not fit the model", why=str(error)) from error
        self.steps = int(self._runner.state(self.graph.step))

    def _weights(self) -> list[str]:
        return [*self.graph.parameters, *self.graph.statistics]

    def _judge(self, with_loss: bool) -> Evaluator:
        if with_loss not in self._evaluators:
            loss = self._loss if with_loss else None
            self._evaluators[with_loss] = Evaluator(self.model, loss, self._weights(), self._providers, self._threads)
        return self._evaluators[with_loss]

    def _prepared(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Labels checked and of the right dtype."""
        for name, (loss, prediction) in self.graph.labels.items():
            feeds[name] = _label(loss, prediction, feeds[name])
        return feeds

    def _step(self, feeds: dict[str, Array], learning_rate: float) -> float:
        rate = np.asarray(learning_rate, np.float32)
        loss = float(self._runner.step({**feeds, self.graph.learning_rate: rate})[self.graph.loss])
        if not math.isfinite(loss):
            self._runner.rewind()
            raise TrainingError(
                f"the loss is {loss} at step {self.steps + 1}",
                where=f"learning rate {learning_rate:g}; the weights are those before this step",
                why="a number overflowed, or the data holds NaN or infinity",
                fix="a smaller learning rate, a warm-up (og.schedules), or clean data",
            )
        self.steps += 1
        return loss


def _label(loss: Loss, prediction: ir.Value, label: Array) -> Array:
    dtype = loss.label_like(prediction)[0].numpy()
    if label.dtype != dtype:
        if label.dtype.kind not in "iub" and np.dtype(dtype).kind == "i":
            raise InputError(f"labels must be whole numbers, not {label.dtype}")
        label = label.astype(dtype)
    loss.check_labels(label, prediction)
    return label


def _array(tensor: ir.TensorProtocol | None) -> Array:
    assert tensor is not None
    return np.array(tensor.numpy())
