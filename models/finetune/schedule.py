"""Learning rate schedules: factors of the optimizer's learning rate, by step."""

from __future__ import annotations

import math
from collections.abc import Callable

from onnxgrad.engine.errors import OptionError

Schedule = Callable[[int, int], float]
"""(step from 0 on, total number of steps) -> factor of the learning rate."""


def constant(warmup: int | float = 0) -> Schedule:
    """1 throughout, after a linear rise over `warmup` steps (or, below 1, that fraction of all steps)."""
    return lambda step, total: _rise(step, total, warmup)


def linear(warmup: int | float = 0, end: float = 0.0) -> Schedule:
    """From 1 down to `end` in a straight line, after a linear rise over `warmup` steps (or fraction of all steps)."""
    return lambda step, total: _rise(step, total, warmup) * (1 + (end - 1) * _progress(step, total, warmup))


def cosine(warmup: int | float = 0, end: float = 0.0) -> Schedule:
    """From 1 down to `end` in half a cosine wave, after a linear rise over `warmup` steps (or fraction of all steps).

    Source: Loshchilov and Hutter 2017, without restarts.
    """

    def factor(step: int, total: int) -> float:
        wave = 0.5 * (1 + math.cos(math.pi * _progress(step, total, warmup)))
        return _rise(step, total, warmup) * (end + (1 - end) * wave)

    return factor


def _steps(warmup: int | float, total: int) -> int:
    if warmup < 0:
        raise OptionError(f"warmup must be a number of steps or a fraction, not {warmup}")
    return round(warmup * total) if warmup < 1 else int(warmup)


def _rise(step: int, total: int, warmup: int | float) -> float:
    rising = _steps(warmup, total)
    return min(1.0, (step + 1) / (rising + 1)) if rising else 1.0


def _progress(step: int, total: int, warmup: int | float) -> float:
    rising = _steps(warmup, total)
    return 0.0 if step < rising else min(1.0, (step - rising) / max(1, total - rising))
