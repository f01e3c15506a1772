"""Reading an image between its elements: positions, neighbours and weights, as differentiable nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank


@dataclass(frozen=True)
class Tap:
    """A neighbour along one axis: its index (a float tensor of whole numbers inside the axis) and its weight."""

    index: ir.Value
    weight: ir.Value | None


def vector(op: Builder, *parts: int | tuple[ir.Value, int]) -> ir.Value:
    """A shape, int64[k], of numbers and dimensions (value, axis): a constant where all are static."""
    found: list[int | ir.Value] = []
    for part in parts:
        if isinstance(part, int):
            found.append(part)
            continue
        value, axis = part
        assert value.shape is not None
        dim = value.shape[axis]
        found.append(dim if isinstance(dim, int) else op.Shape(value, start=axis, end=axis + 1))
    known = [part for part in found if isinstance(part, int)]
    if len(known) == len(found):
        return op.constant(known)
    return op.Concat(*[op.constant([part]) if isinstance(part, int) else part for part in found], axis=0)


def size(op: Builder, value: ir.Value, axis: int) -> ir.Value:
    """One dimension of `value`, an int64 scalar."""
    assert value.shape is not None
    dim = value.shape[axis]
    return op.constant(dim) if isinstance(dim, int) else op.Squeeze(op.Shape(value, start=axis, end=axis + 1), [0])


def length_like(op: Builder, value: ir.Value, axis: int, like: ir.Value) -> ir.Value:
    """One dimension of `value` as a scalar of the dtype of `like`."""
    assert value.shape is not None
    dim = value.shape[axis]
    return op.constant_like(like, dim) if isinstance(dim, int) else op.Cast(size(op, value, axis), to=like.dtype)


def counting(op: Builder, count: ir.Value, like: ir.Value) -> ir.Value:
    """0, 1, 2 ... below `count` (an int64 scalar), of the dtype of `like`."""
    return op.Cast(op.Range(0, count, 1), to=like.dtype)


def linear_taps(op: Builder, at: ir.Value) -> list[Tap]:
    """The two neighbours of positions `at`."""
    low = op.Floor(at)
    share = op.Sub(at, low)
    return [Tap(low, op.Sub(op.constant_like(at, 1), share)), Tap(op.Add(low, 1.0), share)]


def cubic_taps(op: Builder, at: ir.Value, a: float = -0.75) -> list[Tap]:
    """The four neighbours of positions `at`, weighted by Keys' cubic convolution of coefficient a."""
    low = op.Floor(at)
    t = op.Sub(at, low)
    rest = op.Sub(op.constant_like(at, 1), t)
    weights = [_outer(op, op.Add(t, 1.0), a), _inner(op, t, a), _inner(op, rest, a), _outer(op, op.Add(rest, 1.0), a)]
    return [Tap(op.Add(low, float(k - 1)), weight) for k, weight in enumerate(weights)]


def _inner(op: Builder, t: ir.Value, a: float) -> ir.Value:
    """((a + 2) t - (a + 3)) t^2 + 1, for a distance t up to 1"""
    return op.Add(op.Mul(op.Sub(op.Mul(t, a + 2), a + 3), op.Mul(t, t)), 1.0)


def _outer(op: Builder, t: ir.Value, a: float) -> ir.Value:
    """((a t - 5 a) t + 8 a) t - 4 a, for a distance t from 1 to 2"""
    inner = op.Add(op.Mul(op.Sub(op.Mul(t, a), 5 * a), t), 8 * a)
    return op.Sub(op.Mul(inner, t), 4 * a)


def inside(op: Builder, tap: Tap, length: ir.Value) -> Tap:
    """`tap` with weight 0 where its index lies outside of an axis."""
    last = op.Sub(length, 1.0)
    within = op.And(op.GreaterOrEqual(tap.index, 0.0), op.LessOrEqual(tap.index, last))
    weight = op.Cast(within, to=length.dtype) if tap.weight is None else op.Where(within, tap.weight, 0.0)
    return Tap(op.Clip(tap.index, op.constant_like(length, 0), last), weight)


def rows_of(op: Builder, x: ir.Value, groups: int = 1) -> ir.Value:
    """[N, C, spatial...] as [N groups positions, C / groups]: one row of channels for each position."""
    axes = list(range(2, rank(x)))
    if groups == 1:
        moved = op.Transpose(x, perm=[0, *axes, 1])
        return op.Reshape(moved, vector(op, -1, (x, 1)))
    split = op.Reshape(x, vector(op, (x, 0), groups, -1, *((x, axis) for axis in axes)))
    moved = op.Transpose(split, perm=[0, 1, *[axis + 1 for axis in axes], 2])
    return op.Reshape(moved, op.Concat([-1], op.Div(op.Shape(x, start=1, end=2), [groups]), axis=0))


