"""RNN, GRU and LSTM on the host, with all attributes and in every float type: onnx's own leave most attributes out.

Where the standard is silent it is done as onnxruntime does it: `clip` bounds what gates get, not the cell of an LSTM;
the last state of a sequence of length 0 is 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgrad.engine.runtime.values import Array

Function = Callable[[Array], Array]

_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: np.where(x > 0, x, a * x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
}
_DEFAULTS = {"leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}
_TAKES = {"affine": 2, "leakyrelu": 1, "thresholdedrelu": 1, "scaledtanh": 2, "hardsigmoid": 2, "elu": 1}


@dataclass(frozen=True)
class Options:
    """The attributes of a recurrent operator; None or absent stands for the default."""

    activations: Sequence[str] | None = None
    activation_alpha: Sequence[float] | None = None
    activation_beta: Sequence[float] | None = None
    clip: float | None = None
    direction: str | None = None
    hidden_size: int | None = None
    input_forget: int | None = None
    layout: int | None = None
    linear_before_reset: int | None = None


@dataclass(frozen=True)
class _Direction:
    """The weights of one direction, and the functions of its gates; p: peepholes."""

    w: Array
    r: Array
    wb: Array
    rb: Array
    p: Array
    functions: Sequence[Function]
    options: Options


Step = Callable[[_Direction, Array, Array, Array], tuple[Array, Array]]
"""(weights, x [batch, input], h, c [batch, hidden]) -> the next (h, c)"""


def _rnn_step(own: _Direction, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    return own.functions[0](x @ own.w.T + h @ own.r.T + own.wb + own.rb), c


def _gru_step(own: _Direction, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    xz, xr, xn = np.split(x @ own.w.T + own.wb, 3, -1)
    rz, rr, rn = np.split(own.r, 3)
    bz, br, bn = np.split(own.rb, 3)
    gate, squash = own.functions
    z, reset = gate(xz + h @ rz.T + bz), gate(xr + h @ rr.T + br)
    inner = reset * (h @ rn.T + bn) if own.options.linear_before_reset else (reset * h) @ rn.T + bn
    return (1 - z) * squash(xn + inner) + z * h, c


def _lstm_step(own: _Direction, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    i, o, forget, cell = np.split(x @ own.w.T + h @ own.r.T + own.wb + own.rb, 4, -1)
    pi, po, pf = np.split(own.p, 3)
    gate, squash, out = own.functions
    i = gate(i + pi * c)
    forget = 1 - i if own.options.input_forget else gate(forget + pf * c)
    c = forget * c + i * squash(cell)
    return gate(o + po * c) * out(c), c


_KINDS: dict[str, tuple[Step, int, list[str]]] = {  # step, gates, functions
    "RNN": (_rnn_step, 1, ["Tanh"]),
    "GRU": (_gru_step, 3, ["Sigmoid", "Tanh"]),
    "LSTM": (_lstm_step, 4, ["Sigmoid", "Tanh", "Tanh"]),
}


def recurrent(op_type: str, inputs: Sequence[Array | None], options: Options) -> tuple[Array, Array, Array]:
    """Y, Y_h and Y_c of a recurrent operator: of its X, W, R, and what it has of B, sequence_lens, h, c and P."""
    x, w, r, b, lens, h0, c0, p = [*inputs, *[None] * 8][:8]
    assert x is not None and w is not None and r is not None
    step, gates, _ = _KINDS[op_type]
    directions, _, hidden = r.shape
    if options.layout:
        x, h0, c0 = np.swapaxes(x, 0, 1), _swapped(h0), _swapped(c0)
    steps, batch, _ = x.shape
    zero = np.zeros((directions, batch, hidden), x.dtype)
    h0, c0 = zero if h0 is None else h0, zero if c0 is None else c0
    b = np.zeros((directions, 2 * gates * hidden), x.dtype) if b is None else b
    p = np.zeros((directions, 3 * hidden), x.dtype) if p is None else p
    lens = np.full(batch, steps) if lens is None else lens
    functions = _functions(op_type, directions, options, x.dtype)
    results = []
    for d in range(directions):
        wb, rb = np.split(b[d], 2)
        own = _Direction(w[d], r[d], wb, rb, p[d], functions[d], options)
        is_backward = options.direction == "reverse" or d == 1
        results.append(_run_direction(step, own, x, lens, h0[d], c0[d], is_backward))
    y, y_h, y_c = (np.stack(parts, axis) for parts, axis in zip(zip(*results, strict=True), (1, 0, 0), strict=True))
    if options.layout:
        return y.transpose(2, 0, 1, 3), np.swapaxes(y_h, 0, 1), np.swapaxes(y_c, 0, 1)
    return y, y_h, y_c


def _swapped(x: Array | None) -> Array | None:
    return None if x is None else np.swapaxes(x, 0, 1)


def _run_direction(
    step: Step, own: _Direction, x: Array, lens: Array, h: Array, c: Array, is_backward: bool
) -> tuple[Array, Array, Array]:
    """Y, Y_h, Y_c of one direction: all sequences at once, those that have ended keep their state."""
    rows = np.arange(x.shape[1])
    y = np.zeros((*x.shape[:2], h.shape[-1]), x.dtype)
    for turn in range(int(lens.max(initial=0))):
        runs = turn < lens
        at = np.maximum(lens - 1 - turn, 0) if is_backward else np.full_like(lens, turn)
        next_h, next_c = step(own, x[at, rows], h, c)
        h, c = np.where(runs[:, None], next_h, h), np.where(runs[:, None], next_c, c)
        y[at[runs], rows[runs]] = h[runs]
    some = (lens > 0)[:, None]
    return y, np.where(some, h, 0).astype(x.dtype), np.where(some, c, 0).astype(x.dtype)


def _functions(op_type: str, directions: int, options: Options, dtype: np.dtype[np.generic]) -> list[list[Function]]:
    """The functions of each direction, with alpha, beta and clip."""
    defaults = _KINDS[op_type][2]
    alphas, betas = list(options.activation_alpha or []), list(options.activation_beta or [])
    found = []
    for position, name in enumerate(name.lower() for name in options.activations or defaults * directions):
        alpha, beta = _DEFAULTS.get(name, (1.0, 0.0))
        alpha = alphas.pop(0) if _TAKES.get(name, 0) > 0 and alphas else alpha
        beta = betas.pop(0) if _TAKES.get(name, 0) > 1 and betas else beta
        is_cell = op_type == "LSTM" and position % 3 == 2
        found.append(_function(name, alpha, beta, 0.0 if is_cell else options.clip or 0.0, dtype))
    return [found[d * len(defaults) : (d + 1) * len(defaults)] for d in range(directions)]


def _function(name: str, alpha: float, beta: float, clip: float, dtype: np.dtype[np.generic]) -> Function:
    activation = _ACTIVATIONS[name]

    def function(x: Array) -> Array:
        result: Array = activation(np.clip(x, -clip, clip) if clip else x, alpha, beta).astype(dtype)
        return result

    return function


class _Recurrent(OpRun):
    op_domain = ""

    def _run(self, *inputs: Array | None, **attributes: str) -> tuple[Array, ...]:
        options = Options(**attributes)  # type: ignore[arg-type]  # each of its own type
        return recurrent(self.onnx_node.op_type, inputs, options)[: len(self.onnx_node.output)]


class RNN(_Recurrent):
    """h = f(x W^T + h R^T + b), over time."""


class GRU(_Recurrent):
    """h = (1 - z) n + z h, over time."""


class LSTM(_Recurrent):
    """c = f c + i g, h = o tanh(c), over time."""
