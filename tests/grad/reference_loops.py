"""Operators that onnx's reference evaluator leaves incomplete, whole and in any float type: RNN, GRU and LSTM with all
attributes, Scan with axes and directions, Loop with scalar rows or none, sequences and optionals."""

from collections.abc import Callable

import numpy as np
import onnx.helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import (
    op_gru,
    op_loop,
    op_lstm,
    op_optional,
    op_rnn,
    op_scan,
    op_sequence_insert,
    op_sequence_map,
)

ACTIVATIONS = {
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: np.where(x > 0, x, a * x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x > 0, x, a * (np.exp(np.minimum(x, 0)) - 1)),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.log1p(np.exp(x)),
}
DEFAULTS = {"leakyrelu": (0.01, 0), "thresholdedrelu": (1, 0), "hardsigmoid": (0.2, 0.5), "elu": (1, 0)}
TAKES = {"affine": 2, "leakyrelu": 1, "thresholdedrelu": 1, "scaledtanh": 2, "hardsigmoid": 2, "elu": 1}


def rnn_step(x, h, c, w, r, wb, rb, p, f, options):
    """One step of RNN: (h, c)."""
    return f[0](x @ w.T + h @ r.T + wb + rb), c


def gru_step(x, h, c, w, r, wb, rb, p, f, options):
    """One step of GRU: (h, c)."""
    xz, xr, xn = np.split(x @ w.T + wb, 3, -1)
    rz, rr, rn = np.split(r, 3)
    bz, br, bn = np.split(rb, 3)
    z, reset = f[0](xz + h @ rz.T + bz), f[0](xr + h @ rr.T + br)
    before = (reset * h) @ rn.T + bn
    n = f[1](xn + (reset * (h @ rn.T + bn) if options["linear_before_reset"] else before))
    return (1 - z) * n + z * h, c


def lstm_step(x, h, c, w, r, wb, rb, p, f, options):
    """One step of LSTM: (h, c)."""
    i, o, forget, g = np.split(x @ w.T + h @ r.T + wb + rb, 4, -1)
    pi, po, pf = np.split(p, 3)
    i = f[0](i + pi * c)
    forget = 1 - i if options["input_forget"] else f[0](forget + pf * c)
    following = forget * c + i * f[1](g)
    return f[0](o + po * following) * f[2](following), following


STEPS: dict[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray]], int, list[str]]] = {
    "RNN": (rnn_step, 1, ["Tanh"]),
    "GRU": (gru_step, 3, ["Sigmoid", "Tanh"]),
    "LSTM": (lstm_step, 4, ["Sigmoid", "Tanh", "Tanh"]),
}


def recurrent(op_type, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, **options):
    """Y, Y_h and Y_c of a recurrent operator, as the standard says."""
    step, gates, defaults = STEPS[op_type]
    directions, _, hidden = r.shape
    layout = options.get("layout") or 0
    if layout:
        x, h0, c0 = (None if v is None else np.swapaxes(v, 0, 1) for v in (x, h0, c0))
    steps, batch, _ = x.shape
    zero = np.zeros((directions, batch, hidden), x.dtype)
    h0, c0 = zero if h0 is None else h0, zero if c0 is None else c0
    b = np.zeros((directions, 2 * gates * hidden), x.dtype) if b is None else b
    p = np.zeros((directions, 3 * hidden), x.dtype) if p is None else p
    functions = activations(options, [*(options.get("activations") or defaults * directions)], x.dtype)
    if op_type == "LSTM":  # as onnxruntime has it: the gates are clipped, the cell is not
        free = activations({**options, "clip": 0}, [*(options.get("activations") or defaults * directions)], x.dtype)
        functions[2::3] = free[2::3]
    y, y_h, y_c = np.zeros((steps, directions, batch, hidden), x.dtype), h0.copy(), c0.copy()
    each = len(functions) // directions
    for d in range(directions):
        backward = options.get("direction") == "reverse" or d == 1
        for n in range(batch):
            order = range(steps if lens is None else int(lens[n]))
            h, c = h0[d, n], c0[d, n]
            for t in reversed(order) if backward else order:
                f = functions[d * each : (d + 1) * each]
                h, c = step(x[t, n], h, c, w[d], r[d], *np.split(b[d], 2), p[d], f, options)
                y[t, d, n] = h
            y_h[d, n], y_c[d, n] = (h, c) if len(order) else (0, 0)  # as onnxruntime has it
    if layout:
        y, y_h, y_c = y.transpose(2, 0, 1, 3), np.swapaxes(y_h, 0, 1), np.swapaxes(y_c, 0, 1)
    return y, y_h, y_c


def activations(options, names, dtype):
    """Functions of one argument for the names, with alpha, beta and clip."""
    alphas, betas = [*(options.get("activation_alpha") or [])], [*(options.get("activation_beta") or [])]
    clip, found = options.get("clip") or 0, []
    for name in map(str.lower, names):
        alpha, beta = DEFAULTS.get(name, (1, 0))
        alpha = alphas.pop(0) if TAKES.get(name, 0) > 0 and alphas else alpha
        beta = betas.pop(0) if TAKES.get(name, 0) > 1 and betas else beta

        def function(x, name=name, alpha=alpha, beta=beta):
            x = np.clip(x, -clip, clip) if clip else x
            return ACTIVATIONS[name](x, alpha, beta).astype(dtype)

        found.append(function)
    return found


