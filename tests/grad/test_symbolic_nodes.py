"""What gradients of variables add to a graph, of which operators, and what they leave: rows L5 to L7, L9, P11."""

import gc
import weakref

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientRuleMissing, GraphError
from onnxgrad.engine.graph.marks import PRIORITY
from onnxgrad.engine.graph.outspec import copy_output
from onnxgrad.grad.registry import RULES
from tests.engine.text_models import f32
from tests.grad.test_symbolic import BOTH, FEEDS, expected_gradients, gradients, perceptron, value, values


@BOTH
def test_L5_the_same_gradient_is_built_once(virtual):
    graph, loss, (x, w, _) = perceptron()
    first = gradients(loss, [x, w], use_virtual_grad=virtual)
    before = len(graph.ir)
    assert gradients(loss, [w, x], use_virtual_grad=virtual) == first[::-1]
    assert len(graph.ir) == before


def test_L5_gradients_of_one_target_share_their_nodes():
    together, loss, wrt = perceptron()
    gradients(loss, wrt, use_virtual_grad=False)
    apart, loss, wrt = perceptron()
    for each in wrt:
        gradients(loss, each, use_virtual_grad=False)
    assert len(apart.ir) == len(together.ir)


def test_L6_only_what_the_target_depends_on_is_visited():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    og.op.custom("NoRule", x, domain="nowhere")
    assert value(gradients((x * x).sum(), x), x=f32([1, 2])).tolist() == [2, 4]


def test_L6_an_operator_with_some_gradients_missing_gets_none_for_them(monkeypatch):
    seen: list[tuple] = []
    rule = RULES["", "Split"][0]

    def watch(op, node, *dys):
        seen.append(dys)
        return ()

    monkeypatch.setitem(RULES, ("", "Split"), [type(rule)("", "Split", watch)])
    graph = og.Graph()
    x = graph.input("x", shape=(4,))
    left, _ = og.op.Split(x, num_outputs=2)
    gradients(left.sum(), x, use_virtual_grad=False)
    assert [dy is None for dy in seen[0]] == [False, True]


