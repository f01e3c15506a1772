"""Rotary embeddings: pairs of elements turned by an angle that depends on the position."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient


@gradient("RotaryEmbedding", since=23)
def rotary_embedding(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = pairs of x turned: (cos x1 - sin x2, sin x1 + cos x2), cos and sin given by position"""

    def forward(op: Builder, x: ir.Value, cos: ir.Value, sin: ir.Value, places: ir.Value | None = None) -> ir.Value:
        if places is not None:
            cos, sin = op.Gather(cos, places), op.Gather(sin, places)
        return _rotated(op, node, x, cos, sin)

    return through(op, node, [dy], forward)


@gradient("RotaryEmbedding", domain="com.microsoft")
def contrib_rotary_embedding(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """As the standard's; the positions come second, [batch, sequence], or only the first of them, [1]"""

    def forward(op: Builder, x: ir.Value, places: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
        if rank(places) == 1:
            axis = 1 if rank(x) == 3 else 2
            steps = op.Range(0, op.Gather(op.shape_of(x), axis), 1)
            places = op.Unsqueeze(op.Add(steps, places), [0])
        return _rotated(op, node, x, op.Gather(cos, places), op.Gather(sin, places))

    return through(op, node, [dy], forward)


def _rotated(op: Builder, node: ir.Node, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
    """x[batch, sequence, heads * size] or x[batch, heads, sequence, size], turned; cos, sin[batch, sequence, half]."""
    known, heads_axis = node.attributes, 2 if rank(x) == 3 else 1
    cos, sin = op.Unsqueeze(cos, [heads_axis]), op.Unsqueeze(sin, [heads_axis])
    half = op.Shape(cos, start=3)
    shape = op.shape_of(x)
    split = x if rank(x) == 4 else op.Reshape(x, _by_heads(op, node, half))
    turned, rest = split, None
    if known.get_int("rotary_embedding_dim", 0):
        width = op.Mul(half, 2)
        sizes = op.Concat(width, op.Sub(op.Shape(split, start=3), width), axis=0)
        turned, rest = op.node("Split", split, sizes, outputs=2, axis=3)
    interleaved = known.get_int("interleaved", 0)
    if interleaved:  # pairs stand side by side: [..., half, 2]
        pairs = op.Reshape(turned, op.Concat([0, 0, 0], half, [2], axis=0))
        x1, x2 = (op.Squeeze(part, [4]) for part in op.node("Split", pairs, outputs=2, axis=4, num_outputs=2))
    else:
        x1, x2 = op.node("Split", turned, outputs=2, axis=3, num_outputs=2)
    real = op.Sub(op.Mul(cos, x1), op.Mul(sin, x2))
    imaginary = op.Add(op.Mul(sin, x1), op.Mul(cos, x2))
    if interleaved:
        joined = op.Concat(op.Unsqueeze(real, [4]), op.Unsqueeze(imaginary, [4]), axis=4)
        joined = op.Reshape(joined, op.Concat([0, 0, 0], op.Mul(half, 2), axis=0))
    else:
        joined = op.Concat(real, imaginary, axis=3)
    y = joined if rest is None else op.Concat(joined, rest, axis=3)
    return y if rank(x) == 4 else op.Reshape(y, shape)


def _by_heads(op: Builder, node: ir.Node, half: ir.Value) -> ir.Value:
    """The shape [batch, sequence, heads, size] of an input with all heads in its last axis."""
    count = node.attributes.get_int("num_heads", 0)
    return op.constant([0, 0, count, -1]) if count else op.Concat([0, 0, -1], op.Mul(half, 2), axis=0)
