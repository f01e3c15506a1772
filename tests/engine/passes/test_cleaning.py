"""Dead code, equal initializers and nodes, constants, functions."""

import sys

import numpy as np
import pytest

from onnxgrad.engine.passes.fold_constants import fold_constants
from onnxgrad.engine.passes.inline_functions import inline_functions
from onnxgrad.engine.passes.lift_constants import lift_constants
from onnxgrad.engine.passes.merge_equal_nodes import merge_equal_nodes
from onnxgrad.engine.passes.merge_initializers import merge_initializers
from onnxgrad.engine.passes.remove_dead_code import remove_dead_code
from tests.engine.passes.checks import apply, check, f32, model_of, operators


def test_dead_nodes_and_initializers_go_and_inputs_stay():
    model = model_of(
        "g (float[2] x, float[2] unused, float[2] k) => (float[2] y) { a = Neg(x) b = Mul(a, w) y = Abs(x) }",
        w=f32(1, 2), k=f32(3, 4), nobody=f32(5, 6),
    )  # fmt: skip
    result = check(model, remove_dead_code)
    assert operators(result) == ["Abs"]
    assert list(result.graph.initializers) == ["k"]


def test_a_dead_loop_releases_what_its_body_reads():
    body = "<body = b (int64 i, bool ci) => (bool co, float[2] s) { co = Identity(ci) s = Add(a, a) }>"
    model = model_of(
        f"g (float[2] x, int64 n, bool c) => (float[2] y) {{ a = Neg(x) z = Loop(n, c){body} y = Abs(x) }}"
    )
    assert operators(check(model, remove_dead_code)) == ["Abs"]


def test_dead_code_in_bodies_goes():
    branch = (
        "<then_branch = t () => (float[2] u) { d = Neg(x) u = Abs(x) }, else_branch = e () => (float[2] v) { v "
        "= Neg(x) }>"
    )
    assert operators(
        check(model_of(f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c){branch} }}"), remove_dead_code, hits=1)
    )


def test_functions_without_calls_go():
    model = model_of(
        'g (float[2] x) => (float[2] y) { y = Abs(x) }\n<domain: "local", opset_import: ["" : 18]> f (a) => (b) { b '
        "= Neg(a) }",
        imports=', "local" : 1',
    )
    assert not check(model, remove_dead_code, hits=1).functions


MERGED = [
    # constants, initializers that are left
    ({"k": f32(1, 2), "m": f32(1, 2)}, 1),
    ({"k": f32(1, 2), "m": f32(1, 3)}, 2),
    ({"k": f32(0, 0), "m": f32(-0.0, 0)}, 2),
    ({"k": f32(np.nan, 0), "m": f32(np.nan, 0)}, 1),
    ({"k": f32(1, 2), "m": f32(1, 2).reshape(1, 2)}, 2),
    ({"k": np.arange(200, dtype=np.float32), "m": np.arange(200, dtype=np.float32)}, 1),
    ({"k": np.ones(200, np.float32), "m": np.r_[np.ones(199), 2].astype(np.float32)}, 2),
]


@pytest.mark.parametrize("case", range(len(MERGED)))
def test_initializers_of_equal_bytes_become_one(case):
    constants, left = MERGED[case]
    size = next(iter(constants.values())).size
    text = f"g (float[1,{size}] x) => (float[1,{size}] y) {{ a = Add(x, k) y = Div(a, m) }}"
    assert len(check(model_of(text, **constants), merge_initializers, remove_dead_code).graph.initializers) == left


def test_initializers_of_equal_bytes_and_another_dtype_stay():
    text = "g (float[2] x, int32[2] z) => (float[2] y, int32[2] w) { y = Add(x, a) w = Add(z, b) }"
    check(model_of(text, a=f32(0, 0), b=np.zeros(2, np.int32)), merge_initializers, hits=0)


EQUAL = {
    "the same twice": ("{ a = Abs(x) b = Abs(x) y = Add(a, b) }", 1),
    "a chain": ("{ a = Abs(x) b = Abs(x) c = Neg(a) d = Neg(b) y = Add(c, d) }", 2),
    "a default that is given": ("{ a = LeakyRelu(x) b = LeakyRelu<alpha=0.01>(x) y = Add(a, b) }", 1),
    "another attribute": ("{ a = LeakyRelu<alpha=0.1>(x) b = LeakyRelu<alpha=0.2>(x) y = Sub(a, b) }", 0),
    "0.0 and -0.0": ("{ a = LeakyRelu<alpha=0.0>(x) b = LeakyRelu<alpha=-0.0>(x) y = Add(a, b) }", 0),
    "another order of operands": ("{ e = Exp(x) a = Sub(x, e) b = Sub(e, x) y = Add(a, b) }", 0),
    "another operator": ("{ a = Ceil(x) b = Floor(x) y = Add(a, b) }", 0),
    "a graph output": ("{ a = Abs(x) y = Abs(x) b = Neg(a) }", 1),
    "an absent input": ("{ e = ReduceMax(x) a = Clip(x, e) b = Clip(x, , e) y = Add(a, b) }", 0),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_nodes_become_one(name):
    nodes, merged = EQUAL[name]
    check(model_of(f"g (float[4] x) => (float[4] y) {nodes}"), merge_equal_nodes, hits=merged)


def test_two_equal_outputs_keep_their_names():
    check(model_of("g (float[4] x) => (float[4] y, float[4] z) { y = Abs(x) z = Abs(x) }"), merge_equal_nodes, hits=1)


def _calls_to_merge(constants):
    nodes = " ".join(f"c{i} = Constant<value_float = {i}.0>() a{i + 1} = Mul(a{i}, c{i})" for i in range(constants))
    model = model_of(f"g (float[4] x) => (float[4] y) {{ a0 = Abs(x) {nodes} y = Neg(a{constants}) }}")
    calls = []
    sys.setprofile(lambda _frame, event, _what: calls.append(event) if event == "call" else None)
    try:
        apply(model, merge_equal_nodes)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_twice_as_many_constants_are_merged_in_twice_the_steps():
    assert _calls_to_merge(200) < 2.5 * _calls_to_merge(100)


def test_a_node_in_a_body_gives_way_to_one_outside():
    branch = (
        "<then_branch = t () => (float[2] u) { b = Exp(x) u = Abs(b) }, else_branch = e () => (float[2] v) { v "
        "= Exp(x) }>"
    )
    text = f"g (float[2] x, bool c) => (float[2] y, float[2] a) {{ a = Exp(x) y = If(c){branch} }}"
    assert operators(check(model_of(text), merge_equal_nodes, hits=2)).count("Exp") == 1


def test_a_node_of_one_branch_does_not_serve_the_other():
    branch = (
        "<then_branch = t () => (float[2] u) { b = Exp(x) u = Abs(b) }, else_branch = e () => (float[2] v) { d "
        "= Exp(x) v = Neg(d) }>"
    )
    check(model_of(f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c){branch} }}"), merge_equal_nodes, hits=0)


