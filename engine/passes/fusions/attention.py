"""Scaled dot-product attention that exporters write out -> Attention of the standard."""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.elements import ShapeValues
from onnxgrad.engine.passes.queries import (
    Array,
    broadcasts_into,
    constant_value,
    dim,
    dims,
    producer,
    rank,
    same_dim,
    scalar_value,
    single_reader,
)
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
_LOWEST = -1e4  # a row of a mask that is below this everywhere is computed otherwise by Attention: by a mean, or 0
_HEADS_SECOND = [0, 2, 1, 3]
_MASK_ELEMENTS = 1 << 20

Attributes = dict[str, int | float]


@dataclass(frozen=True)
class _Scores:
    """scale * q k^T + mask. k is `keys`, transposed by `order` first."""

    q: ir.Value
    keys: ir.Value
    order: list[int]
    scale: float
    mask: ir.Value | None


def _step(value: ir.Value, op_type: str, graph: ir.Graph | ir.Function | None) -> ir.Node | None:
    """The node of this operator that makes `value` for one reader only, in the same graph."""
    node = producer(value, op_type)
    return node if node is not None and node.graph is graph and single_reader(value) else None


def _unscaled(value: ir.Value, graph: ir.Graph | ir.Function | None) -> tuple[ir.Value, float]:
    """A value without the constant numbers that it is multiplied with, and their product."""
    scale = 1.0
    while True:
        node = _step(value, "Mul", graph) or _step(value, "Div", graph)
        if node is None or len(node.inputs) != 2:
            return value, scale
        a, b = node.inputs
        if node.op_type == "Mul" and scalar_value(a) is not None:
            a, b = b, a
        number = scalar_value(b)
        if a is None or b is None or number is None or number == 0 or (rank(b) or 0) > (rank(a) or 0):
            return value, scale
        value, scale = a, scale * number if node.op_type == "Mul" else scale / number


def _scores(value: ir.Value, graph: ir.Graph | ir.Function | None) -> _Scores | None:
    """What `value` is as the scores of attention."""
    mask: ir.Value | None = None
    added = _step(value, "Add", graph)
    if added is not None:
        a, b = added.inputs
        if a is None or b is None:
            return None
        value, mask = (b, a) if constant_value(a) is not None else (a, b)
    product, outer = _unscaled(value, graph)
    node = _step(product, "MatMul", graph)
    if node is None or node.inputs[0] is None or node.inputs[1] is None:
        return None
    q, of_q = _unscaled(node.inputs[0], graph)
    transposed, of_transposed = _unscaled(node.inputs[1], graph)
    swap = _step(transposed, "Transpose", graph)
    if swap is None or swap.inputs[0] is None or "perm" not in swap.attributes or swap.attributes["perm"].is_ref():
        return None
    keys, of_keys = _unscaled(swap.inputs[0], graph)
    perm = list(swap.attributes["perm"].as_ints())
    scale = outer * of_q * of_transposed * of_keys
    return _Scores(q, keys, [*perm[:-2], *reversed(perm[-2:])], scale, mask)


def _is_usable(found: _Scores, v: ir.Value) -> Match:
    q, k, values = dims(found.q), dims(found.keys), dims(v)
    if q is None or k is None or values is None or not len(q) == len(k) == len(values) == len(found.order) == 4:
        return Match.no("q, k and v are not all of four dimensions")
    same = all(same_dim(q[axis], k[found.order[axis]]) and same_dim(q[axis], values[axis]) for axis in (0, 1))
    return Match.all(
        Match.when(same, "the batches and heads of q, k and v are not certainly the same"),
        Match.when(math.isfinite(found.scale) and found.scale > 0, "the scale is not positive"),
        Match.when(found.mask is None or _mask(found, v) is not None, "the mask is not known, or hides whole rows"),
    )


def _mask(found: _Scores, v: ir.Value) -> Array | None:
    """The mask over whole queries and keys; None where it is no constant, or a row of it hides everything."""
    mask = constant_value(found.mask, _MASK_ELEMENTS)
    queries, keys = dim(found.q, 2), dim(v, 2)
    target = dims(found.q)
    if mask is None or queries is None or keys is None or target is None or found.mask is None:
        return None
    if not broadcasts_into(found.mask, (target[0], target[1], queries, keys)) or mask.ndim == 0 or mask.size == 0:
        return None
    whole = np.broadcast_to(mask, (*mask.shape[:-2], queries, keys))
    rows = whole.astype(np.float64).max(axis=-1)
    shown = whole.size <= max(mask.size, 1 << 12) and bool((rows > _LOWEST).all()) and bool(np.isfinite(rows).all())
    return whole if shown else None


