"""Gradients of sequences: what the table of cases does not say."""

import numpy as np
import onnx
import onnx.parser

import onnxgrad as og
from tests.grad.checks import run_in_onnxruntime

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def gradient(text: str, feeds: dict, wrt: list[str]) -> dict:
    """The outputs of the gradient model in onnxruntime."""
    proto = og.to_proto(og.gradient_model(onnx.parser.parse_model(text), wrt=wrt))
    onnx.checker.check_model(proto)
    return run_in_onnxruntime(proto, feeds)


def test_a_list_that_a_loop_fills_gives_its_gradient_item_by_item():
    """y = [x w, x w^2, x w^3]:  dw = x + 2 x w + 3 x w^2"""
    text = f"""{HEAD} g (float[1] x, float[1] w, int64 n) => (float[M] y) {{
        empty = SequenceEmpty() s, last = Loop <body = b (int64 i, bool c, seq(float) r, float[1] v)
            => (bool d, seq(float) t, float[1] u) {{ d = Identity(c) u = Mul(v, w) t = SequenceInsert(r, u) }}>
            (n, , empty, x)
        y = ConcatFromSequence <axis = 0> (s) }}"""
    feeds = {"x": np.array([2], "f"), "w": np.array([3], "f"), "n": np.array(3), "y.grad": np.ones(3, "f")}
    results = gradient(text, feeds, ["x", "w"])
    assert results["w.grad"].tolist() == [2 + 2 * 2 * 3 + 3 * 2 * 9]
    assert results["x.grad"].tolist() == [3 + 9 + 27]


def test_an_item_that_nobody_takes_gets_zeros():
    text = f"""{HEAD} g (float[2] x, float[3] w) => (float[2] y) {{
        i = Constant <value = int64 {{0}}> () s = SequenceConstruct(x, w) a = SequenceAt(s, i) y = Mul(a, a) }}"""
    feeds = {"x": np.array([2, 3], "f"), "w": np.ones(3, "f"), "y.grad": np.ones(2, "f")}
    results = gradient(text, feeds, ["x", "w"])
    assert results["x.grad"].tolist() == [4, 6]
    assert results["w.grad"].tolist() == [0, 0, 0]


def test_the_gradient_passes_through_an_optional():
    text = f"""{HEAD} g (float[2] x) => (float[2] y) {{
        o = Optional(x) has = OptionalHasElement(o) v = OptionalGetElement(o)
        y = If (has) <then_branch = t () => (float[2] p) {{ p = Mul(v, v) }},
                      else_branch = e () => (float[2] q) {{ q = Identity(x) }}> }}"""
    results = gradient(text, {"x": np.array([2, 3], "f"), "y.grad": np.ones(2, "f")}, ["x"])
    assert results["x.grad"].tolist() == [4, 6]


def test_a_body_that_is_mapped_may_read_values_outside():
    """y = x w^2 for each half of x; w is called what the body of the standard calls its condition"""
    w = "SequenceMap_input_sequence_cond"
    text = f"""{HEAD} g (float[4] x, float[2] {w}) => (float[M] y) {{
        two = Constant <value = int64[2] {{2, 2}}> () s = SplitToSequence(x, two)
        t = SequenceMap <body = b (float[2] p) => (float[2] q) {{ r = Mul(p, {w}) q = Mul(r, {w}) }}> (s)
        y = ConcatFromSequence <axis = 0> (t) }}"""
    feeds = {"x": np.array([1, 2, 3, 4], "f"), w: np.array([2, 3], "f"), "y.grad": np.ones(4, "f")}
    results = gradient(text, feeds, ["x", w])
    assert results["x.grad"].tolist() == [4, 9, 4, 9]
    assert results[f"{w}.grad"].tolist() == [2 * (1 + 3) * 2, 2 * (2 + 4) * 3]
