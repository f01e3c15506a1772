"""Judging a model with the weights of a training run, which stay where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from onnxgrad.engine.runtime.binding import StepRunner
from onnxgrad.engine.runtime.providers import Provider
from onnxgrad.engine.runtime.session import create_session
from onnxgrad.grad.losses import BCEWithLogits, CrossEntropy
from onnxgrad.grad.training_graph import Losses, build_evaluation_graph
from onnxgrad.importers import ModelSource
from onnxgrad.models.finetune.data import Array, batches


class Evaluator:
    """A session of the model in inference mode whose weights are inputs, bound to the buffers of a training run.

    loss: None leaves labels and loss out of the graph.
    """

    def __init__(
        self,
        model: ModelSource,
        loss: Losses | None,
        weights: Sequence[str],
        providers: Provider | Sequence[Provider] | None,
        threads: int | None,
    ) -> None:
        self.graph = build_evaluation_graph(model, loss, weights)
        self._weights = list(weights)
        self._session = create_session(self.graph.model, providers, threads)

    def evaluate(self, source: StepRunner, feeds: Mapping[str, Array], batch_size: int) -> dict[str, float]:
        """Mean loss, and accuracy where the only loss is one of classes."""
        runner = self._runner(source, [self.graph.loss, *self._judged()])
        totals: dict[str, float] = defaultdict(float)
        count = 0
        for batch in batches(feeds, batch_size):
            size = len(next(iter(batch.values())))
            results = runner.step(batch)
            totals["loss"] += float(results[self.graph.loss]) * size
            for output in self._judged():
                right = self._right(results[output], batch[next(iter(self.graph.labels))])
                totals["right"] += float(right.sum())
                totals["judged"] += right.size
            count += size
        metrics = {"loss": totals["loss"] / count}
        return {**metrics, "accuracy": totals["right"] / max(1.0, totals["judged"])} if self._judged() else metrics

    def predict(self, source: StepRunner, feeds: Mapping[str, Array], batch_size: int) -> dict[str, Array]:
        """All outputs of the model, batch by batch, put together. For an evaluator without a loss."""
        parts: dict[str, list[Array]] = {name: [] for name in self.graph.predictions}
        runner = self._runner(source, self.graph.predictions)
        for batch in batches(feeds, batch_size):
            for name, array in runner.step(batch).items():
                parts[name].append(array)
        return {name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for name, arrays in parts.items()}

    def _judged(self) -> list[str]:
        """The output that accuracy is read from: there is one if there is one loss and it is one of classes."""
        if len(self.graph.labels) != 1:
            return []
        ((loss, _),) = self.graph.labels.values()
        return self.graph.judged if isinstance(loss, CrossEntropy | BCEWithLogits) else []

    def _right(self, output: Array, label: Array) -> Array:
        """Whether each class is right, without ignored labels. Softmax keeps the order, Sigmoid moves 0 to 0.5."""
        ((loss, prediction),) = self.graph.labels.values()
        if isinstance(loss, CrossEntropy):
            right: Array = output.argmax(axis=1) == label
            return right if loss.ignore_index is None else right[label != loss.ignore_index]
        threshold = 0 if prediction.name == self.graph.judged[0] else 0.5
        return np.asarray((output > threshold) == (label > 0.5))

    def _runner(self, source: StepRunner, fetches: Sequence[str]) -> StepRunner:
        return StepRunner(self._session, {name: (None, source.value(name)) for name in self._weights}, fetches)
