"""Rows about what exporters write out in single steps."""

import math

import numpy as np

from tests.engine.passes.checks import f32, i64
from tests.engine.passes.rewrite_rows import Row, probe

X = "float[2, 4] x"
NORM = (
    "m = ReduceMean(x, ax) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, ax) "
    "e = Add(v, eps) r = Sqrt(e) n = Div(d, r)"
)
OLD_NORM = NORM.replace("(x, ax)", "<axes=[-1]>(x)").replace("(q, ax)", "<axes=[-1]>(q)")
SCALED = f"{NORM} a = Mul(n, k) y = Add(a, b)"
WEIGHTS = {"ax": i64(-1), "two": np.float32(2), "eps": np.float32(1e-5), "k": f32(1, 2, 3, 4), "b": f32(5, 6, 7, 8)}
ROOT = {name: WEIGHTS[name] for name in ("ax", "two", "eps")}
RMS = "q = Pow(x, two) v = ReduceMean(q, ax) e = Add(v, eps) r = Sqrt(e) n = Div(x, r) y = Mul(n, k)"
RMS_WEIGHTS = {name: WEIGHTS[name] for name in ("ax", "two", "eps", "k")}
ERF = {"s": np.float32(math.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)}
GELU = "d = Div(x, s) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
TANH = {
    **{"three": np.float32(3), "c": np.float32(0.044715), "s": np.float32(math.sqrt(2 / math.pi))},
    **{"one": np.float32(1), "half": np.float32(0.5)},
}
FAST = (
    "p = Pow(x, three) q = Mul(p, c) r = Add(x, q) u = Mul(r, s) t = Tanh(u) "
    "a = Add(t, one) m = Mul(x, a) y = Mul(m, half)"
)
QKV = "float[2, 3, 5, 4] q, float[2, 3, 5, 4] k, float[2, 3, 5, 4] v"
SDPA = "t = Transpose<perm=[0, 1, 3, 2]>(k) p = MatMul(q, t) s = Mul(p, c)"
HALF = {"c": np.float32(0.5)}