def read(
    op: Builder, rows: ir.Value, first: ir.Value, sizes: Sequence[ir.Value], taps: Sequence[Sequence[Tap]]
) -> list[ir.Value]:
    """For each combination of neighbours: the rows of an image that they name, times their weights.

    first: the row of each image's first position (int64, broadcasts with the taps); sizes: spatial sizes (int64
    scalars); taps: for each axis its neighbours. Each result has the shape of the taps, and the channels behind.
    """
    indices = [[op.Cast(tap.index, to=ir.DataType.INT64) for tap in axis] for axis in taps]
    results = []
    for choice in product(*(range(len(axis)) for axis in taps)):
        row = indices[0][choice[0]]
        for axis, k in list(enumerate(choice))[1:]:
            row = op.Add(op.Mul(row, sizes[axis]), indices[axis][k])
        found = op.Gather(rows, op.Add(row, first), axis=0)
        weights = [weight for axis, k in enumerate(choice) if (weight := taps[axis][k].weight) is not None]
        if weights:
            found = op.Mul(found, op.Unsqueeze(reduce(op.Mul, weights), [-1]))
        results.append(found)
    return results


def total(op: Builder, values: Sequence[ir.Value]) -> ir.Value:
    """The sum of values of one shape."""
    return reduce(op.Add, values)


def grid_sample(op: Builder, x: ir.Value, grid: ir.Value, *, mode: str, padding: str, align_corners: bool) -> ir.Value:
    """GridSample by standard nodes: y[n, c, p] = x[n, c] read at grid[n, p], for p of any rank."""
    n = rank(x) - 2
    flat = op.Reshape(grid, vector(op, (grid, 0), -1, n))
    parts = op.node("Split", flat, outputs=n, axis=-1, num_outputs=n) if n > 1 else (flat,)
    taps = []
    for axis in range(n):
        length = length_like(op, x, 2 + axis, grid)
        at = _denormalized(op, op.Squeeze(parts[n - 1 - axis], [-1]), length, align_corners)
        low, high = _borders(op, length, align_corners)
        at = op.Round(at) if mode == "nearest" else at
        at = _brought_inside(op, at, length, low, high, padding)
        found = [Tap(at, None)] if mode == "nearest" else (cubic_taps if mode == "cubic" else linear_taps)(op, at)
        taps.append([_padded_tap(op, tap, length, low, high, padding) for tap in found])
    sizes = [size(op, x, 2 + axis) for axis in range(n)]
    first = op.Unsqueeze(op.Mul(op.Range(0, size(op, x, 0), 1), reduce(op.Mul, sizes)), [1])
    samples = total(op, read(op, rows_of(op, x), first, sizes, taps))
    shape = vector(op, (x, 0), (x, 1), *((grid, axis) for axis in range(1, 1 + n)))
    return op.Reshape(op.Transpose(samples, perm=[0, 2, 1]), shape)


def _denormalized(op: Builder, at: ir.Value, length: ir.Value, align_corners: bool) -> ir.Value:
    """[-1, 1] spread over the centres of the first and last element, or over their outer edges."""
    if align_corners:
        return op.Mul(op.Add(at, 1.0), op.Mul(op.Sub(length, 1.0), 0.5))
    return op.Mul(op.Sub(op.Mul(op.Add(at, 1.0), length), 1.0), 0.5)


def _borders(op: Builder, length: ir.Value, align_corners: bool) -> tuple[ir.Value, ir.Value]:
    edge = 0.0 if align_corners else 0.5
    return op.constant_like(length, -edge), op.Sub(length, 1.0 - edge)


def _brought_inside(
    op: Builder, at: ir.Value, length: ir.Value, low: ir.Value, high: ir.Value, padding: str
) -> ir.Value:
    if padding == "zeros":  # far outside all weights are 0, but the index must stay a number
        return op.Clip(at, op.constant_like(at, -4), op.Add(length, 4.0))
    outside = op.Or(op.Less(at, low), op.Greater(at, high))
    if padding == "border":
        return op.Where(outside, op.Clip(at, op.constant_like(at, 0), op.Sub(length, 1.0)), at)
    return op.Where(outside, _reflected(op, at, low, high), at)


def _reflected(op: Builder, at: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """`at` folded back at `low` and `high` until it lies between them."""
    span = op.Sub(high, low)
    span = op.Where(op.Equal(span, 0.0), op.constant_like(span, 1), span)
    distance = op.Abs(op.Sub(at, low))
    turns = op.Floor(op.Div(distance, span))
    rest = op.Sub(distance, op.Mul(turns, span))
    even = op.Equal(turns, op.Mul(op.Floor(op.Mul(turns, 0.5)), 2.0))
    return op.Where(even, op.Add(low, rest), op.Sub(high, rest))


def _padded_tap(op: Builder, tap: Tap, length: ir.Value, low: ir.Value, high: ir.Value, padding: str) -> Tap:
    if padding == "zeros":
        return inside(op, tap, length)
    index = _reflected(op, tap.index, low, high) if padding == "reflection" else tap.index
    return Tap(op.Clip(index, op.constant_like(length, 0), op.Sub(length, 1.0)), tap.weight)


def array_like(op: Builder, values: np.ndarray, like: ir.Value) -> ir.Value:
    """A constant of the dtype of `like`."""
    assert like.dtype is not None
    return op.constant(values.astype(like.dtype.numpy()))
