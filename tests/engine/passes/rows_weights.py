"""Rows about what weights take up, and what becomes one product."""

import numpy as np

from tests.engine.passes.checks import f32, i64
from tests.engine.passes.rewrite_rows import Row, probe

_RANDOM = np.random.default_rng(0)


def _normal(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


STATISTICS = {**{name: np.abs(_normal(4)) + 0.5 for name in "sv"}, **{name: _normal(4) for name in "tm"}}
CONV = {"w": _normal(4, 3, 3, 3)}
NORMAL = "BatchNormalization(h, s, t, m, v)"
IMAGE = "float[1, 3, 5, 5] x"
MATRIX, W, B = "float[5, 3] x", _normal(3, 4), _normal(4)
CUBE = "float[2, 5, 3] x"
CHANNEL = _normal(4, 1, 1)
POWERS = {
    **{"s": np.float32(0.5), "z": np.array(3, np.uint8), "t": np.float32(0.25), "o": np.array(0, np.int8)},
    **{"u": np.float32(4), "p": np.array(1, np.uint8)},
}
SIGNED = _RANDOM.integers(-64, 64, (4, 5)).astype(np.int8)
QUANTIZED = "a = DequantizeLinear(x, s, z) b = DequantizeLinear(w, t, o) h = MatMul(a, b) y = QuantizeLinear(h, u, p)"

ROWS = (
    Row(
        "Conv+BN",
        probe(f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = {NORMAL} }}", "Conv", **CONV, **STATISTICS),
        {
            "extra reader": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y, float[1, 4, 3, 3] z) "
                f"{{ h = Conv(x, w) y = {NORMAL} z = Relu(h) }}",
                "BatchNormalization Conv Relu",
                **CONV,
                **STATISTICS,
            ),
            "graph output": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y, float[1, 4, 3, 3] h) {{ h = Conv(x, w) y = {NORMAL} }}",
                "BatchNormalization Conv",
                **CONV,
                **STATISTICS,
            ),
            "statistics that are not known": probe(
                f"g ({IMAGE}, float[4] m) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = {NORMAL} }}",
                "BatchNormalization Conv",
                **CONV,
                **{name: STATISTICS[name] for name in "stv"},
            ),
        },
    ),
    Row(
        "ConvTranspose+BN",
        probe(
            f"g (float[1, 4, 4, 4] x) => (float[1, 4, 5, 5] y) {{ h = ConvTranspose<group=2>(x, w) y = {NORMAL} }}",
            "ConvTranspose",
            w=_normal(4, 2, 2, 2),
            **STATISTICS,
        ),
        {
            "graph output": probe(
                "g (float[1, 4, 4, 4] x) => (float[1, 4, 5, 5] y, float[1, 4, 5, 5] h) "
                f"{{ h = ConvTranspose<group=2>(x, w) y = {NORMAL} }}",
                "BatchNormalization ConvTranspose",
                w=_normal(4, 2, 2, 2),
                **STATISTICS,
            ),
            "weights that are not known": probe(
                f"g (float[1, 4, 4, 4] x, float[4, 4, 2, 2] w) => (float[1, 4, 5, 5] y) "
                f"{{ h = ConvTranspose(x, w) y = {NORMAL} }}",
                "BatchNormalization ConvTranspose",
                **STATISTICS,
            ),
        },
    ),
    Row(
        "Gemm+BN",
        probe(f"g ({MATRIX}) => (float[5, 4] y) {{ h = Gemm(x, w, b) y = {NORMAL} }}", "Gemm", w=W, b=B, **STATISTICS),
        {
            "extra reader": probe(
                f"g ({MATRIX}) => (float[5, 4] y, float[5, 4] z) {{ h = Gemm(x, w, b) y = {NORMAL} z = Exp(h) }}",
                "BatchNormalization Exp Gemm",
                w=W,
                b=B,
                **STATISTICS,
            ),
            "overridable": probe(
                f"g ({MATRIX}, float[3, 4] w) => (float[5, 4] y) {{ h = Gemm(x, w, b) y = {NORMAL} }}",
                "BatchNormalization Gemm",
                w=W,
                b=B,
                **STATISTICS,
            ),
        },
    ),
    Row(
        "MatMul+BN",
        probe(f"g ({MATRIX}) => (float[5, 4] y) {{ h = MatMul(x, w) y = {NORMAL} }}", "Gemm", w=W, **STATISTICS),
        {
            "wrong shape": probe(
                f"g (float[2, 4, 3] x) => (float[2, 4, 4] y) {{ h = MatMul(x, w) y = {NORMAL} }}",
                "BatchNormalization MatMul",
                w=W,
                **STATISTICS,
            ),
            "graph output": probe(
                f"g ({MATRIX}) => (float[5, 4] y, float[5, 4] h) {{ h = MatMul(x, w) y = {NORMAL} }}",
                "BatchNormalization MatMul",
                w=W,
                **STATISTICS,
            ),
        },
    ),
    Row(
        "Conv+Add const (bias)",
        probe(f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = Add(h, c) }}", "Conv", c=CHANNEL, **CONV),
        {
            "wrong shape": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = Add(h, c) }}",
                "Add Conv",
                c=f32(1, 2, 3),
                **CONV,
            ),
            "extra reader": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y, float[1, 4, 3, 3] z) "
                "{ h = Conv(x, w) y = Add(h, c) z = Exp(h) }",
                "Add Conv Exp",
                c=CHANNEL,
                **CONV,
            ),
            "a whole image": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = Add(h, c) }}",
                "Add Conv",
                c=_normal(1, 4, 3, 3),
                **CONV,
            ),
        },
    ),
    Row(
        "Conv+Mul const",
        probe(f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = Mul(h, c) }}", "Conv", c=CHANNEL, **CONV),
        {
            "wrong shape": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y) {{ h = Conv(x, w) y = Mul(h, c) }}",
                "Conv Mul",
                c=f32(1, 2, 3),
                **CONV,
            ),
            "graph output": probe(
                f"g ({IMAGE}) => (float[1, 4, 3, 3] y, float[1, 4, 3, 3] h) {{ h = Conv(x, w) y = Mul(h, c) }}",
                "Conv Mul",
                c=CHANNEL,
                **CONV,
            ),
        },
    ),
    Row(
        "MatMul+Add->Gemm (2D)",
        probe(
            f"g ({MATRIX}, float[3, 4] w, float[4] b) => (float[5, 4] y) {{ h = MatMul(x, w) y = Add(b, h) }}", "Gemm"
        ),
        {
            "wrong shape": probe(
                "g (float[5, 3] x, float[3, 1] w, float[1, 4] b) => (float[5, 4] y) { h = MatMul(x, w) y = Add(h, b) }",
                "Add MatMul",
            ),
            "extra reader": probe(
                f"g ({MATRIX}, float[3, 4] w, float[4] b) => (float[5, 4] y, float[5, 4] z) "
                "{ h = MatMul(x, w) y = Add(h, b) z = Exp(h) }",
                "Add Exp MatMul",
            ),
            "graph output": probe(
                f"g ({MATRIX}, float[3, 4] w, float[4] b) => (float[5, 4] y, float[5, 4] h) "
                "{ h = MatMul(x, w) y = Add(h, b) }",
                "Add MatMul",
            ),
        },
    ),
    Row(
        "MatMul+Add->Gemm (3D)",
        probe(
            "g (float[10, 3] x, float[3, 4] w, float[4] b) => (float[10, 4] y) "
            "{ a = Reshape(x, s) h = MatMul(a, w) k = Add(h, b) r = Relu(k) y = Reshape(r, q) }",
            "Gemm Relu",
            s=i64(2, 5, 3),
            q=i64(10, 4),
        ),
        {
            "nothing reshapes": probe(
                f"g ({CUBE}, float[3, 4] w, float[4] b) => (float[2, 5, 4] y) {{ h = MatMul(x, w) y = Add(h, b) }}",
                "Add MatMul",
            ),
            "a bias for each row": probe(
                "g (float[10, 3] x, float[3, 4] w, float[5, 1] b) => (float[2, 5, 4] y) "
                "{ a = Reshape(x, s) h = MatMul(a, w) y = Add(h, b) }",
                "Add MatMul Reshape",
                s=i64(2, 5, 3),
            ),
            "rows are cut": probe(
                "g (float[5, 6] x, float[3, 4] w, float[4] b) => (float[2, 5, 4] y) "
                "{ a = Reshape(x, s) h = MatMul(a, w) y = Add(h, b) }",
                "Add MatMul Reshape",
                s=i64(2, 5, 3),
            ),
            "two sizes are not known": probe(
                "g (float[N, 3] x, float[3, 4] w, float[4] b, float[P, Q, 3] u) => (float[c, d, e] y) "
                "{ s = Shape(u) z = Reshape(x, s) h = MatMul(z, w) y = Add(h, b) }",
                "Add MatMul Reshape Shape",
            ),
        },
    ),
    Row(
        "Transpose into Gemm",
        probe(
            "g (float[3, 5] x, float[4, 3] z, float[4] b) => (float[5, 4] y) "
            "{ p = Transpose(x) q = Transpose<perm=[1, 0]>(z) y = Gemm(p, q, b) }",
            "Gemm",
        ),
        {
            "wrong attribute": probe(
                f"g ({MATRIX}, float[3, 4] z, float[4] b) => (float[5, 4] y) "
                "{ p = Transpose<perm=[0, 1]>(x) y = Gemm(p, z, b) }",
                "Gemm",
            ),
            "graph output": probe(
                "g (float[3, 5] x, float[3, 4] z, float[4] b) => (float[5, 4] y, float[5, 3] p) "
                "{ p = Transpose(x) y = Gemm(p, z, b) }",
                "Gemm Transpose",
            ),
        },
    ),
    Row(
        "MatMul+const scale fold",
        probe(f"g ({CUBE}) => (float[2, 5, 4] y) {{ h = MatMul(x, w) y = Mul(h, c) }}", "MatMul", w=W, c=np.float32(3)),
        {
            "wrong shape": probe(
                f"g ({CUBE}) => (float[2, 5, 4] y) {{ h = MatMul(x, w) y = Mul(h, c) }}",
                "MatMul Mul",
                w=W,
                c=_normal(5, 1),
            ),
            "extra reader": probe(
                f"g ({CUBE}) => (float[2, 5, 4] y, float[2, 5, 4] z) {{ h = MatMul(x, w) y = Mul(h, c) z = Exp(h) }}",
                "Exp MatMul Mul",
                w=W,
                c=np.float32(3),
            ),
            "infinity": probe(
                f"g ({CUBE}) => (float[2, 5, 4] y) {{ h = MatMul(x, w) y = Mul(h, c) }}",
                "MatMul Mul",
                w=W,
                c=np.float32(np.inf),
            ),
        },
    ),
    Row(
        "MatMul+Transpose->FusedMatMul",
        probe(f"g ({MATRIX}, float[4, 3] z) => (float[5, 4] y) {{ q = Transpose(z) y = MatMul(x, q) }}", "Gemm"),
        {
            "wrong shape": probe(
                f"g ({CUBE}, float[2, 4, 3] z) => (float[2, 5, 4] y) "
                "{ q = Transpose<perm=[0, 2, 1]>(z) y = MatMul(x, q) }",
                "MatMul Transpose",
            ),
            "a dtype that Gemm does not take": probe(
                "g (int32[5, 3] x, int32[4, 3] z) => (int32[5, 4] y) { q = Transpose(z) y = MatMul(x, q) }",
                "MatMul Transpose",
            ),
        },
    ),
    Row(
        "Q->DQ same-scale pair removal",
        probe(
            "g (int8[2, 3] x) => (int8[2, 3] y) "
            "{ a = DequantizeLinear(x, s, z) b = QuantizeLinear(a, s, z) y = Neg(b) }",
            "Neg",
            s=np.float32(0.1),
            z=np.array(3, np.int8),
        ),
        {
            "another scale": probe(
                "g (int8[2, 3] x) => (int8[2, 3] y) { a = DequantizeLinear(x, s, z) y = QuantizeLinear(a, t, z) }",
                "DequantizeLinear QuantizeLinear",
                s=np.float32(0.1),
                t=np.float32(0.3),
                z=np.array(3, np.int8),
            ),
            "the other way round it rounds": probe(
                "g (float[2, 3] x) => (float[2, 3] y) { a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z) }",
                "DequantizeLinear QuantizeLinear",
                s=np.float32(0.1),
                z=np.array(3, np.int8),
            ),
        },
    ),
    Row(
        "DQ+MatMul+Q -> QLinearMatMul",
        probe(f"g (uint8[N, 4] x) => (uint8[N, 5] y) {{ {QUANTIZED} }}", "QLinearMatMul", w=SIGNED, **POWERS),
        {
            "a scale that is no power of two": probe(
                f"g (uint8[N, 4] x) => (uint8[N, 5] y) {{ {QUANTIZED} }}",
                "DequantizeLinear DequantizeLinear MatMul QuantizeLinear",
                w=SIGNED,
                **{**POWERS, "u": np.float32(3)},
            ),
            "weights that overflow in pairs": probe(
                f"g (uint8[N, 4] x) => (uint8[N, 5] y) {{ {QUANTIZED} }}",
                "DequantizeLinear DequantizeLinear MatMul QuantizeLinear",
                w=2 * SIGNED.clip(-60, 60),
                **POWERS,
            ),
            "graph output": probe(
                f"g (uint8[N, 4] x) => (uint8[N, 5] y, float[N, 5] h) {{ {QUANTIZED} }}",
                "DequantizeLinear DequantizeLinear MatMul QuantizeLinear",
                w=SIGNED,
                **POWERS,
            ),
        },
    ),
)
