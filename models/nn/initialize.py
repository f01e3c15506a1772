"""First values of parameters: PyTorch's defaults, from one generator that `seed` sets."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np

from onnxgrad.engine.runtime.direct import seed_dropout
from onnxgrad.models.nn.module import Parameter

_LOCK = threading.Lock()


class _Source:
    """The generator of layers that are given none."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()


_SOURCE = _Source()


def seed(number: int) -> None:
    """Let the layers that are made from now on start from the same values as after the last `seed(number)`.

    Dropout then draws the same masks again too, on tensors and in sessions, as long as one thread does.
    """
    seed_dropout(number)
    with _LOCK:
        _SOURCE.generator = np.random.default_rng(number)


def uniform(shape: Sequence[int], bound: float, rng: np.random.Generator | None = None) -> Parameter:
    """Numbers in -bound..bound."""
    with _LOCK:
        array = (rng or _SOURCE.generator).uniform(-bound, bound, tuple(shape))
    return Parameter(array.astype(np.float32))


def normal(shape: Sequence[int], deviation: float = 1.0, rng: np.random.Generator | None = None) -> Parameter:
    """Normally distributed numbers around 0."""
    with _LOCK:
        array = (rng or _SOURCE.generator).normal(0.0, deviation, tuple(shape))
    return Parameter(array.astype(np.float32))


def fan_in_uniform(shape: Sequence[int], fan_in: int, rng: np.random.Generator | None = None) -> Parameter:
    """Numbers in -1/sqrt(fan_in)..1/sqrt(fan_in): what PyTorch gives the weights of Linear, Conv and LSTM."""
    return uniform(shape, 1 / math.sqrt(fan_in) if fan_in else 0.0, rng)


def glorot_uniform(shape: Sequence[int], rng: np.random.Generator | None = None) -> Parameter:
    """Numbers in -b..b, b = sqrt(6 / (rows + columns)), for a matrix. Source: Glorot and Bengio 2010."""
    rows, columns = shape
    return uniform(shape, math.sqrt(6 / (rows + columns)), rng)


def full(shape: Sequence[int], value: float) -> Parameter:
    """One number everywhere."""
    return Parameter(np.full(tuple(shape), value, np.float32))
