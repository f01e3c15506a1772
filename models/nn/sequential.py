"""Modules one after the other, and dropout."""

from __future__ import annotations

from collections.abc import Callable

from onnxgrad.engine.graph.operand import Operand
from onnxgrad.models.nn.functional import check_ratio, dropout
from onnxgrad.models.nn.module import Module
from onnxgrad.models.nn.operators import Kind


class Sequential(Module):
    """Each layer, a module or a function of one operand, gets what the one before returns.

    Parameters are called by the position of their layer: "0.weight".
    """

    def __init__(self, *layers: Callable[[Operand], Operand]) -> None:
        for index, layer in enumerate(layers):
            setattr(self, str(index), layer)
        self.length = len(layers)

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        for index in range(self.length):
            x = vars(self)[str(index)](x)
        return x

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Callable[[Operand], Operand]:
        layer: Callable[[Operand], Operand] = vars(self)[str(range(self.length)[index])]
        return layer


class Dropout(Module):
    """While training, each element is 0 with probability `ratio`, and others are scaled by 1 / (1 - ratio)."""

    def __init__(self, ratio: float = 0.5) -> None:
        check_ratio(ratio)
        self.ratio = ratio

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        return dropout(x, self.ratio, self.training)
