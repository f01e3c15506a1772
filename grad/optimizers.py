"""Optimizers as graphs: each takes a parameter and its gradient to the next value of the parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.ir.builder import Builder, trailing_ones


class Optimizer(ABC):
    """How a parameter moves. `slots`: names of the tensors that it keeps for each parameter, zeros at the start."""

    learning_rate: float
    slots: tuple[str, ...] = ()

    @abstractmethod
    def scalars(self, op: Builder, learning_rate: ir.Value, step: ir.Value) -> dict[str, ir.Value]:
        """Add the nodes for the numbers that all parameters share in this step.

        learning_rate: float32 scalar; step: int64 scalar, 1 at the first step.
        """

    @abstractmethod
    def build(
        self,
        op: Builder,
        parameter: ir.Value,
        grad: ir.Value,
        slots: Mapping[str, ir.Value],
        scalars: Mapping[str, ir.Value],
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """Add the nodes of one update and return the next parameter and the next slots."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """v = momentum v + g + weight_decay p;  p = p - lr v, or with Nesterov's form p - lr (g + momentum v).

    Source: the order of operations of torch.optim.SGD, with dampening 0.
    """

    learning_rate: float = 1e-2
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_range("learning_rate", self.learning_rate)
        _check_range("weight_decay", self.weight_decay)
        _check_range("momentum", self.momentum, below=1)
        if self.nesterov and not self.momentum:
            raise OptionError("nesterov needs a momentum", fix="SGD(momentum=0.9, nesterov=True)")

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        """The velocity, where there is a momentum."""
        return ("velocity",) if self.momentum else ()

    def scalars(self, op: Builder, learning_rate: ir.Value, step: ir.Value) -> dict[str, ir.Value]:
        """The learning rate."""
        return {"learning_rate": learning_rate}

    def build(
        self,
        op: Builder,
        parameter: ir.Value,
        grad: ir.Value,
        slots: Mapping[str, ir.Value],
        scalars: Mapping[str, ir.Value],
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """See the class."""
        if self.weight_decay:
            grad = op.Add(grad, op.Mul(parameter, float(self.weight_decay)))
        after, move = {}, grad
        if self.momentum:
            velocity = op.Add(op.Mul(slots["velocity"], self.momentum), grad)
            move = op.Add(grad, op.Mul(velocity, self.momentum)) if self.nesterov else velocity
            after["velocity"] = velocity
        return op.Sub(parameter, op.Mul(move, _like(op, scalars["learning_rate"], parameter))), after


@dataclass(frozen=True)
class AdamW(Optimizer):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
    p = p (1 - lr weight_decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps).

    Source: Loshchilov and Hutter 2019, in the order of operations of torch.optim.AdamW.
    """

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    slots = ("mean", "variance")

    def __post_init__(self) -> None:
        _check_range("learning_rate", self.learning_rate)
        _check_range("weight_decay", self.weight_decay)
        _check_range("eps", self.eps)
        for beta in self.betas:
            _check_range("betas", beta, below=1)

    def scalars(self, op: Builder, learning_rate: ir.Value, step: ir.Value) -> dict[str, ir.Value]:
        """decay, and scale and floor with  lr / c1 m / (sqrt(v) / c2 + eps) = m / (sqrt(v) scale + floor).

        In float64, since 1 - b^t cancels. A learning rate of 0 becomes a tiny one, to divide by.
        """
        time = op.Cast(step, to=ir.DataType.DOUBLE)
        rate = op.Cast(learning_rate, to=ir.DataType.DOUBLE)
        first, second = (op.Sub(1.0, op.Pow(op.constant(np.asarray(beta, np.float64)), time)) for beta in self.betas)
        per_rate = op.Div(first, op.Max(rate, 1e-30))
        wide = {
            "decay": op.Sub(1.0, op.Mul(rate, float(self.weight_decay))),
            "scale": op.Div(per_rate, op.Sqrt(second)),
            "floor": op.Mul(per_rate, float(self.eps)),
        }
        return {name: op.Cast(value, to=ir.DataType.FLOAT) for name, value in wide.items()}

    def build(
        self,
        op: Builder,
        parameter: ir.Value,
        grad: ir.Value,
        slots: Mapping[str, ir.Value],
        scalars: Mapping[str, ir.Value],
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """See the class."""
        b1, b2 = self.betas
        decay, scale, floor = (_like(op, scalars[name], parameter) for name in ("decay", "scale", "floor"))
        mean = op.Add(op.Mul(slots["mean"], b1), op.Mul(grad, 1 - b1))
        variance = op.Add(op.Mul(slots["variance"], b2), op.Mul(op.Mul(grad, 1 - b2), grad))
        move = op.Div(mean, op.Add(op.Mul(op.Sqrt(variance), scale), floor))
        kept = op.Mul(parameter, decay) if self.weight_decay else parameter
        return op.Sub(kept, move), {"mean": mean, "variance": variance}


def _like(op: Builder, scalar: ir.Value, parameter: ir.Value) -> ir.Value:
    """`scalar` in the dtype of the parameter, and in its rank if that ends in a dimension of 1 (see the builder)."""
    if scalar.dtype != parameter.dtype:
        scalar = op.Cast(scalar, to=parameter.dtype)
    ones = trailing_ones(parameter)
    return op.Reshape(scalar, [1] * ones) if ones else scalar


def _check_range(name: str, number: float, below: float = float("inf")) -> None:
    if not 0 <= number < below:
        raise OptionError(f"{name} must be at least 0{f' and below {below:g}' if below < 2 else ''}, not {number}")