@BOTH
def test_L7_a_missing_rule_is_told_when_the_gradient_is_asked_for(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.op.custom("NoRule", x, domain="nowhere")
    y.value.type, y.value.shape = x.value.type, x.value.shape
    with pytest.raises(GradientRuleMissing, match="no gradient rule for nowhere::NoRule"):
        gradients(y.sum(), x, use_virtual_grad=virtual)


@BOTH
def test_L7_a_missing_rule_beside_the_path_does_not_matter(virtual):
    graph = og.Graph()
    x, z = graph.input("x", shape=(2,)), graph.input("z", shape=(2,))
    y = og.op.custom("NoRule", z, domain="nowhere")
    y.value.type, y.value.shape = x.value.type, x.value.shape
    assert gradients((x * y).sum(), x, use_virtual_grad=virtual) is not None


def test_L7_an_invalid_gradient_may_be_built_and_not_compiled():
    graph = og.Graph()
    shared, x = og.SharedTensor(f32([1, 2])), graph.input("x", shape=(2,))
    updated = og.add_update(graph.param(shared), x)
    grad = gradients(updated.sum(), x, use_virtual_grad=False)
    assert value((x * 2).sum(), x=f32([1, 2])) == 6
    with pytest.raises(GraphError, match="invalid grad: can not take grad with respect to the 1'th input var"):
        graph.compile([x], copy_output(grad))


def test_L9_gradients_are_called_after_their_variable():
    for virtual in (True, False):
        _, loss, (x, w, _) = perceptron()
        assert [grad.name for grad in gradients(loss, [x, w], use_virtual_grad=virtual)] == ["grad[x]", "grad[w]"]


def test_L9_nodes_of_a_gradient_tell_what_they_differentiate():
    graph, loss, (x, _, _) = perceptron()
    before = set(graph.ir)
    gradients(loss, x, use_virtual_grad=False)
    assert {node.name.partition(".grad.")[0] for node in graph.ir if node not in before} >= {"MatMul", "Tanh"}


def test_L9_nodes_of_a_gradient_have_the_negative_priority():
    graph, loss, (x, _, _) = perceptron()
    matmul = next(node for node in graph.ir if node.op_type == "MatMul")
    matmul.meta[PRIORITY] = 7
    before = set(graph.ir)
    gradients(loss, x, use_virtual_grad=False)
    added = [node for node in graph.ir if node not in before]
    assert {node.meta.get(PRIORITY) for node in added if node.name.startswith("MatMul.grad.")} == {-7}
    assert {node.meta.get(PRIORITY) for node in added if node.name.startswith("Tanh.grad.")} == {None}


@BOTH
def test_what_only_a_gradient_is_taken_of_is_not_computed(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    function = graph.compile(
        [x], copy_output(gradients(og.op.Exp(og.op.Tanh(x)).sum() * 3, x, use_virtual_grad=virtual))
    )
    operators = [node.op_type for node in function._execution.lowered.model.graph]
    assert (operators.count("Exp"), operators.count("ReduceSum")) == (1, 0)


@BOTH
def test_an_operator_with_a_function_body_keeps_its_variable(virtual):
    graph = og.Graph()
    x = graph.input("x", "float64", (4,))
    y = og.op.Softsign(og.op.Mish(x))
    grad = gradients(og.op.SoftmaxCrossEntropyLoss(y[None], [1]) + y.sum(), x, use_virtual_grad=virtual)
    assert y.value.producer() is not None
    given = np.asarray([0.1, -2, 3, 0.5])
    assert values([y, grad], x=given)[0].shape == (4,)


def test_a_failing_gradient_leaves_the_graph_usable():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    bad = og.set_grad(x, lambda dy: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gradients(bad.sum(), x)
    assert value(gradients((x * x).sum(), x), x=f32([1, 2])).tolist() == [2, 4]


def test_P11_a_training_loop_accumulates_gradients_and_steps():
    graph, loss, _ = perceptron()
    x = graph.inputs[0]
    w = og.SharedTensor(FEEDS["w"])
    (loss,) = og.tools.replace_vars([loss], {graph.inputs[1]: graph.param(w)})
    (loss,) = og.tools.replace_vars([loss], {graph.inputs[2]: graph.constant(FEEDS["b"])})
    buffer = og.SharedTensor(np.zeros((3, 2), np.float32))
    backward = graph.compile([x], [copy_output(loss), og.add_update(graph.param(buffer), gradients(loss, w))])
    slope = expected_gradients(FEEDS["x"], FEEDS["w"], FEEDS["b"])[1]
    for _ in range(2):  # backward twice: gradients add up
        backward(FEEDS["x"])
    np.testing.assert_allclose(buffer.numpy(), 2 * slope, rtol=1e-5)
    og.add_update(w, buffer, beta=-0.1)  # step
    np.testing.assert_allclose(w.numpy(), FEEDS["w"] - 0.2 * slope, rtol=1e-5)
    buffer.zero()  # zero_grad
    assert not buffer.numpy().any()


def test_Q18_a_missing_rule_is_an_error_and_no_silence():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.op.custom("NoRule", x, domain="nowhere")
    y.value.type, y.value.shape = x.value.type, x.value.shape
    with pytest.raises(GradientRuleMissing):
        gradients((y + x).sum(), x)


def test_Q20_the_rule_that_was_registered_last_is_used(monkeypatch):
    monkeypatch.setitem(RULES, ("my.ops", "Twice"), [])
    for factor in (2.0, 5.0):

        @og.register_gradient("Twice", domain="my.ops")
        def rule(op, node, dy, factor=factor):
            return (op.Mul(dy, factor),)

    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.op.custom("Twice", x, domain="my.ops")
    y.value.type, y.value.shape = x.value.type, x.value.shape
    assert value(gradients(y, x, seed=np.ones(2)), x=f32([1, 2])).tolist() == [5, 5]


def used_graph():
    """A weak reference to a graph that much was asked of."""
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.set_grad(x, lambda dy: dy * x)
    gradients(y.sum(), x)
    graph.clone(y)
    og.tools.optimize_vars(x * 2)
    return weakref.ref(graph)


def test_a_graph_goes_when_nobody_holds_it_whatever_was_asked_of_it():
    gone = used_graph()
    gc.collect()
    assert gone() is None
