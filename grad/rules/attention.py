"""Attention: softmax(q k^T) v in all its variants. The backward pass computes the scores again."""

import math

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

_FINITE = {ir.DataType.FLOAT16: -6e4}  # a score that softmax makes 0; -inf would make a row without keys NaN


@gradient("Attention", since=23)
def attention(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """y = softmax(softcap(scale q k^T) + mask) v, by heads, with keys and values put behind those of the past"""
    known = node.attributes
    cap, mode = known.get_float("softcap", 0.0), known.get_int("qk_matmul_output_mode", 0)

    def forward(op: Builder, q: ir.Value, k: ir.Value, v: ir.Value, *others: ir.Value | None) -> tuple[ir.Value, ...]:
        mask, past_k, past_v, lengths = [*others, None, None, None, None][:4]
        flat = rank(q) == 3
        if flat:
            q = _heads(op, q, known.get_int("q_num_heads"))
            k, v = (_heads(op, x, known.get_int("kv_num_heads")) for x in (k, v))
        present_k = k if past_k is None else op.Concat(past_k, k, axis=2)
        present_v = v if past_v is None else op.Concat(past_v, v, axis=2)
        raw = _scores(op, q, present_k, known.get_float("scale", None))
        capped = (
            raw if cap == 0 else op.Mul(op.Tanh(op.Div(raw, op.constant_like(raw, cap))), op.constant_like(raw, cap))
        )
        bias, allowed = _mask(op, mask, raw)
        allowed = _both(op, allowed, _places(op, node, raw, past_k, lengths))
        biased = capped if bias is None else op.Add(capped, bias)
        chances = _softmax(op, biased, allowed, known.get_int("softmax_precision", None))
        y = _weighted(op, chances, present_v)
        y = _flat(op, y) if flat else y
        return y, present_k, present_v, (raw, capped, biased, chances)[mode]

    return through(op, node, dys, forward)


def _heads(op: Builder, x: ir.Value, count: int) -> ir.Value:
    """[batch, sequence, heads * size] -> [batch, heads, sequence, size]."""
    width = None if x.shape is None else x.shape[2]
    size = width // count if isinstance(width, int) else -1
    return op.Transpose(op.Reshape(x, [0, 0, count, size]), perm=[0, 2, 1, 3])


def _flat(op: Builder, y: ir.Value) -> ir.Value:
    """[batch, heads, sequence, size] -> [batch, sequence, heads * size]."""
    shape = op.shape_of(y)
    width = op.Mul(op.Slice(shape, [1], [2]), op.Slice(shape, [3], [4]))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), op.Concat([0, 0], width, axis=0))


def _scores(op: Builder, q: ir.Value, k: ir.Value, scale: float | None) -> ir.Value:
    """scale q k^T, [batch, heads, queries, keys]; scale is 1 / sqrt(size of a head) by default."""
    size = None if q.shape is None else q.shape[3]
    if scale is not None:
        factor = op.constant_like(q, scale)
    elif isinstance(size, int):
        factor = op.constant_like(q, 1 / math.sqrt(size))
    else:
        factor = op.Reciprocal(op.Sqrt(op.Cast(op.Gather(op.Shape(q), 3), to=q.dtype)))
    q = op.Mul(q, factor)
    if _same_heads(q, k):
        return op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2]))
    scores = op.MatMul(_grouped(op, q, k), op.Transpose(op.Unsqueeze(k, [2]), perm=[0, 1, 2, 4, 3]))
    return op.Reshape(scores, op.Concat(op.Shape(q, end=3), op.Shape(k, start=2, end=3), axis=0))


def _weighted(op: Builder, chances: ir.Value, v: ir.Value) -> ir.Value:
    """The mean of v by `chances`, [batch, heads, queries, size of a value]."""
    if _same_heads(chances, v):
        return op.MatMul(chances, v)
    y = op.MatMul(_grouped(op, chances, v), op.Unsqueeze(v, [2]))
    return op.Reshape(y, op.Concat(op.Shape(chances, end=3), op.Shape(v, start=3), axis=0))


def _same_heads(q: ir.Value, k: ir.Value) -> bool:
    return q.shape is not None and k.shape is not None and q.shape[1] == k.shape[1] and str(q.shape[1]) != "None"


def _grouped(op: Builder, q: ir.Value, k: ir.Value) -> ir.Value:
    """The heads of q in groups that share a head of k: [batch, heads of k, heads in a group, ...]."""
    shape, heads = op.Shape(q), op.Shape(k, start=1, end=2)
    group = op.Div(op.Slice(shape, [1], [2]), heads)
    return op.Reshape(q, op.Concat([0], heads, group, op.Slice(shape, [2], [4]), axis=0))


