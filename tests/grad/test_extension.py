"""What users add: rules of their own for operators, standard ones too, and for functions; values taken as constants."""

import numpy as np
import pytest
from onnx import parser

import onnxgrad as og
from onnxgrad.engine.errors import GradientRuleMissing
from onnxgrad.grad import registry
from onnxgrad.grad.gradient_model import gradient_model
from tests.engine.text_models import f32, model_of
from tests.grad.checks import Arrays, run_in_onnxruntime

HEADER = '<ir_version: 10, opset_import: ["": 21, "my": {version}]>'


@pytest.fixture(autouse=True)
def _rules_of_this_test_only(monkeypatch):
    monkeypatch.setattr(registry, "RULES", {key: list(found) for key, found in registry.RULES.items()})


def model_with_mine(graph, functions="", version=1):
    return parser.parse_model(f"{HEADER.format(version=version)} {graph} {functions}")


def gradient_at(model, x, seed=None) -> Arrays:
    proto = og.to_proto(gradient_model(model, wrt=["x"]))
    return run_in_onnxruntime(proto, {"x": f32(x), "y.grad": np.ones_like(f32(x)) if seed is None else f32(seed)})


def test_a_rule_of_a_user_goes_before_that_of_the_package():
    relu = model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    assert gradient_at(relu, [-1, 1])["x.grad"].tolist() == [0, 1]

    @og.register_gradient("Relu")
    def leaky(op, node, dy):
        return (op.Where(op.Greater(node.inputs[0], 0.0), dy, op.Mul(dy, 0.5)),)

    assert gradient_at(relu, [-1, 1])["x.grad"].tolist() == [0.5, 1]


def test_an_operator_declared_without_a_gradient_may_be_given_one():
    @og.register_gradient("Sign")
    def through(op, node, dy):
        return (dy,)

    sign = model_of("g (float[N] x) => (float[N] y) { y = Sign(x) }")
    assert gradient_at(sign, [-1, 1], [2, 3])["x.grad"].tolist() == [2, 3]


def test_the_rule_that_is_registered_last_wins():
    @og.register_gradient("Neg")
    def first(op, node, dy):
        return (op.Mul(dy, 2.0),)

    @og.register_gradient("Neg")
    def second(op, node, dy):
        return (op.Mul(dy, 3.0),)

    neg = model_of("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    assert gradient_at(neg, [1])["x.grad"].tolist() == [3]


@pytest.mark.parametrize(("version", "slope"), [(1, 10), (2, 20), (3, 20)])
def test_a_rule_holds_for_its_opsets(version, slope):
    @og.register_gradient("Foo", domain="my", until=2)
    def old(op, node, dy):
        return (op.Mul(dy, 10.0),)

    @og.register_gradient("Foo", domain="my", since=2)
    def new(op, node, dy):
        return (op.Mul(dy, 20.0),)

    body = f'<domain: "my", opset_import: ["": 21, "my": {version}]> Foo (a) => (b) {{ b = Neg(a) }}'
    graph = model_with_mine("g (float[N] x) => (float[N] y) { y = my.Foo(x) }", body, version)
    assert gradient_at(graph, [1])["x.grad"].tolist() == [slope]


def test_outside_of_its_opsets_a_rule_does_not_hold():
    @og.register_gradient("Foo", domain="my", since=2)
    def new(op, node, dy):
        return (dy,)

    with pytest.raises(GradientRuleMissing, match="my::Foo"):
        gradient_model(model_with_mine("g (float[N] x) => (float[N] y) { y = my.Foo(x) }"), wrt=["x"])


def test_a_rule_gets_none_for_outputs_that_nothing_depends_on():
    given = []

    @og.register_gradient("SinCos", domain="my")
    def sin_cos(op, node, d_sin, d_cos):
        given.append((d_sin is None, d_cos is None))
        return (op.Mul(d_sin, node.outputs[1]),)

    graph = "g (float[N] x) => (float[N] y) { s, c = my.SinCos(x) y = Neg(s) }"
    body = '<domain: "my", opset_import: ["": 21]> SinCos (a) => (s, c) { s = Sin(a) c = Cos(a) }'
    found = gradient_at(model_with_mine(graph, body), [0.5])["x.grad"]
    assert given == [(False, True)]
    np.testing.assert_allclose(found, [-np.cos(0.5)], rtol=1e-6)


def test_a_function_may_have_a_gradient_that_is_not_that_of_its_body():
    graph = "g (float[N] x) => (float[N] y) { h = my.Gate(x) y = Mul(h, h) }"
    model = model_with_mine(graph, '<domain: "my", opset_import: ["": 21]> Gate (a) => (b) { b = Identity(a) }')
    assert gradient_at(model, [3])["x.grad"].tolist() == [6]

    @og.register_gradient("Gate", domain="my")
    def gate(op, node, dy):
        return (op.Clip(dy, -1.0, 1.0),)

    assert gradient_at(model, [3])["x.grad"].tolist() == [1]


def test_the_walk_undoes_broadcasts_of_a_rule_that_asks_for_it():
    @og.register_gradient("Plus", domain="my", broadcasts=True)
    def plus(op, node, dy):
        return dy, dy

    graph = "g (float[1] x, float[N] z) => (float[N] y) { y = my.Plus(x, z) }"
    model = model_with_mine(graph, '<domain: "my", opset_import: ["": 21]> Plus (a, b) => (c) { c = Add(a, b) }')
    proto = og.to_proto(gradient_model(model, wrt=["x"]))
    got = run_in_onnxruntime(proto, {"x": f32([1]), "z": f32([1, 2, 3]), "y.grad": f32([1, 1, 1])})
    assert got["x.grad"].tolist() == [3]
