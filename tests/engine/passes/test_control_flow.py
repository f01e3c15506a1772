"""If with a known condition, Loop with a known number of rounds."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.passes.inline_branches import inline_branches
from onnxgrad.engine.passes.unroll_loops import unroll_loops
from tests.engine.passes.checks import apply, check, f32, model_of, operators

IF = (
    "o = If(c)<then_branch = tg () => (float[2] to) { t = Add(x, k) to = Mul(t, k) }, "
    "else_branch = eg () => (float[2] eo) { t = Sub(x, k) eo = Exp(t) }>"
)
LOOP = (
    "<body = b (int64 i, bool ci, float[1] a) => (bool co, float[1] a2, float[1] so) "
    "{ co = Identity(ci) f = Cast<to=1>(i) h = Add(a, f) a2 = Add(h, one) so = Mul(a, one) }>"
)


@pytest.mark.parametrize(("condition", "left"), [(True, ["Add", "Mul", "Relu"]), (False, ["Exp", "Relu", "Sub"])])
def test_a_known_condition_takes_its_branch(condition, left):
    model = model_of(f"g (float[2] x) => (float[2] y) {{ {IF} y = Relu(o) }}", c=np.array(condition), k=f32(2, 3))
    assert operators(check(model, inline_branches, hits=1)) == left


def test_names_of_two_branches_do_not_clash():
    second = IF.replace("o = If", "y = If").replace("Add(x, k)", "Add(o, k)")
    model = model_of(f"g (float[2] x) => (float[2] y) {{ {IF} {second} }}", c=np.array(True), k=f32(2, 3))
    assert operators(check(model, inline_branches, hits=2)) == ["Add", "Add", "Mul", "Mul"]


def test_an_unknown_condition_stays():
    check(
        model_of(f"g (float[2] x, bool c) => (float[2] y) {{ {IF} y = Relu(o) }}", k=f32(2, 3)), inline_branches, hits=0
    )


def test_an_overridable_condition_stays():
    model = model_of(f"g (float[2] x, bool c) => (float[2] y) {{ {IF} y = Relu(o) }}", c=np.array(True), k=f32(2, 3))
    check(model, inline_branches, hits=0)


def test_a_branch_that_gives_an_outer_value_or_an_initializer():
    text = (
        "g (float[2] x) => (float[2] y, float[2] z) { r = Relu(x) y = If(c)<then_branch = t () => (float[2] to) { to "
        "= Identity(r) }, "
        "else_branch = e () => (float[2] eo) { eo = Neg(r) }> z = If(c)<then_branch = u () => (float[2] uo) "
        "<float[2] uo = {7, 8}> { }, else_branch = v () => (float[2] vo) { vo = Neg(r) }> }"
    )
    check(model_of(text, c=np.array(True)), inline_branches, hits=2)


def test_a_branch_in_a_branch():
    inner = IF.replace("o = If", "to = If").replace("to) {", "ti) {").replace("to = Mul", "ti = Mul")
    text = (
        f"g (float[2] x) => (float[2] y) {{ y = If(c)<then_branch = a () => (float[2] to) {{ {inner} }}, "
        f"else_branch = b () => (float[2] no) {{ no = Neg(x) }}> }}"
    )
    model = model_of(text, c=np.array(True), k=f32(2, 3))
    assert operators(check(model, inline_branches, inline_branches)) == ["Add", "Mul"]


LOOPS = [
    # trip count, condition, Loops that are left
    (0, True, 0),
    (1, True, 0),
    (3, True, 0),
    (5, False, 0),
    (100, True, 1),
]


@pytest.mark.parametrize(("count", "condition", "left"), LOOPS)
def test_few_rounds_are_unrolled(count, condition, left):
    model = model_of(
        f"g (float[1] x) => (float[1] y, float[k,1] s) {{ y, s = Loop(n, c, x){LOOP} }}",
        n=np.array(count), c=np.array(condition), one=f32(1),
    )  # fmt: skip
    assert operators(check(model, unroll_loops)).count("Loop") == left


def test_captured_values_stay_inputs():
    body = (
        "<body = b (int64 i, bool ci) => (bool co, float[2] s) { co = Identity(ci) r = Gather<axis=0>(x, i) s = "
        "Mul(r, r) }>"
    )
    model = model_of(f"g (float[3,2] x) => (float[3,2] y) {{ y = Loop(n, c){body} }}", n=np.array(3), c=np.array(True))
    assert operators(check(model, unroll_loops, hits=1)).count("Gather") == 3


STAYS = {
    "a computed condition": "<body = b (int64 i, bool ci, float[1] a) => (bool co, float[1] a2, float[1] so) "
    "{ s = ReduceSum<keepdims=0>(a) s2 = Constant<value_float=9.0>() co = Less(s, s2) a2 = Add(a, one) so = Mul(a, "
    "one) }>",
    "random numbers": "<body = b (int64 i, bool ci, float[1] a) => (bool co, float[1] a2, float[1] so) "
    "{ co = Identity(ci) u = RandomUniform<shape=[1], seed=1.0>() a2 = Add(a, u) so = Mul(a, one) }>",
}


@pytest.mark.parametrize("name", STAYS)
def test_other_loops_stay(name):
    text = f"g (float[1] x) => (float[1] y, float[k,1] s) {{ y, s = Loop(n, c, x){STAYS[name]} }}"
    model = model_of(text, n=np.array(2), c=np.array(True), one=f32(1))
    assert "Loop" in operators(apply(model, unroll_loops)[0])


def test_no_round_of_a_scan_of_unknown_shape_stays():
    body = "<body = b (int64 i, bool ci) => (bool co, float[m] s) { co = Identity(ci) s = Abs(x) }>"
    model = model_of(f"g (float[N] x) => (float[k,m] y) {{ y = Loop(n, c){body} }}", n=np.array(0), c=np.array(True))
    check(model, unroll_loops, hits=0)


def test_a_body_goes_away_while_a_pass_is_on_its_way():
    text = (
        "g (float[2] x, bool p) => (float[2] y) { y = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] a) => "
        "(bool co, float[2] r) { o = If(p)<then_branch = t () => (float[2] to) { to = Identity(a) }, "
        "else_branch = e () => (float[2] eo) { eo = Identity(x) }> s = Shape(o) z = ConstantOfShape(s) "
        "co = Identity(ci) r = Add(z, a) }> }"
    )
    result = og.optimize_for_inference(model_of(text, n=np.array(2), c=np.array(True)), check=1)
    assert "If" not in operators(result)


def test_a_body_declares_the_sizes_of_its_inputs_as_before():
    text = (
        "g (float[N, M] x, int64 n, bool c) => (float[N, M] y, float[K, N, M] z) { y, z = Loop(n, c, x)<body = b "
        "(int64 i, bool ci, float[3, 4] a) => (bool co, float[3, 4] r, float[3, 4] s) "
        "{ co = Identity(ci) s = Exp(a) r = Identity(s) }> }"
    )
    (loop,) = og.optimize_for_inference(model_of(text)).graph
    assert loop.attributes["body"].as_graph().inputs[2].shape == [3, 4]
