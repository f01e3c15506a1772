"""Gradients through If, Loop and Scan: what the table of cases does not say."""

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxgrad as og
from tests.grad.checks import evaluate, run_in_onnxruntime

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
IF = f"""{HEAD} g (bool c, float[3] x, float[3] w) => (float[3] y) {{
    y = If (c) <then_branch = t () => (float[3] p) {{ p = Mul(w, x) }},
                else_branch = e () => (float[3] q) {{ q = Add(w, x) }}> }}"""
LOOP = f"""{HEAD} g (float[2] x, int64 n) => (float[2] y)
    <float[2] w = {{2, 3}}> {{
    y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {{
        d = Identity(c) t = Mul(s, w) }}> (n, , x) }}"""
WALK = f"""{HEAD} g (float[2] x, int64 n) => (float[2] y) {{
    y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {{
        d = Identity(c) noise = RandomNormalLike(s) t = Mul(s, noise) }}> (n, , x) }}"""


def gradient(text: str, feeds: dict, **options) -> tuple[dict, onnx.ModelProto]:
    """The outputs of the gradient model in onnxruntime, and the model."""
    proto = og.to_proto(og.gradient_model(onnx.parser.parse_model(text), **options))
    onnx.checker.check_model(proto)
    return run_in_onnxruntime(proto, feeds), proto


def names_of(graph: onnx.GraphProto) -> list[str]:
    """The names of all values that a graph and its sub-graphs define."""
    found = [value.name for value in (*graph.input, *graph.initializer)]
    for node in graph.node:
        found += [name for name in node.output if name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += names_of(attribute.g)
    return found


@pytest.mark.parametrize(("taken", "dw"), [(True, [5, 6, 7]), (False, [1, 1, 1])])
def test_only_the_branch_that_was_taken_contributes(taken, dw):
    x, w, seed = np.array([5, 6, 7], "f"), np.array([1, 2, 3], "f"), np.ones(3, "f")
    results, _ = gradient(IF, {"c": np.array(taken), "x": x, "w": w, "y.grad": seed}, wrt=["w"])
    assert results["w.grad"].tolist() == dw


@pytest.mark.parametrize(("trips", "dw", "dx"), [(3, [12, 27], [8, 27]), (0, [0, 0], [1, 1])])
def test_an_initializer_that_a_loop_captures_gets_the_sum_over_the_iterations(trips, dw, dx):
    """y = x w^n:  dw = n x w^(n-1)"""
    feeds = {"x": np.ones(2, "f"), "n": np.array(trips), "y.grad": np.ones(2, "f")}
    results, _ = gradient(LOOP, feeds, wrt=["w", "x"])
    assert results["w.grad"].tolist() == dw
    assert results["x.grad"].tolist() == dx


@pytest.mark.parametrize("text", [IF, LOOP], ids=["If", "Loop"])
def test_no_name_is_defined_twice_even_in_other_sub_graphs(text):
    first = og.gradient_model(onnx.parser.parse_model(text), wrt=["x"])
    second = og.gradient_model(first, wrt=["x"], of=["x.grad"])
    names = names_of(og.to_proto(second).graph)
    assert len(names) == len(set(names))


def test_the_backward_loop_drops_what_it_does_not_need():
    """The gradient of y = s w by s does not depend on s: no state is recorded."""
    _, proto = gradient(LOOP, {"x": np.ones(2, "f"), "n": np.array(2), "y.grad": np.ones(2, "f")}, wrt=["x"])
    forward, backward = [node for node in proto.graph.node if node.op_type == "Loop"]
    assert len(forward.output) == 2  # the state, and the number of each iteration
    assert len(backward.output) == 1


def test_scan_outputs_that_a_node_leaves_out_do_no_harm():
    """The body puts out a row that the node has no output for; the states are recorded behind it."""
    text = f"""{HEAD} g (float[2] x, int64 n) => (float[2] y) {{
        y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] row) {{
            d = Identity(c) row = Neg(s) t = Mul(s, s) }}> (n, , x) }}"""
    model = og.gradient_model(onnx.parser.parse_model(text), wrt=["x"])
    loop = next(node for node in model.graph if node.op_type == "Loop")
    assert len(loop.outputs) == len(loop.attributes["body"].as_graph().outputs) - 1
    feeds = {"x": np.array([2, 3], "f"), "n": np.array(2), "y.grad": np.ones(2, "f")}
    assert evaluate(og.to_proto(model), feeds)["x.grad"].tolist() == [4 * 2**3, 4 * 3**3]


def test_random_numbers_that_the_gradient_needs_are_refused_for_they_would_be_drawn_again():
    with pytest.raises(og.errors.GradientError, match="random numbers that RandomNormalLike drew inside a sub-graph"):
        og.gradient_model(onnx.parser.parse_model(WALK), wrt=["x"])


def test_random_numbers_that_the_gradient_does_not_need_do_no_harm():
    text = WALK.replace("t = Mul(s, noise)", "u = Add(s, s) t = Add(u, noise)")
    results, _ = gradient(text, {"x": np.ones(2, "f"), "n": np.array(3), "y.grad": np.ones(2, "f")}, wrt=["x"])
    assert results["x.grad"].tolist() == [8, 8]


def test_dropout_that_is_switched_off_is_no_random_number():
    text = f"""{HEAD} g (bool c, float[2] x) => (float[2] y) {{
        half = Constant <value = float {{0.5}}> () off = Constant <value = bool {{0}}> ()
        y = If (c) <then_branch = t () => (float[2] p) {{ d = Dropout(x, half, off) p = Mul(d, d) }},
                    else_branch = e () => (float[2] q) {{ q = Identity(x) }}> }}"""
    feeds = {"c": np.array(True), "x": np.array([2, 3], "f"), "y.grad": np.ones(2, "f")}
    assert gradient(text, feeds, wrt=["x"])[0]["x.grad"].tolist() == [4, 6]


def test_a_branch_that_the_ranks_rule_out_is_no_obstacle():
    """Exporters write Squeeze as an If: the rank of its result is known only from the convolution behind it."""
    text = f"""{HEAD} g (float[1,2,T] x, float[2,2,1] w) => (float[1,2,T] y) {{
        at = Constant <value = int64[1] {{0}}> () one = Constant <value = int64[1] {{2}}> ()
        shape = Shape(x) dim = Gather(shape, at) alone = Equal(dim, one)
        z = If (alone) <then_branch = t () => (float[2,T] p) {{ p = Squeeze(x, at) }},
                        else_branch = e () => (float[1,2,T] q) {{ q = Identity(x) }}>
        a = Relu(z) y = Conv(a, w) }}"""
    x, w = np.ones((1, 2, 3), "f"), np.array([[[1], [2]], [[3], [4]]], "f")
    results, _ = gradient(text, {"x": x, "w": w, "y.grad": np.ones((1, 2, 3), "f")}, wrt=["x"])
    assert results["x.grad"].tolist() == [[[4, 4, 4], [6, 6, 6]]]