class RNN(OpRun):
    def _run(self, *inputs, **options):
        values = [*inputs, *[None] * 6][:6]
        return recurrent("RNN", *values, **options)[: len(self.onnx_node.output)]


class GRU(OpRun):
    def _run(self, *inputs, **options):
        values = [*inputs, *[None] * 6][:6]
        return recurrent("GRU", *values, **options)[: len(self.onnx_node.output)]


class LSTM(OpRun):
    def _run(self, *inputs, **options):
        return recurrent("LSTM", *inputs, **options)[: len(self.onnx_node.output)]


class Scan(OpRun):
    body: ReferenceEvaluator  # OpRun makes both of the attribute
    _run_body: Callable[..., list[np.ndarray]]

    def need_context(self):
        return True

    def _run(self, *args, context=None, body=None, bindings=None, num_scan_inputs=None, **options):
        def slots(name, count):
            return [*(options.get(name) or []), *[0] * count][:count]

        first = len(args) - num_scan_inputs
        states, xs = list(args[:first]), args[first:]
        axes, turned = slots("scan_input_axes", len(xs)), slots("scan_input_directions", len(xs))
        rows = [[np.take(x, t, axis) for t in range(x.shape[axis])] for x, axis in zip(xs, axes, strict=True)]
        rows = [row[::-1] if backward else row for row, backward in zip(rows, turned, strict=True)]
        results = []
        for slices in zip(*rows, strict=True):
            feeds = {**(context or {}), **dict(zip(self.body.input_names, [*states, *slices], strict=True))}
            outputs = self._run_body(feeds, bindings=bindings)
            states = outputs[:first]
            results.append(outputs[first:])
        stacks = list(zip(*results, strict=True))
        axes, turned = slots("scan_output_axes", len(stacks)), slots("scan_output_directions", len(stacks))
        flipped = [stack[::-1] if backward else stack for stack, backward in zip(stacks, turned, strict=True)]
        return (*states, *(np.stack(stack, axis) for stack, axis in zip(flipped, axes, strict=True)))


class Loop(OpRun):
    body: ReferenceEvaluator  # OpRun makes both of the attribute
    _run_body: Callable[..., list[np.ndarray]]

    def need_context(self):
        return True

    def _run(self, limit=None, cond=None, *initial, context=None, body=None, attributes=None, bindings=None):
        names, inner = self.body.input_names, dict(context or {})
        states, turn = list(initial), 0
        rows: list[list[np.ndarray]] = [[] for _ in self.body.output_names[1 + len(states) :]]
        cond = True if cond is None else cond
        while cond and (limit is None or turn < limit):
            feeds = {**inner, names[0]: np.array(turn, np.int64), names[1]: np.array(True)}
            feeds.update(zip(names[2:], states, strict=True))
            cond, *outputs = self._run_body(feeds, attributes=attributes, bindings=bindings)
            states, made = outputs[: len(states)], outputs[len(states) :]
            for row, value in zip(rows, made, strict=True):
                row.append(value)
            turn += 1
        kinds = self.body.proto_.graph.output if hasattr(self.body.proto_, "graph") else self.body.proto_.output
        kinds = list(kinds)[len(kinds) - len(rows) :] if rows else []
        return (*states, *(np.stack(row) if row else _none(kind) for row, kind in zip(rows, kinds, strict=True)))


def _none(kind):
    """The scanned output of a loop that never ran."""
    tensor = kind.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), dtype)


class SequenceInsert(OpRun):
    def _run(self, sequence, item, position=None):  # the evaluator's own puts at 0 what belongs at the end
        place = len(sequence) if position is None else int(position)
        place += len(sequence) if place < 0 else 0
        return ([*sequence[:place], item, *sequence[place:]],)


class SequenceMap(OpRun):
    def _run(self, sequence, *others, body=None, attributes=None):  # the evaluator's own knows one other sequence
        results: list[list[object]] = [[] for _ in body.output_names]
        for k, item in enumerate(sequence):
            items = [item, *(other[k] if isinstance(other, list) else other for other in others)]
            values = body.run(None, dict(zip(body.input_names, items, strict=True)))
            for result, value in zip(results, values, strict=True):
                result.append(value)
        return tuple(results)


class Optional(OpRun):
    def _run(self, x=None, type=None):  # the evaluator's own gives a list that OptionalGetElement does not open
        return (x,)


def _put_in_place():
    """Let the evaluator use these, also in function bodies, where it ignores operators that it is given."""
    pairs = [(RNN, op_rnn), (GRU, op_gru), (LSTM, op_lstm), (Scan, op_scan), (Loop, op_loop), (Optional, op_optional)]
    pairs += [(SequenceInsert, op_sequence_insert), (SequenceMap, op_sequence_map)]
    for mended, module in pairs:
        kept = getattr(module, f"Common{mended.__name__}", None) or getattr(module, mended.__name__)
        kept.__init__, kept._run, kept.need_context = OpRun.__init__, mended._run, mended.need_context


_put_in_place()