ROWS = (
    Row(
        "LayerNorm pattern",
        probe(f"g ({X}) => (float[2, 4] y) {{ {SCALED} }}", "LayerNormalization", **WEIGHTS),
        {
            "a scale for each row": probe(
                f"g (float[4, 4] x) => (float[4, 4] y) {{ {SCALED} }}",
                "Add LayerNormalization Mul",
                **{**WEIGHTS, "k": f32(1, 2, 3, 4).reshape(4, 1), "b": f32(1, 2, 3, 4).reshape(4, 1)},
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 4] y, float[2, 1] v) {{ {SCALED} }}",
                "Add Add Div Mul Mul ReduceMean ReduceMean Sqrt Sub",
                **WEIGHTS,
            ),
            "before opset 17": probe(
                f"g ({X}) => (float[2, 4] y) {{ {OLD_NORM} a = Mul(n, k) y = Add(a, b) }}",
                "Add Add Div Mul Mul ReduceMean ReduceMean Sqrt Sub",
                opset=16,
                **{name: array for name, array in WEIGHTS.items() if name != "ax"},
            ),
            "an axis in the middle": probe(
                f"g (float[2, 4, 3] x) => (float[2, 4, 3] y) {{ {NORM} y = Identity(n) }}",
                "Add Div Mul ReduceMean ReduceMean Sqrt Sub",
                **{**ROOT, "ax": i64(1)},
            ),
        },
    ),
    Row(
        "Gelu(erf) pattern",
        probe(f"g ({X}) => (float[2, 4] y) {{ {GELU} }}", "Gelu", opset=20, **ERF),
        {
            "before opset 20": probe(
                f"g ({X}) => (float[2, 4] y) {{ {GELU} }}", "Add Div Erf Mul Mul", opset=18, **ERF
            ),
            "another constant": probe(
                f"g ({X}) => (float[2, 4] y) {{ {GELU} }}",
                "Add Div Erf Mul Mul",
                opset=20,
                **{**ERF, "s": np.float32(1.5)},
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 4] y, float[2, 4] a) {{ {GELU} }}", "Add Div Erf Mul Mul", opset=20, **ERF
            ),
        },
    ),
    Row(
        "FastGelu(tanh) pattern",
        probe(f"g ({X}) => (float[2, 4] y) {{ {FAST} }}", "Gelu", opset=20, **TANH),
        {
            "another constant": probe(
                f"g ({X}) => (float[2, 4] y) {{ {FAST} }}",
                "Add Add Mul Mul Mul Mul Pow Tanh",
                opset=20,
                **{**TANH, "c": np.float32(0.05)},
            ),
            "extra reader": probe(
                f"g ({X}) => (float[2, 4] y, float[2, 4] z) {{ {FAST} z = Neg(t) }}",
                "Add Add Mul Mul Mul Mul Neg Pow Tanh",
                opset=20,
                **TANH,
            ),
        },
    ),
    Row(
        "RMSNorm pattern",
        probe(f"g ({X}) => (float[2, 4] y) {{ {RMS} }}", "RMSNormalization", opset=23, **RMS_WEIGHTS),
        {
            "before opset 23": probe(
                f"g ({X}) => (float[2, 4] y) {{ {RMS} }}", "Add Div Mul Mul ReduceMean Sqrt", opset=18, **RMS_WEIGHTS
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 4] y, float[2, 1] r) {{ {RMS} }}",
                "Add Div Mul Mul ReduceMean Sqrt",
                opset=23,
                **RMS_WEIGHTS,
            ),
            "without keepdims": probe(
                f"g (float[4, 4] x) => (float[4, 4] y) {{ {RMS.replace('ReduceMean(', 'ReduceMean<keepdims=0>(')} }}",
                "Add Div Mul Mul ReduceMean Sqrt",
                opset=23,
                **RMS_WEIGHTS,
            ),
        },
    ),
    Row(
        "QuickGelu/Swish x*sigmoid(x)",
        probe(
            f"g ({X}) => (float[2, 4] y) {{ a = Mul(x, k) s = Sigmoid(a) y = Mul(x, s) }}",
            "Swish",
            opset=24,
            k=np.float32(1.702),
        ),
        {
            "before opset 24": probe(
                f"g ({X}) => (float[2, 4] y) {{ s = Sigmoid(x) y = Mul(x, s) }}", "Mul Sigmoid", opset=23
            ),
            "of another value": probe(
                f"g ({X}, float[2, 4] z) => (float[2, 4] y) {{ s = Sigmoid(x) y = Mul(z, s) }}", "Mul Sigmoid", opset=24
            ),
            "graph output": probe(
                f"g ({X}) => (float[2, 4] y, float[2, 4] s) {{ s = Sigmoid(x) y = Mul(x, s) }}", "Mul Sigmoid", opset=24
            ),
        },
    ),
    Row(
        "SDPA pattern -> Attention/MHA",
        probe(
            f"g ({QKV}) => (float[2, 3, 5, 4] y) {{ {SDPA} w = Softmax(s) y = MatMul(w, v) }}",
            "Attention",
            opset=23,
            **HALF,
        ),
        {
            "before opset 23": probe(
                f"g ({QKV}) => (float[2, 3, 5, 4] y) {{ {SDPA} w = Softmax(s) y = MatMul(w, v) }}",
                "MatMul MatMul Mul Softmax Transpose",
                opset=22,
                **HALF,
            ),
            "wrong attribute": probe(
                f"g ({QKV}) => (float[2, 3, 5, 4] y) {{ {SDPA} w = Softmax<axis=2>(s) y = MatMul(w, v) }}",
                "MatMul MatMul Mul Softmax Transpose",
                opset=23,
                **HALF,
            ),
            "graph output": probe(
                f"g ({QKV}) => (float[2, 3, 5, 4] y, float[2, 3, 5, 5] w) {{ {SDPA} w = Softmax(s) y = MatMul(w, v) }}",
                "MatMul MatMul Mul Softmax Transpose",
                opset=23,
                **HALF,
            ),
        },
    ),
)
