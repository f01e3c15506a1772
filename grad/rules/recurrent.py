"""RNN, GRU and LSTM: gates of all steps recomputed from the outputs at once; only what must be is carried through time."""

from dataclasses import replace

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.recurrence import Lane, LaneGrads, recurrent_gradient
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("RNN")
def rnn(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """h_t = f(x_t W^T + h_{t-1} R^T + b):  da_t = dh_t f'(a_t), dh_{t-1} = dy_{t-1} + da_t R"""
    return recurrent_gradient(op, node, dys, _rnn_lane, ["Tanh"])


def _rnn_lane(lane: Lane) -> LaneGrads:
    op = lane.op
    h = lane.before(lane.y, lane.h0)
    _, slope = lane.activations[0].apply(op, lane.project(h, lane.w, lane.r, lane.bias()))
    keeps = _keeps(lane)

    def step(inner: Builder, carried: ir.Value, slope: ir.Value, *rest: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        dh, kept = _arriving(inner, lane, carried, rest)
        da = inner.Mul(dh, slope)
        return [inner.Gemm(da, lane.r, kept)], [da]

    feeds = [lane.steps(lane.masked(slope)), *_optional(lane.dy), *keeps]
    dh0, da = lane.scan([lane.dy_h], feeds, step, backward=True)
    return {**_projected(lane, da, lane.rows(h)), "h0": dh0}


def _keeps(lane: Lane) -> list[ir.Value]:
    """[T,N,1]: 1 behind the end of a sequence, where a step passes its state on; nothing without sequence lengths."""
    if lane.valid is None:
        return []
    one, zero = lane.op.constant_like(lane.x, 1), lane.op.constant_like(lane.x, 0)
    return [lane.op.Where(lane.valid, zero, one)]


def _optional(value: ir.Value | None) -> list[ir.Value]:
    return [] if value is None else [value]


def _arriving(
    inner: Builder, lane: Lane, carried: ir.Value, rest: tuple[ir.Value, ...]
) -> tuple[ir.Value, ir.Value | None]:
    """Of a step: the whole gradient of its h, and the part that passes by it to the step before."""
    slices = list(rest)
    dh = carried if lane.dy is None else inner.Add(slices.pop(0), carried)
    return dh, inner.Mul(dh, slices[0]) if slices else None


def _projected(lane: Lane, da: ir.Value, h: ir.Value) -> LaneGrads:
    """Gradients of the operands of a = x W^T + h R^T + b, from da [T,N,G*H] and h [T*N,H]: one Gemm each."""
    op = lane.op
    rows = lane.rows(da)
    bias = op.ReduceSum(rows, [0], keepdims=0)
    return {
        "x": op.MatMul(da, lane.w),
        "w": op.Gemm(rows, lane.rows(lane.x), transA=1),
        "r": op.Gemm(rows, h, transA=1),
        "wb": bias,
        "rb": bias,
    }


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
    n, n_slope = lane.activations[1].apply(op, op.Gemm(reset, r_n, op.Gemm(lane.rows(lane.x), w_n, b_n, transB=1), transB=1))
    one = op.constant_like(z, 1)
    factors = [
        lane.masked(op.Mul(op.Sub(one, z), n_slope)),
        lane.masked(op.Mul(op.Sub(rows, n), z_slope)),
        op.Mul(rows, r_slope),
        lane.masked(z, 1.0),
        r,
    ]

    def step(inner: Builder, carried: ir.Value, *rest: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        to_n, to_z, to_r, z, r, *dy = rest
        dh = inner.Add(dy[0], carried) if dy else carried
        da_n = inner.Mul(dh, to_n)
        dq = inner.MatMul(da_n, r_n)
        da_zr = inner.Concat(inner.Mul(dh, to_z), inner.Mul(dq, to_r), axis=1)
        past = inner.Add(inner.Mul(dh, z), inner.Mul(dq, r))
        return [inner.Gemm(da_zr, r_zr, past)], [da_zr, da_n]

    feeds = [*(lane.steps(factor) for factor in factors), *_optional(lane.dy)]
    dh0, da_zr, da_n = lane.scan([lane.dy_h], feeds, step, backward=True)
    da = op.Concat(da_zr, da_n, axis=2)
    grads = _projected(lane, da, rows)
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

    def step(inner: Builder, carried: ir.Value, *rest: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        to_all, z, *dy = rest
        dh = inner.Add(dy[0], carried) if dy else carried
        da = inner.Mul(inner.Concat(dh, dh, dh, axis=1), to_all)
        return [inner.Gemm(da, lane.r, inner.Mul(dh, z))], [da, dh]

    feeds = [lane.steps(lane.masked(to_all)), lane.steps(lane.masked(z, 1.0)), *_optional(lane.dy)]
    dh0, da, dh = lane.scan([lane.dy_h], feeds, step, backward=True)
    to_x = op.Mul(lane.rows(dh), lane.masked(to_n))
    da_z, da_r, _ = lane.split(lane.rows(da), 3)
    da_x = lane.steps(op.Concat(da_z, da_r, to_x, axis=1))
    grads = _projected(lane, da_x, rows)
    grads["r"] = op.Gemm(lane.rows(da), rows, transA=1)
    grads["rb"] = op.ReduceSum(lane.rows(da), [0], keepdims=0)
    return {**grads, "h0": dh0}


@gradient("LSTM")
def lstm(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """h_t = o tanh(c_t), c_t = f c_{t-1} + i g, with gates i, o, f and the candidate g: see `_lstm_lane`"""
    coupled = bool(node.attributes.get_int("input_forget", 0))
    return recurrent_gradient(op, node, dys, lambda lane: _lstm_lane(lane, coupled), ["Sigmoid", "Tanh", "Tanh"])


def _lstm_lane(lane: Lane, coupled: bool) -> LaneGrads:
    """dc_t = dc'_t + dh (o tanh'(c) + ...):  da = [dc, dh, dc, dc] * factors, dh_{t-1} = da R, dc'_{t-1} = dc * decay.

    Every factor is known before the scan; peepholes and coupled gates only change the factors.
    """
    op = lane.op
    h = lane.before(lane.y, lane.h0)
    rows = lane.rows(h)
    sums = lane.split(lane.project(h, lane.w, lane.r, lane.bias()), 4)
    peeps = (None, None, None) if lane.p is None else lane.split(lane.p, 3, axis=0)
    g, g_slope = lane.activations[1].apply(op, sums[3])
    cells = _cells(lane, coupled, sums, peeps, g)
    cells_before = lane.before(cells, lane.c0)
    c, c_before = lane.rows(cells), lane.rows(cells_before)
    i, i_slope = lane.activations[0].apply(op, _peep(op, sums[0], peeps[0], c_before))
    o, o_slope = lane.activations[0].apply(op, _peep(op, sums[1], peeps[1], c))
    one = op.constant_like(i, 1)
    if coupled:
        f, to_i = op.Sub(one, i), op.Mul(op.Sub(g, c_before), i_slope)
        to_f = None
    else:
        f, f_slope = lane.activations[0].apply(op, _peep(op, sums[2], peeps[2], c_before))
        to_i, to_f = op.Mul(g, i_slope), op.Mul(c_before, f_slope)
    squash = replace(lane.activations[2], clip=0.0)  # onnxruntime clips the gates, not the cell
    squashed, squash_slope = squash.apply(op, c)
    to_o, to_c = op.Mul(squashed, o_slope), op.Mul(o, squash_slope)
    to_c = to_c if peeps[1] is None else op.Add(to_c, op.Mul(to_o, peeps[1]))
    decay = f if peeps[0] is None else op.Add(f, op.Mul(to_i, peeps[0]))
    decay = decay if peeps[2] is None or to_f is None else op.Add(decay, op.Mul(to_f, peeps[2]))
    factors = op.Concat(to_i, to_o, to_f or op.Mul(f, 0.0), op.Mul(i, g_slope), axis=1)
    keeps = _keeps(lane)

    def step(
        inner: Builder, dh: ir.Value, dc: ir.Value, factors: ir.Value, to_c: ir.Value, decay: ir.Value, *rest: ir.Value
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        dh, kept = _arriving(inner, lane, dh, rest)
        dc = inner.Add(dc, inner.Mul(dh, to_c))
        da = inner.Mul(inner.Concat(dc, dh, dc, dc, axis=1), factors)
        return [inner.Gemm(da, lane.r, kept), inner.Mul(dc, decay)], [da]

    masked = [lane.masked(factors), lane.masked(to_c), lane.masked(decay, 1.0)]
    feeds = [*(lane.steps(value) for value in masked), *_optional(lane.dy), *keeps]
    dh0, dc0, da = lane.scan([lane.dy_h, lane.dy_c], feeds, step, backward=True)
    grads = {**_projected(lane, da, rows), "h0": dh0, "c0": dc0}
    if lane.p is not None:
        da_i, da_o, da_f, _ = lane.split(lane.rows(da), 4)
        products = op.Mul(da_i, c_before), op.Mul(da_o, c), op.Mul(da_f, c_before)
        grads["p"] = op.Concat(*(op.ReduceSum(v, [0], keepdims=0) for v in products), axis=0)
    return grads


def _peep(op: Builder, total: ir.Value, weight: ir.Value | None, cell: ir.Value) -> ir.Value:
    return total if weight is None else op.Add(total, op.Mul(weight, cell))


def _cells(
    lane: Lane,
    coupled: bool,
    sums: tuple[ir.Value, ...],
    peeps: tuple[ir.Value | None, ...],
    g: ir.Value,
) -> ir.Value:
    """The cell states c_t of all steps [T,N,H]: an elementwise scan, for the node puts out only the last."""
    op, gate = lane.op, lane.activations[0]
    if lane.p is not None:
        return _peeping_cells(lane, coupled, sums, peeps, g)
    i, _ = gate.apply(op, sums[0])
    f = op.Sub(op.constant_like(i, 1), i) if coupled else gate.apply(op, sums[2])[0]
    gain = lane.steps(lane.masked(op.Mul(i, g)))

    def step(inner: Builder, c: ir.Value, f: ir.Value, gain: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        rest = inner.Mul(f, c)
        return [inner.Add(rest, gain)], [rest]

    _, rest = lane.scan([lane.c0], [lane.steps(lane.masked(f, 1.0)), gain], step, backward=False)
    return op.Add(rest, gain)


def _peeping_cells(
    lane: Lane,
    coupled: bool,
    sums: tuple[ir.Value, ...],
    peeps: tuple[ir.Value | None, ...],
    g: ir.Value,
) -> ir.Value:
    gate = lane.activations[0]

    def step(inner: Builder, c: ir.Value, *slices: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        sum_i, sum_f, g, *valid = slices
        i, _ = gate.apply(inner, _peep(inner, sum_i, peeps[0], c))
        f = inner.Sub(inner.constant_like(i, 1), i) if coupled else gate.apply(inner, _peep(inner, sum_f, peeps[2], c))[0]
        following = inner.Add(inner.Mul(f, c), inner.Mul(i, g))
        following = inner.Where(valid[0], following, c) if valid else following
        return [following], [following]

    feeds = [lane.steps(value) for value in (sums[0], sums[2], g)]
    feeds += [] if lane.valid is None else [lane.valid]
    _, cells = lane.scan([lane.c0], feeds, step, backward=False)
    return cells