def _mask(op: Builder, mask: ir.Value | None, scores: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
    """What a mask adds to the scores, and where it allows keys. One that is too short allows none of the last keys."""
    if mask is None:
        return None, None
    bias, allowed = None, mask
    if mask.dtype != ir.DataType.BOOL:
        allowed = op.Not(op.Equal(mask, op.constant_like(mask, -math.inf)))
        bias = op.Where(allowed, mask, op.constant_like(mask, 0))
    given, keys = (None if v.shape is None else v.shape[-1] for v in (mask, scores))
    if given == keys or op.opset < 24:
        return bias, allowed
    missing = op.Sub(op.Shape(scores, start=3), op.Shape(mask, start=rank(mask) - 1))
    pads = op.Concat([0], missing, axis=0)
    bias = None if bias is None else op.Pad(bias, pads, None, [rank(mask) - 1])
    return bias, op.Pad(allowed, pads, np.array(False), [rank(mask) - 1])


def _places(
    op: Builder, node: ir.Node, scores: ir.Value, past: ir.Value | None, lengths: ir.Value | None
) -> ir.Value | None:
    """Where keys are allowed by their places: not in the future, within the window, not padding. None: everywhere."""
    known = node.attributes
    left, right = known.get_int("left_window_size", -1), known.get_int("right_window_size", -1)
    allowed: ir.Value | None = None
    key = op.Range(0, op.Gather(op.Shape(scores), 3), 1)
    counts = None if lengths is None else op.Unsqueeze(lengths, [1, 2, 3])
    if counts is not None:
        allowed = op.Less(key, counts)
    if not known.get_int("is_causal", 0) and left < 0 and right < 0:
        return allowed
    queries = op.Gather(op.Shape(scores), 2)
    query = op.Unsqueeze(op.Range(0, queries, 1), [1])
    if past is not None:
        query = op.Add(query, op.Gather(op.Shape(past), 2))
    elif counts is not None:
        query = op.Add(query, op.Sub(counts, queries))
    if known.get_int("is_causal", 0):
        allowed = _both(op, allowed, op.LessOrEqual(key, query))
    if left >= 0:
        allowed = _both(op, allowed, op.GreaterOrEqual(key, op.Sub(query, left)))
    if right >= 0:
        allowed = _both(op, allowed, op.LessOrEqual(key, op.Add(query, right)))
    return allowed


def _both(op: Builder, one: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
    if one is None or other is None:
        return other if one is None else one
    return op.And(one, other)


def _softmax(op: Builder, scores: ir.Value, allowed: ir.Value | None, precision: int | None) -> ir.Value:
    """softmax over the keys that are allowed; 0 for the others, also where a row has none."""
    if allowed is not None:
        assert scores.dtype is not None
        scores = op.Where(allowed, scores, op.constant_like(scores, _FINITE.get(scores.dtype, -1e30)))
    other = precision not in (None, 0, scores.dtype)
    chances = op.Softmax(op.Cast(scores, to=precision) if other else scores, axis=-1)
    chances = op.Cast(chances, to=scores.dtype) if other else chances
    return chances if allowed is None else op.Where(allowed, chances, op.constant_like(chances, 0))


@gradient("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(op: GradientBuilder, node: ir.Node, *dys: ir.Value | None) -> Grads:
    """y = softmax(scale q k^T + bias + masks) v, by heads; q, k and v together or apart, with biases of their own"""
    known = node.attributes
    count, scale = known.get_int("num_heads"), known.get_float("scale", None) or None

    def forward(op: Builder, query: ir.Value, *others: ir.Value | None) -> tuple[ir.Value, ...]:
        key, value, bias, padding, added, past_k, past_v = [*others, *[None] * 7][:7]
        q, k, v = _projected(op, query, key, value, bias, count)
        present_k = k if past_k is None else op.Concat(past_k, k, axis=2)
        present_v = v if past_v is None else op.Concat(past_v, v, axis=2)
        scores = _scores(op, q, present_k, scale)
        biased = scores if added is None else op.Add(scores, added)
        if padding is not None:
            filler = op.constant_like(scores, known.get_float("mask_filter_value", -10000.0))
            kept = _not_padding(op, padding, scores)
            biased = op.Add(biased, op.Where(kept, op.constant_like(scores, 0), filler))
        allowed = None
        if known.get_int("unidirectional", 0):
            keys, queries = op.Gather(op.Shape(scores), 3), op.Gather(op.Shape(scores), 2)
            last = op.Add(op.Range(0, queries, 1), op.Sub(keys, queries))
            allowed = op.LessOrEqual(op.Range(0, keys, 1), op.Unsqueeze(last, [1]))
        y = _weighted(op, _softmax(op, biased, allowed, None), present_v)
        return _flat(op, y), present_k, present_v, scores

    return through(op, node, dys, forward)


def _projected(
    op: Builder, query: ir.Value, key: ir.Value | None, value: ir.Value | None, bias: ir.Value | None, count: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """q, k and v by heads, [batch, heads, sequence, size], from all the layouts that MultiHeadAttention takes."""
    biases: list[ir.Value | None] = [None, None, None]
    if rank(query) == 5:  # [batch, sequence, heads, 3, size]
        parts = [op.Transpose(op.Gather(query, i, axis=3), perm=[0, 2, 1, 3]) for i in range(3)]
    elif key is not None and rank(key) == 5:  # [batch, sequence, heads, 2, size]
        pair = [op.Transpose(op.Gather(key, i, axis=3), perm=[0, 2, 1, 3]) for i in range(2)]
        parts = [_heads(op, query, count), *pair]
    else:
        assert key is not None and value is not None
        parts = [_heads(op, x, count) if rank(x) == 3 else x for x in (query, key, value)]
    if bias is not None:
        widths = [op.Mul(op.Shape(x, start=1, end=2), op.Shape(x, start=3)) for x in parts]
        biases = list(op.node("Split", bias, op.Concat(*widths, axis=0), outputs=3, axis=0))
    q, k, v = (
        x if b is None else op.Add(x, op.Unsqueeze(op.Reshape(b, [count, -1]), [1]))
        for x, b in zip(parts, biases, strict=True)
    )
    return q, k, v


def _not_padding(op: Builder, padding: ir.Value, scores: ir.Value) -> ir.Value:
    """Which keys are real: padding holds lengths [batch], or ones for keys [batch, keys] or [batch, queries, keys]."""
    size = rank(padding)
    if size == 1:
        key = op.Cast(op.Range(0, op.Gather(op.Shape(scores), 3), 1), to=padding.dtype)
        return op.Less(key, op.Unsqueeze(padding, [1, 2, 3]))
    kept = op.Greater(padding, op.constant_like(padding, 0))
    return op.Unsqueeze(kept, [1, 2] if size == 2 else [1])