class SoftmaxToAttention(Rewrite):
    """Softmax(scale * q k^T + mask) v -> Attention(q, k, v, mask); the mask is a constant that hides no whole row."""

    since = 23

    def pattern(self, op: Ops, scores: Leaf, v: Leaf, axis: Leaf) -> Pattern:
        return op.MatMul(op.Softmax(scores, axis=axis).named("weights"), v)

    def check(self, scores: ir.Value, weights: ir.Value, v: ir.Value, axis: int) -> Match:
        node = weights.producer()
        found = _scores(scores, node.graph if node is not None else None)
        if found is None:
            return Match.no("the scores are no product of q and a transposed k, scaled by numbers")
        is_last = v.dtype in _FLOATS and axis in (-1, 3)
        return Match.all(Match.when(is_last, "another axis or dtype"), _is_usable(found, v))

    def rewrite(self, op: Builder, scores: ir.Value, weights: ir.Value, v: ir.Value) -> ir.Value:
        node = weights.producer()
        found = _scores(scores, node.graph if node is not None else None)
        assert found is not None
        k = found.keys if found.order == [0, 1, 2, 3] else op.Transpose(found.keys, perm=found.order)
        mask = None if found.mask is None else _whole_mask(op, found, v)
        return op.Attention(found.q, k, v, mask, scale=found.scale)


def _whole_mask(op: Builder, found: _Scores, v: ir.Value) -> ir.Value:
    whole = _mask(found, v)
    assert whole is not None and found.mask is not None
    same = rank(found.mask) == whole.ndim and whole.shape == tuple(dims(found.mask) or ())
    return found.mask if same else op.constant(np.ascontiguousarray(whole))


def _heads(op: Ops, x: Leaf, shape: Leaf) -> Output:
    return op.Transpose(op.Reshape(x, shape, allowzero=0), perm=_HEADS_SECOND)


class HeadsIntoAttention(Rewrite):
    """Attention over heads that Reshape and Transpose make of [N, S, H * D], and unmake -> Attention over that."""

    since = 23

    def pattern(
        self, op: Ops, q: Leaf, k: Leaf, v: Leaf, mask: Leaf, q_shape: Leaf, k_shape: Leaf, v_shape: Leaf, kept: Leaf,
        shape: Leaf,
    ) -> Pattern:  # fmt: skip
        attention = op.Attention(
            _heads(op, q, q_shape).named("q_heads"),
            _heads(op, k, k_shape).named("k_heads"),
            _heads(op, v, v_shape).named("v_heads"),
            op.optional(mask),
            attributes=kept,
        )
        return op.Reshape(op.Transpose(attention, perm=_HEADS_SECOND), shape, allowzero=0)

    def check(
        self, q: ir.Value, k: ir.Value, v: ir.Value, q_heads: ir.Value, k_heads: ir.Value, v_heads: ir.Value,
        shape: ir.Value,
    ) -> Match:  # fmt: skip
        return Match.all(
            _splits(q, q_heads),
            _splits(k, k_heads),
            _splits(v, v_heads),
            dim(q_heads, 1) == dim(k_heads, 1) == dim(v_heads, 1),
            _joins(shape, q, v),
        )

    def rewrite(
        self, op: Builder, q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value | None, q_heads: ir.Value,
        kept: Attributes,
    ) -> ir.Value:  # fmt: skip
        heads = dim(q_heads, 1)
        return op.Attention(q, k, v, mask, **{**kept, "q_num_heads": heads, "kv_num_heads": heads})


def _splits(x: ir.Value, heads: ir.Value) -> bool:
    """Whether `heads` [N, H, S, D] is made of x [N, S, H * D] by splitting its last dimension."""
    whole, split = dims(x), dims(heads)
    if whole is None or split is None or len(whole) != 3 or len(split) != 4:
        return False
    count, size, both = split[1], split[3], whole[2]
    is_known = isinstance(count, int) and isinstance(size, int) and isinstance(both, int)
    return is_known and count * size == both and same_dim(whole[0], split[0]) and same_dim(whole[1], split[2])


def _joins(shape: ir.Value, q: ir.Value, v: ir.Value) -> bool:
    """Whether a Reshape of [N, S, H, D] to `shape` gives [N, S, H * D]."""
    target, queries, size = ShapeValues().of(shape), dims(q), dim(v, 2)
    if target is None or queries is None or len(target) != 3 or size is None:
        return False
    wanted = (queries[0], queries[1], size)
    same = [a is not None and same_dim(a, b) for a, b in zip(target, wanted, strict=True)]
    same = [
        known or (element == 0 and axis < 2) for axis, (known, element) in enumerate(zip(same, target, strict=True))
    ]
    return all(same) or (same.count(False) == 1 and target[same.index(False)] == -1)


RULES: tuple[Rewrite, ...] = (SoftmaxToAttention(), HeadsIntoAttention())
