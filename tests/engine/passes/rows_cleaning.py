"""Rows about what is not needed: constants, copies, operators that do nothing."""

import numpy as np

from tests.engine.passes.checks import f32, i64
from tests.engine.passes.rewrite_rows import Row, probe

X = "float[2] x"
X23 = "float[2, 3] x"

ROWS = (
    Row(
        "const fold",
        probe(f"g ({X}) => (float[2] y) {{ c = Exp(a) d = Add(c, b) y = Mul(x, d) }}", "Mul", a=f32(1, 2), b=f32(3, 4)),
        {
            "overridable": probe(
                f"g ({X}, float[2] a) => (float[2] y) {{ c = Exp(a) y = Mul(x, c) }}", "Exp Mul", a=f32(1, 2)
            ),
            "grows": probe(
                "g (float[1] x) => (float[200, 300] y) { c = Expand(k, s) y = Mul(x, c) }",
                "Expand Mul",
                k=np.ones((1, 1), np.float32),
                s=i64(200, 300),
            ),
        },
    ),
    Row(
        "shape fold (static shape)",
        probe(
            f"g ({X23}, float[6] z) => (float[a, b] y) {{ s = Shape(x) y = Reshape(z, s) }}",
            "Reshape",
        ),
        {
            "symbolic": probe(
                "g (float[N, M] x, float[6] z) => (float[a, b] y) { s = Shape(x) e = Expand(k, s) y = Add(e, z) }",
                "Add Expand Shape",
                k=np.ones((1, 1), np.float32),
            ),
            "the content": probe(
                f"g ({X23}, int64[2] s) => (float[a, b] y) {{ t = Add(s, k) y = Expand(x, t) }}",
                "Add Expand",
                k=i64(1, 2),
            ),
        },
    ),
    Row(
        "symbolic shape chain ([N,3,4]->[N,12])",
        probe(
            "g (float[N, 3, 4] x) => (float[a, b] y) { s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, ax) "
            "t = Concat<axis=0>(u, m) y = Reshape(x, t) }",
            "Reshape",
            zero=np.array(0),
            ax=i64(0),
            m=i64(12),
        ),
        {
            "another dimension": probe(
                "g (float[N, 3, M] x) => (float[a, b] y) { s = Shape(x) n = Gather(s, two) u = Unsqueeze(n, ax) "
                "p = Mul(u, m) t = Concat<axis=0>(u, p) e = Expand(k, t) y = Exp(e) }",
                "Concat Exp Expand Gather Mul Shape Unsqueeze",
                two=np.array(2),
                ax=i64(0),
                m=i64(2),
                k=np.ones((1, 1), np.float32),
            ),
            "graph output": probe(
                "g (float[N, 3, 4] x) => (float[a, b] y, int64[2] t) { s = Shape(x) n = Gather(s, zero) "
                "u = Unsqueeze(n, ax) t = Concat<axis=0>(u, m) y = Reshape(x, t) }",
                "Concat Gather Reshape Shape Unsqueeze",
                zero=np.array(0),
                ax=i64(0),
                m=i64(12),
            ),
        },
    ),
    Row(
        "identity elimination",
        probe(f"g ({X}) => (float[2] y) {{ a = Identity(x) b = Relu(a) y = Identity(b) }}", "Relu"),
        {
            "an input as output": probe(f"g ({X}) => (float[2] y) {{ y = Identity(x) }}", "Identity"),
            "one value, two outputs": probe(
                f"g ({X}) => (float[2] y, float[2] z) {{ y = Relu(x) z = Identity(y) }}", "Identity Relu"
            ),
        },
    ),
    Row(
        "dropout (inference) elimination",
        probe(f"g ({X}) => (float[2] y) {{ a = Dropout(x) y = Relu(a) }}", "Relu"),
        {
            "the mask is read": probe(
                f"g ({X}) => (float[2] y, bool[2] m) {{ a, m = Dropout(x) y = Relu(a) }}", "Dropout Relu"
            ),
            "the mask is computed with": probe(
                f"g ({X}) => (float[2] y, float[2] z) {{ a, m = Dropout(x) y = Relu(a) z = Cast<to=1>(m) }}",
                "Cast Dropout Relu",
            ),
        },
    ),
    Row(
        "cast no-op",
        probe(f"g ({X}) => (float[2] y) {{ a = Cast<to=1>(x) y = Relu(a) }}", "Relu"),
        {
            "wrong attribute": probe(f"g ({X}) => (double[2] y) {{ a = Cast<to=11>(x) y = Exp(a) }}", "Cast Exp"),
            "it narrows and comes back": probe(
                f"g ({X}) => (float[2] y) {{ a = Cast<to=10>(x) y = Cast<to=1>(a) }}", "Cast Cast"
            ),
        },
    ),
    Row(
        "transpose no-op (identity perm)",
        probe(f"g ({X23}) => (float[2, 3] y) {{ a = Transpose<perm=[0, 1]>(x) y = Relu(a) }}", "Relu"),
        {
            "wrong attribute": probe(
                "g (float[2, 2] x) => (float[2, 2] y) { a = Transpose<perm=[1, 0]>(x) y = Exp(a) }", "Exp Transpose"
            ),
            "the default turns": probe(
                "g (float[2, 2] x) => (float[2, 2] y) { a = Transpose(x) y = Exp(a) }", "Exp Transpose"
            ),
        },
    ),
    Row(
        "CSE",
        probe(f"g ({X}) => (float[2] y) {{ a = Exp(x) b = Exp(x) y = Sub(a, b) }}", "Exp Sub"),
        {
            "wrong attribute": probe(
                f"g ({X}) => (float[2] y) {{ a = LeakyRelu<alpha=0.1>(x) b = LeakyRelu<alpha=0.2>(x) y = Sub(a, b) }}",
                "LeakyRelu LeakyRelu Sub",
            ),
            "another order": probe(
                f"g ({X}, float[2] z) => (float[2] y) {{ a = Div(x, z) b = Div(z, x) y = Sub(a, b) }}", "Div Div Sub"
            ),
        },
    ),
    Row(
        "dead node removal",
        probe(f"g ({X}) => (float[2] y) {{ a = Exp(x) b = Neg(a) y = Relu(x) }}", "Relu"),
        {
            "graph output": probe(
                f"g ({X}) => (float[2] y, float[2] b) {{ a = Exp(x) b = Neg(a) y = Relu(x) }}", "Exp Neg Relu"
            ),
            "read in a body": probe(
                f"g ({X}, bool c) => (float[2] y) {{ a = Exp(x) y = If(c)<then_branch = t () => (float[2] to) "
                "{ to = Neg(a) }, else_branch = e () => (float[2] eo) { eo = Relu(x) }> }",
                "Exp If Neg Relu",
            ),
        },
    ),
    Row(
        "Reshape no-op",
        probe(f"g ({X23}) => (float[2, 3] y) {{ a = Reshape(x, s) y = Relu(a) }}", "Relu", s=i64(2, -1)),
        {
            "wrong shape": probe(
                f"g ({X23}) => (float[3, 2] y) {{ a = Reshape(x, s) y = Exp(a) }}", "Exp Reshape", s=i64(3, 2)
            ),
            "the shape is not known": probe(
                "g (float[N, M] x) => (float[a, b] y) { a = Reshape(x, s) y = Exp(a) }", "Exp Reshape", s=i64(2, -1)
            ),
        },
    ),
    Row(
        "Slice no-op",
        probe(f"g ({X23}) => (float[2, 3] y) {{ a = Slice(x, s, e) y = Relu(a) }}", "Relu", s=i64(0, 0), e=i64(2, 9)),
        {
            "wrong bounds": probe(
                f"g ({X23}) => (float[2, b] y) {{ a = Slice(x, s, e) y = Exp(a) }}",
                "Exp Slice",
                s=i64(0, 0),
                e=i64(2, 2),
            ),
            "backwards": probe(
                f"g ({X23}) => (float[2, 3] y) {{ a = Slice(x, s, e, ax, st) y = Exp(a) }}",
                "Exp Slice",
                s=i64(-1),
                e=i64(-9),
                ax=i64(1),
                st=i64(-1),
            ),
        },
    ),
    Row(
        "Concat single-input",
        probe(f"g ({X23}) => (float[2, 3] y) {{ a = Concat<axis=1>(x) y = Relu(a) }}", "Relu"),
        {
            "twice the same": probe(
                f"g ({X23}) => (float[2, 6] y) {{ a = Concat<axis=1>(x, x) y = Exp(a) }}", "Concat Exp"
            ),
            "an input as output": probe(f"g ({X23}) => (float[2, 3] y) {{ y = Concat<axis=0>(x) }}", "Identity"),
        },
    ),
    Row(
        "Expand no-op",
        probe(f"g ({X23}) => (float[2, 3] y) {{ a = Expand(x, s) y = Relu(a) }}", "Relu", s=i64(1, 3)),
        {
            "wrong shape": probe(
                f"g ({X23}) => (float[1, 2, 3] y) {{ a = Expand(x, s) y = Exp(a) }}", "Exp Expand", s=i64(1, 2, 3)
            ),
            "the size is not known": probe(
                "g (float[N, 3] x) => (float[a, 3] y) { a = Expand(x, s) y = Exp(a) }", "Exp Expand", s=i64(2, 3)
            ),
        },
    ),
    Row(
        "x*1",
        probe(f"g ({X}) => (float[2] y) {{ a = Mul(x, k) y = Relu(a) }}", "Relu", k=f32(1)),
        {
            "wrong shape": probe(
                f"g ({X}) => (float[1, 2] y) {{ a = Mul(x, k) y = Exp(a) }}", "Exp Mul", k=np.ones((1, 1), np.float32)
            ),
            "another number": probe(f"g ({X}) => (float[2] y) {{ a = Mul(x, k) y = Exp(a) }}", "Exp Mul", k=f32(1, 2)),
        },
    ),
    Row(
        "x+0",
        probe(
            "g (float[2] x, int64[2] i) => (float[2] y, int64[2] j) "
            "{ a = Sub(x, k) y = Exp(a) b = Add(i, l) j = Neg(b) }",
            "Exp Neg",
            k=f32(0),
            l=i64(0),
        ),
        {
            "-0.0 + 0.0 is 0.0": probe(
                f"g ({X}) => (float[2] y) {{ a = Add(x, k) y = Reciprocal(a) }}", "Add Reciprocal", k=f32(0)
            ),
            "wrong shape": probe(
                f"g ({X}) => (float[3, 2] y) {{ a = Sub(x, k) y = Exp(a) }}", "Exp Sub", k=np.zeros((3, 1), np.float32)
            ),
        },
    ),
    Row(
        "Relu+Relu idempotent",
        probe(f"g ({X}) => (float[2] y) {{ a = Relu(x) y = Relu(a) }}", "Relu"),
        {
            "graph output": probe(
                f"g ({X}) => (float[2] y, float[2] a) {{ a = Relu(x) y = Relu(a) }}", "Identity Relu"
            ),
            "something between": probe(
                f"g ({X}) => (float[2] y) {{ a = Relu(x) b = Sub(a, k) y = Relu(b) }}", "Relu Relu Sub", k=f32(1, 2)
            ),
        },
    ),
    Row(
        "duplicate initializer dedup",
        probe(
            f"g ({X}) => (float[2] y) {{ a = Add(x, k) b = Add(x, l) y = Mul(a, b) }}",
            "Add Mul",
            k=f32(1, 2),
            l=f32(1, 2),
        ),
        {
            "the sign of 0": probe(
                f"g ({X}) => (float[2] y) {{ a = Max(x, k) b = Max(x, l) y = Mul(a, b) }}",
                "Max Mul Relu",
                k=f32(0.0),
                l=f32(-0.0),
            ),
            "overridable": probe(
                f"g ({X}, float[2] k) => (float[2] y) {{ a = Add(x, k) b = Add(x, l) y = Mul(a, b) }}",
                "Add Add Mul",
                k=f32(1, 2),
                l=f32(1, 2),
            ),
        },
    ),
    Row(
        "unused initializer removal",
        probe(f"g ({X}) => (float[2] y) {{ y = Relu(x) }}", "Relu", k=f32(1, 2)),
        {
            "an input": probe(f"g ({X}, float[2] k) => (float[2] y) {{ y = Relu(x) }}", "Relu", k=f32(1, 2)),
            "read in a body": probe(
                f"g ({X}, bool c) => (float[2] y) {{ y = If(c)<then_branch = t () => (float[2] to) "
                "{ to = Mul(x, k) }, else_branch = e () => (float[2] eo) { eo = Relu(x) }> }",
                "If Mul Relu",
                k=f32(1, 2),
            ),
        },
    ),
    Row(
        "Not+Where",
        probe("g (bool[2] c, float[2] x, float[2] z) => (float[2] y) { n = Not(c) y = Where(n, x, z) }", "Where"),
        {
            "extra reader": probe(
                "g (bool[2] c, float[2] x, float[2] z) => (float[2] y, bool[2] m) "
                "{ n = Not(c) y = Where(n, x, z) m = And(n, c) }",
                "And Not Where",
            ),
            "graph output": probe(
                "g (bool[2] c, float[2] x, float[2] z) => (float[2] y, bool[2] n) { n = Not(c) y = Where(n, x, z) }",
                "Not Where",
            ),
        },
    ),
    Row(
        "ConstantOfShape+Cast fuse",
        probe(
            "g (int64[2] s) => (int64[a, b] y) { c = ConstantOfShape<value = float[1] {3.0}>(s) y = Cast<to=7>(c) }",
            "ConstantOfShape",
        ),
        {
            "graph output": probe(
                "g (int64[2] s) => (int64[a, b] y, float[c, d] c) "
                "{ c = ConstantOfShape<value = float[1] {3.0}>(s) y = Cast<to=7>(c) }",
                "Cast ConstantOfShape",
            ),
            "extra reader": probe(
                "g (int64[2] s) => (int64[a, b] y, float[c, d] z) "
                "{ c = ConstantOfShape<value = float[1] {3.0}>(s) y = Cast<to=7>(c) z = Exp(c) }",
                "Cast ConstantOfShape Exp",
            ),
        },
    ),
)
