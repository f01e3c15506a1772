"""Attention and rotary embeddings that exporters write out."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.fusions import attention, rotary
from tests.engine.passes.checks import check, f32, i64, model_of, operators

RULES = (*attention.RULES, *rotary.RULES)
CAUSAL = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
CONSTANTS = {
    "half": f32(0.5), "two": f32(2), "minus": f32(-0.5), "causal": CAUSAL, "bias": np.ones((1, 3, 5, 5), np.float32),
    "row": f32(0, 0, -np.inf, 0, -1), "hidden": np.full((5, 5), -np.inf, np.float32),
    "lowest": np.full((5, 5), np.finfo(np.float32).min, np.float32), "split": i64(0, 0, 3, 4), "join": i64(0, 0, 12),
    "joined": i64(0, -1, 12), "cut": i64(0, 0, 6, 2), "wide": np.zeros((4, 3, 5, 5), np.float32),
}  # fmt: skip
QKV = ", ".join(f"float[N, 3, 5, 4] {name}" for name in "qkv")
K_T = "t = Transpose<perm=[0, 1, 3, 2]>(k)"
END = "w = Softmax<axis=-1>(s) y = MatMul(w, v)"


def model_with(body, opset=23, inputs=QKV, out="a, b, c, d"):
    used = {name: array for name, array in CONSTANTS.items() if f" {name}" in body.replace("(", " ")}
    return model_of(f"g ({inputs}) => (float[{out}] y) {{ {body} }}", opset, 10, **used)


DONE = {
    "as it is": f"{K_T} s = MatMul(q, t) {END}",
    "scaled afterwards": f"{K_T} p = MatMul(q, t) s = Mul(p, half) {END}",
    "divided afterwards": f"{K_T} p = MatMul(q, t) s = Div(p, two) {END}",
    "the query scaled": f"{K_T} p = Mul(half, q) s = MatMul(p, t) {END}",
    "both scaled": f"{K_T} p = Mul(q, half) u = Mul(t, half) s = MatMul(p, u) {END}",
    "the key scaled first": f"u = Mul(k, half) t = Transpose<perm=[0, 1, 3, 2]>(u) s = MatMul(q, t) {END}",
    "a causal mask": f"{K_T} p = MatMul(q, t) r = Mul(p, half) s = Add(r, causal) {END}",
    "a mask of heads": f"{K_T} p = MatMul(q, t) s = Add(bias, p) {END}",
    "a mask of one row": f"{K_T} p = MatMul(q, t) s = Add(p, row) {END}",
    "the last axis by number": f"{K_T} s = MatMul(q, t) w = Softmax<axis=3>(s) y = MatMul(w, v)",
}


@pytest.mark.parametrize("name", DONE)
@pytest.mark.parametrize("opset", [23, 24, 25])
def test_is_one_attention_with_the_same_values(name, opset):
    assert operators(check(model_with(DONE[name], opset), *RULES, hits=1)) == ["Attention"]


TWICE = f"{K_T} s = MatMul(q, t) w = Softmax(s) z = MatMul(w, v)"
KEPT = {
    "before opset 23": (f"{K_T} s = MatMul(q, t) {END}", 22),
    "another axis": (f"{K_T} s = MatMul(q, t) w = Softmax<axis=2>(s) y = MatMul(w, v)", 23),
    "a negative scale": (f"{K_T} p = MatMul(q, t) s = Mul(p, minus) {END}", 23),
    "a key that is not transposed": (f"s = MatMul(q, q) {END}", 23),
    "a reader of the weights": (f"{TWICE} o = MatMul(w, z) y = Add(o, z)", 23),
    "a reader of the scores": (f"{TWICE} o = MatMul(s, z) y = Add(o, z)", 23),
    "a mask that hides whole rows": (f"{K_T} p = MatMul(q, t) s = Add(p, hidden) {END}", 23),
    "a mask of the lowest number": (f"{K_T} p = MatMul(q, t) s = Add(p, lowest) {END}", 23),
    "a mask with more batches": (f"{K_T} p = MatMul(q, t) s = Add(p, wide) {END}", 23),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_is_left_alone(name):
    body, opset = KEPT[name]
    inputs = QKV.replace("5, 4]", "4, 4]") if "MatMul(q, q)" in body else QKV
    inputs = inputs.replace("N,", "1,") if "wide" in body else inputs
    check(model_with(body, opset, inputs), *RULES, hits=0)


def test_a_mask_that_is_computed_may_hide_whole_rows():
    body = f"{K_T} p = MatMul(q, t) s = Add(p, m) {END}"
    check(model_with(body, inputs=f"{QKV}, float[N, 1, 5, 5] m"), *RULES, hits=0)


@pytest.mark.parametrize("shape", ["1, 3, 5, 4", "N, 1, 5, 4", "M, 3, 5, 4"])
def test_batches_and_heads_must_be_the_same(shape):
    inputs = f"float[N, 3, 5, 4] q, float[{shape}] k, float[N, 3, 5, 4] v"
    check(model_with(DONE["as it is"], inputs=inputs), *RULES, hits=0)


def test_doubles_stay():
    graph = f"g ({QKV.replace('float', 'double')}) => (double[a, b, c, d] y) {{ {DONE['as it is']} }}"
    check(model_of(graph, 23), *RULES, hits=0)


def heads(name, shape="split"):
    return f"r{name} = Reshape({name}, {shape}) h{name} = Transpose<perm=[0, 2, 1, 3]>(r{name})"


def layer(join="join", mask=""):
    scores = f"p = MatMul(hq, t) s = Add(p, {mask})" if mask else "s = MatMul(hq, t)"
    return (
        f"{heads('q')} rk = Reshape(k, split) t = Transpose<perm=[0, 2, 3, 1]>(rk) {heads('v')} {scores}"
        f" w = Softmax(s) o = MatMul(w, hv) b = Transpose<perm=[0, 2, 1, 3]>(o) y = Reshape(b, {join})"
    )


WHOLE = ", ".join(f"float[N, 5, 12] {name}" for name in "qkv")


@pytest.mark.parametrize("join", ["join", "joined"])
@pytest.mark.parametrize("mask", ["", "causal"])
def test_heads_are_split_and_joined_by_the_attention(join, mask):
    model = model_with(layer(join, mask), inputs=WHOLE, out="a, b, c")
    assert operators(check(model, *RULES, hits=2)) == ["Attention"]


def test_a_layer_is_found_among_all_passes_and_at_a_raised_opset():
    model = model_with(layer("join", "causal"), 17, WHOLE, "a, b, c")
    assert "Attention" not in operators(og.optimize_for_inference(model))
    assert operators(og.optimize_for_inference(model, opset=23)) == ["Attention"]


def test_heads_that_are_joined_otherwise_stay():
    model = model_with(layer("cut"), inputs=WHOLE, out="a, b, c, d")
    assert operators(check(model, *RULES, hits=1)).count("Reshape") == 4


# --- rotary embeddings

ANGLES = np.linspace(0, 3, 20, dtype=np.float32).reshape(1, 1, 5, 4)
TABLES = {"cos": np.cos(np.tile(ANGLES[..., :2], 2)), "sin": np.sin(np.tile(ANGLES[..., :2], 2))}
SLICES = {"zero": i64(0), "middle": i64(2), "end": i64(2**63 - 1), "last": i64(3), "third": i64(3), "first": i64(1)}
TURN = "u = Slice(x, middle, end, last) l = Slice(x, zero, middle, last) n = Neg(u) c = Concat<axis=-1>(n, l)"
SUM = "a = Mul(x, cos) b = Mul(c, sin) y = Add(a, b)"


def rotation(body, shape="1, 3, 5, 4", opset=23, **tables):
    used = {name: array for name, array in (SLICES | TABLES | tables).items() if f" {name}" in body.replace("(", " ")}
    return model_of(f"g (float[{shape}] x) => (float[{shape}] y) {{ {body} }}", opset, 10, **used)


SPLIT = "l, u = Split<axis=3, num_outputs=2>(x) n = Neg(u) c = Concat<axis=3>(n, l)"


@pytest.mark.parametrize("turn", [TURN, SPLIT])
def test_a_rotation_by_tables_is_a_rotary_embedding(turn):
    assert operators(check(rotation(f"{turn} {SUM}"), *RULES, hits=1)) == ["RotaryEmbedding"]


@pytest.mark.parametrize("body, options", [
    (f"{TURN} {SUM}", {"opset": 22}),
    (f"{TURN} {SUM}", {"shape": "N, 3, 5, 4"}),
    (f"{TURN.replace('(n, l)', '(l, n)')} {SUM}", {}),
    (f"{TURN.replace('middle, end', 'first, third')} {SUM}", {}),
    (f"{TURN} {SUM}", {"cos": np.cos(ANGLES)}),
])  # fmt: skip
def test_other_rotations_stay(body, options):
    opset, shape = options.pop("opset", 23), options.pop("shape", "1, 3, 5, 4")
    check(rotation(body, shape, opset, **options), *RULES, hits=0)


def test_a_rotation_by_angles_is_a_rotary_embedding():
    body = (
        f"e = Concat<axis=-1>(f, f) d = Cos(e) cos = Unsqueeze(d, first) g2 = Sin(e) sin = Unsqueeze(g2, first)"
        f" {TURN} {SUM}"
    )
    graph = f"g (float[N, 3, S, 4] x, float[N, S, 2] f) => (float[N, 3, S, 4] y) {{ {body} }}"
    used = {name: array for name, array in SLICES.items() if name != "third"}
    assert operators(check(model_of(graph, 23, 10, **used), *RULES, hits=1)) == ["Cos", "RotaryEmbedding", "Sin"]
