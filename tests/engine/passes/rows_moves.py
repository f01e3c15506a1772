"""Rows about what moves, cuts, joins and clamps: two of a kind become one."""

import numpy as np

from tests.engine.passes.checks import f32, i64
from tests.engine.passes.rewrite_rows import Row, probe

X = "float[2, 3, 4] x"
PADS = {"p": i64(0, 0, 1, 1, 0, 0, 1, 1), "w": np.ones((4, 3, 3, 3), np.float32)}
LIMITS = {"a": np.float32(-1), "b": np.float32(6), "c": np.float32(0), "d": np.float32(3)}

ROWS = (
    Row(
        "transpose pair cancel/merge",
        probe(
            f"g ({X}) => (float[4, 3, 2] y) {{ a = Transpose<perm=[1, 0, 2]>(x) b = Transpose<perm=[1, 2, 0]>(a) "
            "c = Exp(b) d = Transpose(c) e = Transpose(d) f = Neg(e) y = Transpose<perm=[1, 2, 0]>(f) }",
            "Exp Neg Transpose",
        ),
        {
            "extra reader": probe(
                f"g ({X}) => (float[2, 3, 4] y, float[2, 3, 4] z) "
                "{ a = Transpose<perm=[0, 2, 1]>(x) b = Softmax<axis=0>(a) y = Transpose<perm=[0, 2, 1]>(b) "
                "z = Reshape(b, s) }",
                "Reshape Softmax Transpose",
                s=i64(2, 3, 4),
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 3, 4] y, float[2, 4, 3] a) "
                "{ a = Transpose<perm=[0, 2, 1]>(x) b = Transpose<perm=[0, 2, 1]>(a) y = Exp(b) }",
                "Exp Transpose",
            ),
        },
    ),
    Row(
        "transpose push through Relu",
        probe(
            f"g ({X}) => (float[2, 3, 4] y) "
            "{ a = Transpose<perm=[0, 2, 1]>(x) b = Relu(a) y = Transpose<perm=[0, 2, 1]>(b) }",
            "Relu",
        ),
        {
            "graph output": probe(
                f"g ({X}) => (float[2, 3, 4] y, float[2, 4, 3] b) "
                "{ a = Transpose<perm=[0, 2, 1]>(x) b = Relu(a) y = Transpose<perm=[0, 2, 1]>(b) }",
                "Relu Transpose",
            ),
            "wrong attribute": probe(
                f"g ({X}) => (float[3, 4, 2] y) "
                "{ a = Transpose<perm=[2, 1, 0]>(x) b = Relu(a) y = Transpose<perm=[1, 0, 2]>(b) }",
                "Relu Transpose",
            ),
            "the order matters": probe(
                f"g ({X}) => (float[2, 3, 4] y) {{ a = Transpose<perm=[0, 2, 1]>(x) b = Reshape(a, s) c = Softmax(b) "
                "d = Reshape(c, t) y = Transpose<perm=[0, 2, 1]>(d) }",
                "Reshape Reshape Softmax Transpose Transpose",
                s=i64(4, 6),
                t=i64(2, 4, 3),
            ),
        },
    ),
    Row(
        "Reshape+Reshape fuse",
        probe(
            f"g ({X}) => (float[4, 6] y) {{ a = Reshape(x, s) y = Reshape(a, t) }}", "Reshape", s=i64(6, 4), t=i64(4, 6)
        ),
        {
            "graph output": probe(
                f"g ({X}) => (float[4, 6] y, float[6, 4] a) {{ a = Reshape(x, s) y = Reshape(a, t) }}",
                "Reshape Reshape",
                s=i64(6, 4),
                t=i64(4, 6),
            ),
            "0 copies from the inner one": probe(
                "g (float[A, B, C] x) => (float[a, b, c] y) { r = Reshape(x, s) y = Reshape(r, t) }",
                "Reshape Reshape",
                s=i64(-1, 2),
                t=i64(0, 1, 2),
            ),
        },
    ),
    Row(
        "Flatten cancel",
        probe(
            "g (float[2, 12] x) => (float[2, 12] y) { a = Reshape(x, s) b = Flatten(a) y = Relu(b) }",
            "Relu",
            s=i64(2, 3, 4),
        ),
        {
            "wrong attribute": probe(
                "g (float[2, 12] x) => (float[6, 4] y) { a = Reshape(x, s) b = Flatten<axis=2>(a) y = Exp(b) }",
                "Exp Reshape",
                s=i64(2, 3, 4),
            ),
            "graph output": probe(
                "g (float[2, 12] x) => (float[2, 12] y, float[2, 3, 4] a) "
                "{ a = Reshape(x, s) b = Flatten(a) y = Exp(b) }",
                "Exp Reshape",
                s=i64(2, 3, 4),
            ),
        },
    ),
    Row(
        "Squeeze/Unsqueeze cancel",
        probe(
            "g (float[N, M] x) => (float[N, M] y) { a = Unsqueeze(x, ax) b = Squeeze(a, ax) y = Relu(b) }",
            "Relu",
            ax=i64(1),
        ),
        {
            "another axis": probe(
                "g (float[1, M] x) => (float[M, 1] y) { a = Unsqueeze(x, one) b = Squeeze(a, ax) c = Exp(b) "
                "y = Unsqueeze(c, two) }",
                "Exp Reshape Unsqueeze",
                ax=i64(0, 1),
                one=i64(1),
                two=i64(1),
            ),
            "extra reader": probe(
                "g (float[N, M] x) => (float[N, M] y, float[N, 1, M] z) "
                "{ a = Unsqueeze(x, ax) b = Squeeze(a, ax) y = Exp(b) z = Softmax<axis=0>(a) }",
                "Exp Softmax Unsqueeze",
                ax=i64(1),
            ),
        },
    ),
    Row(
        "Slice+Slice merge",
        probe(
            "g (float[10, 4] x) => (float[a, b] y) { s = Slice(x, one, nine, zero) y = Slice(s, one, three, one) }",
            "Slice",
            one=i64(1),
            nine=i64(9),
            zero=i64(0),
            three=i64(3),
        ),
        {
            "extra reader": probe(
                "g (float[10, 4] x) => (float[a, b] y, float[a, 4] z) "
                "{ s = Slice(x, one, nine, zero) y = Slice(s, one, three, one) z = Exp(s) }",
                "Exp Slice Slice",
                one=i64(1),
                nine=i64(9),
                zero=i64(0),
                three=i64(3),
            ),
            "bounds that are not known": probe(
                "g (float[10, 4] x, int64[1] n) => (float[a, b] y) "
                "{ s = Slice(x, one, n, zero) y = Slice(s, one, n, zero) }",
                "Slice Slice",
                one=i64(1),
                zero=i64(0),
            ),
        },
    ),
    Row(
        "Concat nested merge",
        probe(
            "g (float[2, 3] x, float[2, 3] z) => (float[2, 9] y) { a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, z) }",
            "Concat",
        ),
        {
            "wrong attribute": probe(
                "g (float[2, 3] x, float[2, 3] z) => (float[6, 6] y) "
                "{ a = Concat<axis=1>(x, z) b = Exp(a) y = Concat<axis=0>(a, b, a) }",
                "Concat Concat Exp",
            ),
            "extra reader": probe(
                "g (float[2, 3] x, float[2, 3] z) => (float[2, 9] y, float[2, 6] a) "
                "{ a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, z) }",
                "Concat Concat",
            ),
        },
    ),
    Row(
        "Reduce+Unsqueeze->keepdims",
        probe(
            f"g ({X}) => (float[2, 1, 4] y) {{ r = ReduceMean<keepdims=0>(x, ax) y = Unsqueeze(r, ax) }}",
            "ReduceMean",
            ax=i64(1),
        ),
        {
            "another axis": probe(
                f"g ({X}) => (float[1, 2, 4] y) {{ r = ReduceMean<keepdims=0>(x, ax) y = Unsqueeze(r, zero) }}",
                "ReduceMean Unsqueeze",
                ax=i64(1),
                zero=i64(0),
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 1, 4] y, float[2, 4] r) "
                "{ r = ReduceMean<keepdims=0>(x, ax) y = Unsqueeze(r, ax) }",
                "ReduceMean Unsqueeze",
                ax=i64(1),
            ),
        },
    ),
    Row(
        "Pad+Conv",
        probe("g (float[1, 3, 5, 5] x) => (float[1, 4, 5, 5] y) { a = Pad(x, p) y = Conv(a, w) }", "Conv", **PADS),
        {
            "another number": probe(
                "g (float[1, 3, 5, 5] x) => (float[1, 4, 5, 5] y) { a = Pad(x, p, v) y = Conv(a, w) }",
                "Conv Pad",
                v=np.float32(1),
                **PADS,
            ),
            "negative": probe(
                "g (float[1, 3, 5, 5] x) => (float[1, 4, a, b] y) { a = Pad(x, p) y = Conv(a, w) }",
                "Conv Pad",
                p=i64(0, 0, -1, 0, 0, 0, 1, 1),
                w=PADS["w"],
            ),
            "wrong attribute": probe(
                'g (float[1, 3, 5, 5] x) => (float[1, 4, 5, 5] y) { a = Pad<mode = "edge">(x, p) y = Conv(a, w) }',
                "Conv Pad",
                **PADS,
            ),
            "graph output": probe(
                "g (float[1, 3, 5, 5] x) => (float[1, 4, 5, 5] y, float[1, 3, 7, 7] a) "
                "{ a = Pad(x, p) y = Conv(a, w) }",
                "Conv Pad",
                **PADS,
            ),
        },
    ),
    Row(
        "Relu+Clip",
        probe("g (float[8] x) => (float[8] y) { h = Relu(x) y = Clip(h, a, b) }", "Clip", a=LIMITS["a"], b=LIMITS["b"]),
        {
            "graph output": probe(
                "g (float[8] x) => (float[8] y, float[8] h) { h = Relu(x) y = Clip(h, a, b) }",
                "Clip Relu",
                a=LIMITS["a"],
                b=LIMITS["b"],
            ),
            "bounds that are not known": probe(
                "g (float[8] x, float b) => (float[8] y) { h = Relu(x) y = Clip(h, a, b) }", "Clip Relu", a=LIMITS["a"]
            ),
        },
    ),
    Row(
        "Clip+Clip fuse",
        probe("g (float[8] x) => (float[8] y) { h = Clip(x, a, b) y = Clip(h, c, d) }", "Clip", **LIMITS),
        {
            "extra reader": probe(
                "g (float[8] x) => (float[8] y, float[8] z) { h = Clip(x, a, b) y = Clip(h, c, d) z = Exp(h) }",
                "Clip Clip Exp",
                **LIMITS,
            ),
            "no range": probe(
                "g (float[8] x) => (float[8] y) { h = Clip(x, b, a) y = Clip(h, c, d) }", "Clip Clip", **LIMITS
            ),
        },
    ),
    Row(
        "Min/Max->Clip",
        probe("g (float[8] x) => (float[8] y) { h = Max(x, a) y = Min(h, b) }", "Clip", a=LIMITS["a"], b=LIMITS["b"]),
        {
            "wrong shape": probe(
                "g (float[8] x) => (float[8] y) { h = Max(x, a) y = Min(h, b) }",
                "Max Min",
                a=f32(*range(8)),
                b=LIMITS["b"],
            ),
            "extra reader": probe(
                "g (float[8] x) => (float[8] y, float[8] z) { h = Max(x, a) y = Min(h, b) z = Exp(h) }",
                "Exp Max Min",
                a=LIMITS["a"],
                b=LIMITS["b"],
            ),
        },
    ),
    Row(
        "Log(Softmax)->LogSoftmax",
        probe(f"g ({X}) => (float[2, 3, 4] y) {{ a = Softmax(x) y = Log(a) }}", "LogSoftmax"),
        {
            "extra reader": probe(
                f"g ({X}) => (float[2, 3, 4] y, float[2, 3, 4] z) {{ a = Softmax(x) y = Log(a) z = Neg(a) }}",
                "Log Neg Softmax",
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 3, 4] y, float[2, 3, 4] a) {{ a = Softmax(x) y = Log(a) }}", "Log Softmax"
            ),
        },
    ),
    Row(
        "Einsum->MatMul",
        probe(
            'g (float[2, 3] x, float[4, 3] z) => (float[2, 4] y) { y = Einsum<equation = "ik,jk->ij">(x, z) }', "Gemm"
        ),
        {
            "a diagonal": probe(
                'g (float[3, 3] x, float[3] z) => (float[3] y) { y = Einsum<equation = "ii,i->i">(x, z) }', "Einsum"
            ),
            "three operands": probe(
                "g (float[2, 3] x, float[3, 4] z, float[4, 5] u) => (float[2, 5] y) "
                '{ y = Einsum<equation = "ij,jk,kl->il">(x, z, u) }',
                "Einsum",
            ),
        },
    ),
)
