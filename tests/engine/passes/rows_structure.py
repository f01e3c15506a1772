"""Rows about graphs in graphs: branches, loops, functions."""

import numpy as np

from tests.engine.passes.checks import f32
from tests.engine.passes.rewrite_rows import Row, probe

X = "float[2] x"
BRANCHES = "<then_branch = t () => (float[2] to) { to = Neg(x) }, else_branch = e () => (float[2] eo) { eo = Exp(x) }>"
BODY = (
    "<body = b (int64 i, bool ci, float[2] a) => (bool co, float[2] r, float[2] s) "
    "{ co = Identity(ci) r = Tanh(a) s = Exp(a) }>"
)
LOOP = f"y, z = Loop(n, c, x){BODY}"
ENDS = f"g ({X}) => (float[2] y, float[K, 2] z)"
TRUE, FALSE = np.array(True), np.array(False)
FUNCTION = '<domain: "f", opset_import: ["" : 18]> f (p) => (r) { q = Neg(p) r = Exp(q) }'
IMPORT = ', "f" : 1'

ROWS = (
    Row(
        "If constant condition inline",
        probe(f"g ({X}) => (float[2] y) {{ y = If(c){BRANCHES} }}", "Neg", c=TRUE),
        {
            "not known": probe(f"g ({X}, bool c) => (float[2] y) {{ y = If(c){BRANCHES} }}", "Exp If Neg"),
            "overridable": probe(f"g ({X}, bool c) => (float[2] y) {{ y = If(c){BRANCHES} }}", "Exp If Neg", c=TRUE),
        },
    ),
    Row(
        "Loop constant trip (unroll)",
        probe(f"{ENDS} {{ {LOOP} }}", "Concat Exp Exp Tanh Tanh Unsqueeze Unsqueeze", n=np.array(2), c=TRUE),
        {
            "many rounds": probe(f"{ENDS} {{ {LOOP} }}", "Exp Identity Loop Tanh", n=np.array(1000), c=TRUE),
            "a computed condition ends it": probe(
                f"{ENDS} {{ {LOOP.replace('Identity(ci)', 'Less(i, n)')} }}",
                "Exp Less Loop Tanh",
                n=np.array(2),
                c=TRUE,
            ),
            "overridable": probe(
                f"g ({X}, int64 n) => (float[2] y, float[K, 2] z) {{ {LOOP} }}",
                "Exp Identity Loop Tanh",
                n=np.array(2),
                c=TRUE,
            ),
        },
    ),
    Row(
        "Loop constant trip (0-iter)",
        probe(f"{ENDS} {{ {LOOP} }}", "Identity", n=np.array(3), c=FALSE),
        {
            "not known": probe(
                f"g ({X}, int64 n) => (float[2] y, float[K, 2] z) {{ {LOOP} }}", "Exp Identity Loop Tanh", c=TRUE
            ),
            "the condition is not known": probe(
                f"g ({X}, bool c) => (float[2] y, float[K, 2] z) {{ {LOOP} }}", "Exp Identity Loop Tanh", n=np.array(3)
            ),
            "overridable": probe(
                f"g ({X}, int64 n) => (float[2] y, float[K, 2] z) {{ {LOOP} }}",
                "Exp Identity Loop Tanh",
                n=np.array(0),
                c=TRUE,
            ),
        },
    ),
    Row(
        "fold inside If body",
        probe(
            f"g ({X}, bool c) => (float[2] y) {{ y = If(c)<then_branch = t () => (float[2] to) "
            "{ k = Exp(a) to = Mul(x, k) }, else_branch = e () => (float[2] eo) { eo = Exp(x) }> }",
            "Exp If Mul",
            a=f32(1, 2),
        ),
        {
            "overridable": probe(
                f"g ({X}, bool c, float[2] a) => (float[2] y) {{ y = If(c)<then_branch = t () => (float[2] to) "
                "{ k = Exp(a) to = Mul(x, k) }, else_branch = e () => (float[2] eo) { eo = Exp(x) }> }",
                "Exp Exp If Mul",
                a=f32(1, 2),
            ),
            "not constant": probe(
                f"g ({X}, bool c) => (float[2] y) {{ y = If(c)<then_branch = t () => (float[2] to) "
                "{ k = Abs(x) to = Mul(x, k) }, else_branch = e () => (float[2] eo) { eo = Exp(x) }> }",
                "Abs Exp If Mul",
            ),
        },
    ),
    Row(
        "fold inside Loop body",
        probe(
            f"g ({X}, int64 n) => (float[2] y) {{ y = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] s) => "
            "(bool co, float[2] r) { co = Identity(ci) k = Exp(a) r = Mul(s, k) }> }",
            "Identity Loop Mul",
            c=TRUE,
            a=f32(1, 2),
        ),
        {
            "the state": probe(
                f"g ({X}, int64 n) => (float[2] y) {{ y = Loop(n, c, a)<body = b (int64 i, bool ci, float[2] s) => "
                "(bool co, float[2] r) { co = Identity(ci) k = Tanh(s) r = Mul(x, k) }> }",
                "Identity Loop Mul Tanh",
                c=TRUE,
                a=f32(1, 2),
            ),
            "the number of the round": probe(
                f"g ({X}, int64 n) => (float[2] y) {{ y = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] s) => "
                "(bool co, float[2] r) { co = Identity(ci) k = Cast<to=1>(i) r = Mul(s, k) }> }",
                "Cast Identity Loop Mul",
                c=TRUE,
            ),
        },
    ),
    Row(
        "local function inlining",
        probe(f"g ({X}) => (float[2] y) {{ y = f.f(x) }} {FUNCTION}", "Exp Neg", imports=IMPORT),
        {
            "of another opset": probe(
                f"g ({X}) => (float[2] y) {{ y = f.f(x) }} {FUNCTION.replace('18', '17')}", "f", imports=IMPORT
            ),
            "a function without a body": probe(
                f"g ({X}) => (float[2] y) {{ y = com.microsoft.Gelu(x) }}", "Gelu", imports=', "com.microsoft" : 1'
            ),
        },
    ),
)
