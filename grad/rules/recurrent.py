"""RNN and GRU: gates of all steps recomputed at once from the outputs; only what must be is carried through time."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.recurrence import Carried, Lane, LaneGrads, recurrent_gradient
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("RNN")
def rnn(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """h_t = f(x_t W^T + h_{t-1} R^T + b):  da_t = dh_t f'(a_t), dh_{t-1} = dy_{t-1} + da_t R"""
    return recurrent_gradient(op, node, dys, _rnn_lane, ["Tanh"])


def _rnn_lane(lane: Lane) -> LaneGrads:
    op = lane.op
    h = lane.before(lane.y, lane.h0)
    _, slope = lane.activations[0].apply(op, lane.project(h, lane.w, lane.r, lane.bias()))

    def step(inner: Builder, carried: ir.Value, slope: ir.Value, *rest: ir.Value) -> Carried:
        dh, kept = lane.arriving(inner, carried, rest)
        da = inner.Mul(dh, slope)
        return [inner.Gemm(da, lane.r, kept)], [da]

    dh0, da = lane.scan([lane.dy_h], lane.feeds(lane.masked(slope)), step, backward=True)
    return {**lane.projected(da, lane.rows(h)), "h0": dh0}


@gradient("GRU")
def gru(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """h_t = (1 - z) n + z h_{t-1}, with gates z, r and the candidate n: see `_gru_lane`"""
    after = bool(node.attributes.get_int("linear_before_reset", 0))
    return recurrent_gradient(op, node, dys, _gru_after_lane if after else _gru_lane, ["Sigmoid", "Tanh"])


def _gru_lane(lane: Lane) -> LaneGrads:
    """n = g(x Wn^T + (r h) Rn^T + b):  da_n = dh (1-z) g', dq = da_n Rn, da_z = dh (h - n) z', da_r = dq h r',

    dh_{t-1} = dh z + dq r + [da_z, da_r] R_zr.
    """
    op = lane.op
    hidden = op.Shape(lane.r, start=1, end=2)
    w_zr, w_n = _cut(lane, lane.w, hidden)
    r_zr, r_n = _cut(lane, lane.r, hidden)
    b_zr, b_n = (None, None) if (bias := lane.bias()) is None else _cut(lane, bias, hidden)
    h = lane.before(lane.y, lane.h0)
    rows = lane.rows(h)
    zr, slopes = lane.activations[0].apply(op, lane.project(h, w_zr, r_zr, b_zr))
    (z, r), (z_slope, r_slope) = lane.split(zr, 2), lane.split(slopes, 2)
    reset = op.Mul(r, rows)
    from_x = op.Gemm(lane.rows(lane.x), w_n, b_n, transB=1)
    n, n_slope = lane.activations[1].apply(op, op.Gemm(reset, r_n, from_x, transB=1))
    one = op.constant_like(z, 1)
    factors = [
        lane.masked(op.Mul(op.Sub(one, z), n_slope)),
        lane.masked(op.Mul(op.Sub(rows, n), z_slope)),
        op.Mul(rows, r_slope),
        lane.masked(z, 1.0),
        r,
    ]

    def step(inner: Builder, carried: ir.Value, *rest: ir.Value) -> Carried:
        to_n, to_z, to_r, z, r, *others = rest
        dh, _ = lane.arriving(inner, carried, others)
        da_n = inner.Mul(dh, to_n)
        dq = inner.MatMul(da_n, r_n)
        da_zr = inner.Concat(inner.Mul(dh, to_z), inner.Mul(dq, to_r), axis=1)
        past = inner.Add(inner.Mul(dh, z), inner.Mul(dq, r))
        return [inner.Gemm(da_zr, r_zr, past)], [da_zr, da_n]

    dh0, da_zr, da_n = lane.scan([lane.dy_h], lane.feeds(*factors), step, backward=True)
    da = op.Concat(da_zr, da_n, axis=2)
    grads = lane.projected(da, rows)
    zr_rows, n_rows = lane.rows(da_zr), lane.rows(da_n)
    grads["r"] = op.Concat(op.Gemm(zr_rows, rows, transA=1), op.Gemm(n_rows, reset, transA=1), axis=0)
    return {**grads, "h0": dh0}


def _cut(lane: Lane, value: ir.Value, hidden: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Rows of the gates z and r, and rows of the candidate."""
    op = lane.op
    first, second = op.node("Split", value, op.Concat(op.Mul(hidden, 2), hidden, axis=0), outputs=2, axis=0)
    return first, second


def _gru_after_lane(lane: Lane) -> LaneGrads:
    """n = g(x Wn^T + b + r q), q = h Rn^T + c:  with da_n = dh (1-z) g':  da_z = dh (h - n) z', da_r = da_n q r',

    dq = da_n r, dh_{t-1} = dh z + [da_z, da_r, dq] R.
    """
    op = lane.op
    h = lane.before(lane.y, lane.h0)
    rows = lane.rows(h)
    from_x = lane.split(op.Gemm(lane.rows(lane.x), lane.w, lane.wb, transB=1), 3)
    from_h = lane.split(op.Gemm(rows, lane.r, lane.rb, transB=1), 3)
    gate = lane.activations[0]
    z, z_slope = gate.apply(op, op.Add(from_x[0], from_h[0]))
    r, r_slope = gate.apply(op, op.Add(from_x[1], from_h[1]))
    n, n_slope = lane.activations[1].apply(op, op.Add(from_x[2], op.Mul(r, from_h[2])))
    to_n = op.Mul(op.Sub(op.constant_like(z, 1), z), n_slope)
    to_z = op.Mul(op.Sub(rows, n), z_slope)
    to_all = op.Concat(to_z, op.Mul(op.Mul(to_n, from_h[2]), r_slope), op.Mul(to_n, r), axis=1)

    def step(inner: Builder, carried: ir.Value, *rest: ir.Value) -> Carried:
        to_all, z, *others = rest
        dh, _ = lane.arriving(inner, carried, others)
        da = inner.Mul(inner.Concat(dh, dh, dh, axis=1), to_all)
        return [inner.Gemm(da, lane.r, inner.Mul(dh, z))], [da, dh]

    feeds = lane.feeds(lane.masked(to_all), lane.masked(z, 1.0))
    dh0, da, dh = lane.scan([lane.dy_h], feeds, step, backward=True)
    to_x = op.Mul(lane.rows(dh), lane.masked(to_n))
    da_z, da_r, _ = lane.split(lane.rows(da), 3)
    da_x = lane.steps(op.Concat(da_z, da_r, to_x, axis=1))
    grads = lane.projected(da_x, rows)
    grads["r"] = op.Gemm(lane.rows(da), rows, transA=1)
    grads["rb"] = op.ReduceSum(lane.rows(da), [0], keepdims=0)
    return {**grads, "h0": dh0}
