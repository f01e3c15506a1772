"""LSTM: gates of all steps recomputed at once from the outputs, cells by an elementwise scan; then one scan back."""

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.recurrence import Carried, Lane, LaneGrads, recurrent_gradient
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("LSTM")
def lstm(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """h_t = o tanh(c_t), c_t = f c_{t-1} + i g, with gates i, o, f and the candidate g: see `_lstm_lane`"""
    coupled = bool(node.attributes.get_int("input_forget", 0))
    return recurrent_gradient(op, node, dys, lambda lane: _lstm_lane(lane, coupled), ["Sigmoid", "Tanh", "Tanh"])


def _lstm_lane(lane: Lane, coupled: bool) -> LaneGrads:
    """da_t = [dc, dh, dc, dc] * factors with dc = dc'_t + dh * to_c;  dh_{t-1} = da R, dc'_{t-1} = dc * decay."""
    op = lane.op
    h = lane.before(lane.y, lane.h0)
    rows = lane.rows(h)
    sums = lane.split(lane.project(h, lane.w, lane.r, lane.bias()), 4)
    peeps = (None, None, None) if lane.p is None else lane.split(lane.p, 3, axis=0)
    cells = _cells(lane, coupled, sums, peeps)
    c, c_before = lane.rows(cells), lane.rows(lane.before(cells, lane.c0))
    factors, to_c, decay = _factors(lane, coupled, sums, peeps, c, c_before)

    def step(inner: Builder, dh: ir.Value, dc: ir.Value, *slices: ir.Value) -> Carried:
        factors, to_c, decay, *others = slices
        dh, kept = lane.arriving(inner, dh, others)
        dc = inner.Add(dc, inner.Mul(dh, to_c))
        da = inner.Mul(inner.Concat(dc, dh, dc, dc, axis=1), factors)
        return [inner.Gemm(da, lane.r, kept), inner.Mul(dc, decay)], [da]

    feeds = lane.feeds(lane.masked(factors), lane.masked(to_c), lane.masked(decay, 1.0))
    dh0, dc0, da = lane.scan([lane.dy_h, lane.dy_c], feeds, step, backward=True)
    grads = {**lane.projected(da, rows), "h0": dh0, "c0": dc0}
    if lane.p is not None:
        da_i, da_o, da_f, _ = lane.split(lane.rows(da), 4)
        products = op.Mul(da_i, c_before), op.Mul(da_o, c), op.Mul(da_f, c_before)
        grads["p"] = op.Concat(*(op.ReduceSum(v, [0], keepdims=0) for v in products), axis=0)
    return grads


def _factors(
    lane: Lane,
    coupled: bool,
    sums: Sequence[ir.Value],
    peeps: Sequence[ir.Value | None],
    c: ir.Value,
    c_before: ir.Value,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """All that the backward scan multiplies by, known before it: (factors [T*N,4*H], to_c, decay).

    Peepholes and coupled gates change the factors, not the scan.
    """
    op = lane.op
    gate = lane.activations[0]
    squash = replace(lane.activations[2], clip=0.0)  # onnxruntime clips what goes into the gates, not the cell
    g, g_slope = lane.activations[1].apply(op, sums[3])
    i, i_slope = gate.apply(op, _peep(op, sums[0], peeps[0], c_before))
    o, o_slope = gate.apply(op, _peep(op, sums[1], peeps[1], c))
    squashed, squash_slope = squash.apply(op, c)
    to_o, to_c = op.Mul(squashed, o_slope), op.Mul(o, squash_slope)
    if coupled:
        f, to_i = op.Sub(op.constant_like(i, 1), i), op.Mul(op.Sub(g, c_before), i_slope)
        to_f = op.zeros_like(f)
    else:
        f, f_slope = gate.apply(op, _peep(op, sums[2], peeps[2], c_before))
        to_i, to_f = op.Mul(g, i_slope), op.Mul(c_before, f_slope)
    decay = f
    if lane.p is not None:
        to_c = op.Add(to_c, op.Mul(to_o, peeps[1]))
        decay = op.Add(f, op.Add(op.Mul(to_i, peeps[0]), op.Mul(to_f, peeps[2])))
    return op.Concat(to_i, to_o, to_f, op.Mul(i, g_slope), axis=1), to_c, decay


def _peep(op: Builder, total: ir.Value, weight: ir.Value | None, cell: ir.Value) -> ir.Value:
    return total if weight is None else op.Add(total, op.Mul(weight, cell))


def _cells(lane: Lane, coupled: bool, sums: Sequence[ir.Value], peeps: Sequence[ir.Value | None]) -> ir.Value:
    """The cell states c_t of all steps [T,N,H]: an elementwise scan, for the node puts out only the last."""
    op, gate = lane.op, lane.activations[0]
    g, _ = lane.activations[1].apply(op, sums[3])
    if lane.p is not None:
        return _peeping_cells(lane, coupled, [sums[0], sums[2], g], peeps)
    i, _ = gate.apply(op, sums[0])
    f = op.Sub(op.constant_like(i, 1), i) if coupled else gate.apply(op, sums[2])[0]
    gain = lane.steps(lane.masked(op.Mul(i, g)))

    def step(inner: Builder, c: ir.Value, f: ir.Value, gain: ir.Value) -> Carried:
        rest = inner.Mul(f, c)
        return [inner.Add(rest, gain)], [rest]

    _, rest = lane.scan([lane.c0], [lane.steps(lane.masked(f, 1.0)), gain], step, backward=False)
    return op.Add(rest, gain)


def _peeping_cells(lane: Lane, coupled: bool, sums: Sequence[ir.Value], peeps: Sequence[ir.Value | None]) -> ir.Value:
    """The same where the gates look at the cell, step by step. sums: of i, of f, and the candidate."""
    gate = lane.activations[0]

    def step(inner: Builder, c: ir.Value, *slices: ir.Value) -> Carried:
        sum_i, sum_f, g, *valid = slices
        i, _ = gate.apply(inner, _peep(inner, sum_i, peeps[0], c))
        f = inner.Sub(inner.constant_like(i, 1), i)
        if not coupled:
            f, _ = gate.apply(inner, _peep(inner, sum_f, peeps[2], c))
        following = inner.Add(inner.Mul(f, c), inner.Mul(i, g))
        following = inner.Where(valid[0], following, c) if valid else following
        return [following], [following]

    feeds = [lane.steps(value) for value in sums]
    feeds += [] if lane.valid is None else [lane.valid]
    _, cells = lane.scan([lane.c0], feeds, step, backward=False)
    return cells