RANDOM = [
    "g () => (float[8] y) { a = RandomUniform<shape=[8]>() b = RandomUniform<shape=[8]>() y = Sub(a, b) }",
    "g () => (float[8] y) { a = RandomNormal<shape=[8]>() b = RandomNormal<shape=[8]>() y = Sub(a, b) }",
    "g (float[8] x) => (float[8] y) { a = RandomUniformLike(x) b = RandomUniformLike(x) y = Sub(a, b) }",
    "g (float[8] x) => (float[8] y) { a = Dropout(x, r, t) b = Dropout(x, r, t) y = Sub(a, b) }",
    "g () => (float[8] y) { a = Bernoulli(p) b = Bernoulli(p) y = Sub(a, b) }",
    "g () => (int32[1,4] y) { a = Multinomial<sample_size=4>(q) b = Multinomial<sample_size=4>(q) y = Sub(a, b) }",
]


@pytest.mark.parametrize("text", RANDOM)
def test_random_nodes_are_neither_merged_nor_folded(text):
    constants = {
        "r": np.float32(0.5),
        "t": np.array(True),
        "p": np.full(8, 0.5, np.float32),
        "q": np.ones((1, 3), np.float32),
    }
    _, record = apply(model_of(text, **constants), merge_equal_nodes, fold_constants)
    assert {name: entry.hits for name, entry in record.items()} == {"merge_equal_nodes": 0, "fold_constants": 0}


def test_a_random_function_is_neither_merged_nor_folded():
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = local.f(k) b = local.f(k) c = Sub(a, b) y = Add(x, c) }\n"
        '<domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = RandomUniformLike(a) }',
        imports=', "local" : 1', k=f32(1, 2),
    )  # fmt: skip
    _, record = apply(model, merge_equal_nodes, fold_constants)
    assert record["merge_equal_nodes"].hits == record["fold_constants"].hits == 0


def test_functions_are_inlined_also_nested_with_attributes():
    model = model_of(
        "g (float[2] x) => (float[2] y) { a = local.outer<alpha=0.5>(x) y = local.outer<alpha=0.25>(a) }\n"
        '<domain: "local", opset_import: ["" : 18]> inner <beta> (a) => (b) { b = LeakyRelu<alpha: float = @beta>(a) '
        "}\n"
        '<domain: "local", opset_import: ["" : 18, "local" : 1]> outer <alpha> (a) => (b) { b = local.inner<beta: '
        "float = @alpha>(a) }",
        imports=', "local" : 1',
    )
    result = check(model, inline_functions, remove_dead_code)
    assert operators(result) == ["LeakyRelu", "LeakyRelu"]
    assert [round(node.attributes["alpha"].as_float(), 2) for node in result.graph] == [0.5, 0.25]


def test_a_function_of_another_opset_stays():
    model = model_of(
        'g (float[2] x) => (float[2] y) { y = local.f(x) }\n<domain: "local", opset_import: ["" : 17]> f (a) => (b) '
        "{ b = Neg(a) }",
        imports=', "local" : 1',
    )
    check(model, inline_functions, hits=0)


def test_constant_nodes_become_initializers_of_the_same_name():
    model = model_of("g (float[2] x) => (float[2] y) { k = Constant<value_floats=[1.0, 2.0]>() y = Mul(x, k) }")
    result = check(model, lift_constants, hits=1)
    assert list(result.graph.initializers) == ["k"]


def test_a_constant_that_is_an_output_stays():
    model = model_of(
        "g (float[2] x) => (float[2] y, float[2] k) { k = Constant<value_floats=[1.0, 2.0]>() y = Mul(x, k) }"
    )
    check(model, lift_constants, hits=0)


def test_scalar_constants_keep_rank_and_dtype():
    model = model_of("g (float x, int64[2] z) => (float y, int64[2] w) "
                     "{ k = Constant<value_float=2.0>() y = Mul(x, k) n = Constant<value_int=3>() w = Add(z, n) "
                     "}")  # fmt: skip
    result = check(model, lift_constants, hits=2)
    assert [(t.const_value.dtype.name, tuple(t.shape)) for t in result.graph.initializers.values()] == [
        ("FLOAT", ()),
        ("INT64", ()),
    ]
