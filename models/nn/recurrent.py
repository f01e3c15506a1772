"""Recurrent layers, with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgrad.engine.graph.operand import Operand
from onnxgrad.models.nn.functional import dropout
from onnxgrad.models.nn.initialize import fan_in_uniform
from onnxgrad.models.nn.module import Module, Parameter
from onnxgrad.models.nn.operators import Kind, one, several

_State = tuple[Kind, Kind]


class _Recurrent(Module):
    """Stacked layers, each with weights for one direction or both.

    order: where ONNX's gates are among PyTorch's.
    """

    op_type = ""
    order: Sequence[int] = ()

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int = 1,
        bidirectional: bool = False,
        ratio: float = 0.0,
        batch_first: bool = False,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.hidden_size, self.layers, self.ratio, self.batch_first = hidden_size, layers, ratio, batch_first
        self.directions = 2 if bidirectional else 1
        for layer in range(layers):
            size = input_size if layer == 0 else hidden_size * self.directions
            for suffix in self._suffixes(layer):
                rows = len(self.order) * hidden_size
                for name, shape in (
                    ("weight_ih", (rows, size)),
                    ("weight_hh", (rows, hidden_size)),
                    ("bias_ih", (rows,)),
                    ("bias_hh", (rows,)),
                ):
                    setattr(self, f"{name}_{suffix}", fan_in_uniform(shape, hidden_size, rng))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: self.directions]

    def _weight(self, name: str) -> Parameter:
        weight = vars(self)[name]
        assert isinstance(weight, Parameter)
        return weight

    def _reordered(self, like: Kind, name: str) -> Kind:
        """A weight with its gates in ONNX's order."""
        weight = self._weight(name)
        parts = several(like, len(self.order), "Split", weight, axis=0, num_outputs=len(self.order))
        return one(like, "Concat", *(parts[index] for index in self.order), axis=0)

    def _weights(self, like: Kind, layer: int) -> list[Kind]:
        """W, R and B of ONNX: one row for each direction."""
        suffixes = self._suffixes(layer)
        found = []
        for kind in ("weight_ih", "weight_hh"):
            rows = [self._reordered(like, f"{kind}_{suffix}") for suffix in suffixes]
            found.append(_stack(like, rows))
        biases = []
        for suffix in suffixes:
            both = [self._reordered(like, f"{kind}_{suffix}") for kind in ("bias_ih", "bias_hh")]
            biases.append(one(like, "Concat", *both, axis=0))
        return [*found, _stack(like, biases)]

    def _run(self, x: Kind, states: Sequence[Operand | None], **attributes: object) -> tuple[Kind, list[Kind]]:
        """The outputs of the last layer [T, N, directions hidden]; the last states [layers directions, N, hidden]."""
        x = x.transpose(1, 0, 2) if self.batch_first else x
        last: list[list[Kind]] = [[] for _ in states]
        for layer in range(self.layers):
            if layer and self.training:
                x = dropout(x, self.ratio)
            mine = slice(layer * self.directions, (layer + 1) * self.directions)
            first = [None if state is None else state[mine] for state in states]
            direction = "bidirectional" if self.directions == 2 else "forward"
            y, *after = several(
                x,
                1 + len(states),
                self.op_type,
                x,
                *self._weights(x, layer),
                None,
                *first,
                hidden_size=self.hidden_size,
                direction=direction,
                **attributes,
            )
            x = one(y, "Reshape", y.transpose(0, 2, 1, 3), [0, 0, self.directions * self.hidden_size])
            for known, state in zip(last, after, strict=True):
                known.append(state)
        stacked = [states[0] if len(states) == 1 else one(x, "Concat", *states, axis=0) for states in last]
        return (x.transpose(1, 0, 2) if self.batch_first else x), stacked


def _stack(like: Kind, rows: Sequence[Kind]) -> Kind:
    raised = [one(like, "Unsqueeze", row, [0]) for row in rows]
    return raised[0] if len(raised) == 1 else one(like, "Concat", *raised, axis=0)


class LSTM(_Recurrent):
    """Long short-term memory on [T, N, input_size], or [N, T, input_size] with `batch_first`.

    ratio: of dropout between layers while training.
    """

    op_type = "LSTM"
    order = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output; ONNX: input, output, forget, cell

    def __call__(self, x: Kind, state: _State[Operand] | None = None) -> tuple[Kind, _State[Kind]]:
        """Outputs of the last layer, and the last (hidden, cell), each [layers directions, N, hidden_size].

        state: the first (hidden, cell); zeros by default.
        """
        y, (hidden, cell) = self._run(x, state or (None, None))
        return y, (hidden, cell)


class GRU(_Recurrent):
    """Gated recurrent units on [T, N, input_size], or [N, T, input_size] with `batch_first`.

    ratio: of dropout between layers while training.
    """

    op_type = "GRU"
    order = (1, 0, 2)  # PyTorch: reset, update, new; ONNX: update, reset, new

    def __call__(self, x: Kind, state: Operand | None = None) -> tuple[Kind, Kind]:
        """Outputs of the last layer, and the last hidden state [layers directions, N, hidden_size].

        state: the first one; zeros by default.
        """
        y, (hidden,) = self._run(x, (state,), linear_before_reset=1)
        return y, hidden
