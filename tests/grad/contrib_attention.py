"""Attention for onnx's reference evaluator: of com.microsoft, and what it computes in float32 whatever the inputs."""

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_rotary_embedding import rotary_embedding


class RotaryEmbedding(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, places, cos, sin, interleaved=None, num_heads=None, rotary_embedding_dim=None):
        if places.ndim == 1:
            places = np.tile(places + np.arange(x.shape[-2]), (x.shape[0], 1))
        count = num_heads or (x.shape[-1] // cos.shape[-1] // 2 if x.ndim == 3 else None)
        return (rotary_embedding(x, cos, sin, places, interleaved, rotary_embedding_dim, count),)


class MultiHeadAttention(OpRun):
    op_domain = "com.microsoft"

    def _run(
        self, query, key=None, value=None, bias=None, padding=None, added=None, past_k=None, past_v=None, **attributes
    ):
        count, scale = attributes["num_heads"], attributes.get("scale")
        heads = lambda x: x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2) if x.ndim == 3 else x  # noqa: E731
        if query.ndim == 5:
            q, k, v = (query[:, :, :, i].swapaxes(1, 2) for i in range(3))
        elif key.ndim == 5:
            q, k, v = heads(query), *(key[:, :, :, i].swapaxes(1, 2) for i in range(2))
        else:
            q, k, v = heads(query), heads(key), heads(value)
        if bias is not None:
            ends = np.cumsum([x.shape[1] * x.shape[3] for x in (q, k)])
            q, k, v = (x + b.reshape(count, 1, -1) for x, b in zip((q, k, v), np.split(bias, ends), strict=True))
        k = k if past_k is None else np.concatenate([past_k, k], 2)
        v = v if past_v is None else np.concatenate([past_v, v], 2)
        scores = q @ k.swapaxes(2, 3) * q.dtype.type(scale or 1 / np.sqrt(q.shape[3]))
        scores = scores if added is None else scores + added
        queries, keys = scores.shape[2:]
        if padding is not None:
            kept = np.arange(keys) < padding[:, None] if padding.ndim == 1 else padding > 0
            kept = kept[:, None, None] if kept.ndim == 2 else kept[:, None]
            scores = scores + np.where(kept, 0, attributes.get("mask_filter_value") or -10000).astype(scores.dtype)
        if attributes.get("unidirectional"):
            scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, scores.dtype.type(-6e4))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = scores / scores.sum(-1, keepdims=True) @ v
        y = y.swapaxes(1, 2).reshape(y.shape[0], queries, -1)
        return (y, k, v)[: len(self.onnx_node.output)]


class LinearAttention(OpRun):
    op_domain = ""

    def _run(self, q, k, v, state=None, decay=None, beta=None, q_num_heads=None, kv_num_heads=None, **_):
        heads = lambda x, count: x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)  # noqa: E731
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
        decay = None if decay is None else heads(decay, kv_num_heads)
        state, rows = state.copy(), []
        for t in range(q.shape[2]):
            state = state if decay is None else state * np.exp(decay[:, :, t, :, None])
            row = v[:, :, t]
            if beta is not None:
                row = beta[:, t, :, None] * (row - np.einsum("bhdm,bhd->bhm", state, k[:, :, t]))
            state = state + k[:, :, t, :, None] * row[:, :, None]
            read = np.repeat(state, q_num_heads // kv_num_heads, axis=1)
            rows.append(np.einsum("bhd,bhdm->bhm", q[:, :, t], read) / q.dtype.type(np.sqrt(q.shape[3])))
        y = np.stack(rows, 1)
        return (y.reshape(*y.shape[:2], -1), state)[: len(self.onnx_node.output)]


class CausalConvWithState(OpRun):
    op_domain = ""

    def _run(self, x, w, bias=None, state=None, activation=None):
        width = w.shape[2]
        state = np.zeros((*x.shape[:2], width - 1), x.dtype) if state is None else state
        padded = np.concatenate([state, x], 2)
        y = sum(padded[:, :, i : i + x.shape[2]] * w[:, 0, i, None] for i in range(width))
        y = y if bias is None else y + bias[:, None]
        y = y / (1 + np.exp(-y)) if activation == "silu" else y
        return (y, padded[:, :, x.shape[2] :])[: len(self.onnx_node.output)]


ATTENTION = [RotaryEmbedding, MultiHeadAttention, LinearAttention, CausalConvWithState]
