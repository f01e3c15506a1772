"""Layers with inputs that fit them, for tests that hold for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import onnxgrad as og
from onnxgrad import nn


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Layer:
    """A layer, the arrays that it is called with, and how to make PyTorch's: its name in torch.nn, and arguments."""

    make: Callable[[], nn.Module]
    inputs: tuple[np.ndarray, ...]
    theirs: str
    arguments: tuple[object, ...] = ()
    options: dict[str, object] = field(default_factory=dict)


LAYERS = {
    "linear": Layer(lambda: nn.Linear(4, 3), (floats(5, 4),), "Linear", (4, 3)),
    "linear without bias": Layer(lambda: nn.Linear(4, 3, bias=False), (floats(5, 4),), "Linear", (4, 3, False)),
    "linear in 3 dimensions": Layer(lambda: nn.Linear(4, 3), (floats(2, 5, 4),), "Linear", (4, 3)),
    "embedding": Layer(lambda: nn.Embedding(7, 3), (np.array([[1, 6], [0, 1]]),), "Embedding", (7, 3)),
    "convolution": Layer(lambda: nn.Conv(3, 4, 3), (floats(2, 3, 6, 5),), "Conv2d", (3, 4, 3)),
    "convolution with all options": Layer(
        lambda: nn.Conv(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2), (floats(2, 4, 7, 7),), "Conv2d",
        (4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
    ),
    "convolution in 1 dimension": Layer(
        lambda: nn.Conv(3, 4, (3,), padding="same", bias=False), (floats(2, 3, 9),), "Conv1d", (3, 4, 3),
        {"padding": "same", "bias": False},
    ),
    "batch norm": Layer(lambda: nn.BatchNorm(3), (floats(4, 3, 5, 2),), "BatchNorm2d", (3,)),
    "batch norm of rows": Layer(lambda: nn.BatchNorm(3, momentum=0.3), (floats(4, 3),), "BatchNorm1d", (3, 1e-5, 0.3)),
    "layer norm": Layer(lambda: nn.LayerNorm(6), (floats(4, 3, 6),), "LayerNorm", (6,)),
    "layer norm over 2 axes": Layer(lambda: nn.LayerNorm((3, 6)), (floats(4, 3, 6),), "LayerNorm", ((3, 6),)),
    "group norm": Layer(lambda: nn.GroupNorm(2, 6), (floats(4, 6, 3, 3),), "GroupNorm", (2, 6)),
    "rms norm": Layer(lambda: nn.RMSNorm(6), (floats(4, 3, 6),), "RMSNorm", (6, 1e-6)),
    "lstm": Layer(lambda: nn.LSTM(4, 3), (floats(5, 2, 4),), "LSTM", (4, 3)),
    "lstm, stacked, of both directions": Layer(
        lambda: nn.LSTM(4, 3, 2, True), (floats(5, 2, 4),), "LSTM", (4, 3, 2), {"bidirectional": True}
    ),
    "gru": Layer(
        lambda: nn.GRU(4, 3, 2, True, batch_first=True), (floats(2, 5, 4),), "GRU", (4, 3, 2),
        {"bidirectional": True, "batch_first": True},
    ),
    "attention": Layer(lambda: nn.MultiHeadAttention(8, 2), (floats(2, 5, 8),), "MultiheadAttention", (8, 2)),
    "attention to something else": Layer(
        lambda: nn.MultiHeadAttention(8, 2), (floats(2, 3, 8), floats(2, 5, 8, seed=1), floats(2, 5, 8, seed=2)),
        "MultiheadAttention", (8, 2),
    ),
}  # fmt: skip


def call(net: nn.Module, *inputs: object) -> object:
    """What a layer, whatever it is, returns."""
    return net(*inputs)  # type: ignore[operator]  # each kind of module has a signature of its own


def tensors_in(result: object) -> list[og.Tensor]:
    """The tensors that a layer returns, also in tuples."""
    if isinstance(result, tuple):
        return [tensor for entry in result for tensor in tensors_in(entry)]
    assert isinstance(result, og.Tensor)
    return [result]


def weighted(results: list[og.Tensor]) -> og.Tensor:
    """One number of all results, in which each element counts in its own way."""
    total = None
    for index, result in enumerate(results):
        weights = floats(*result.numpy().shape, seed=100 + index)
        part = (result * og.Tensor(weights, result.dtype)).sum()
        total = part if total is None else total + part
    assert total is not None
    return total
