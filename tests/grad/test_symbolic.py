"""Gradients of variables of a computing graph: the rows of tables F9-F11 and L, virtual and real."""

import gc
import warnings
import weakref

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, GradientRuleMissing, GraphError, OpsetError, OptionError
from onnxgrad.engine.graph.expansion import GRADIENTS
from onnxgrad.engine.graph.marks import PRIORITY
from onnxgrad.engine.graph.outspec import copy_output
from onnxgrad.grad.registry import RULES
from tests.engine.text_models import f32, floats

BOTH = pytest.mark.parametrize("virtual", [False, True], ids=["real", "virtual"])


def values(variables, **feeds):
    """The values of variables, which a function is compiled for; with those that are fed, so that all are needed."""
    graph = variables[0].graph
    fed = [variable for variable in graph.inputs if variable.name in feeds]
    function = graph.compile(None, [copy_output(variable) for variable in (*variables, *fed)])
    return function(**feeds)[: len(variables)]


def gradients(*given, **options):
    """og.gradients, without the types that would want a check for None each time."""
    return og.gradients(*given, **options)


def value(variable, **feeds):
    return values([variable], **feeds)[0]


def perceptron():
    graph = og.Graph()
    x, w, b = graph.input("x", shape=("N", 3)), graph.input("w", shape=(3, 2)), graph.input("b", shape=(2,))
    loss = og.op.Tanh(x @ w + b).sum()
    return graph, loss, (x, w, b)


FEEDS = {"x": floats(4, 3) / 5, "w": floats(3, 2) / 3, "b": f32([0.5, -0.5])}


def expected_gradients(x, w, b):
    slope = 1 - np.tanh(x @ w + b) ** 2
    return slope @ w.T, x.T @ slope, slope.sum(0)


@BOTH
def test_F10_gradients_agree_with_those_worked_out_by_hand(virtual):
    _, loss, wrt = perceptron()
    found = gradients(loss, wrt, use_virtual_grad=virtual)
    for grad, expected in zip(values(found, **FEEDS), expected_gradients(**FEEDS), strict=True):
        np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=1e-6)


def test_F10_gradients_are_virtual_from_level_two_on():
    for level, virtual in ((0, False), (1, False), (2, True), (3, True), (-2, True), (-1, False)):
        graph, loss, (x, _, _) = perceptron()
        graph.options.graph_opt_level = level
        grad = gradients(loss, x)
        assert (grad.value.producer().op_type == "VirtualGrad") is virtual


def test_F10_virtual_gradients_are_one_node_for_each_variable():
    graph, loss, wrt = perceptron()
    before = len(graph.ir)
    gradients(loss, wrt, use_virtual_grad=True)
    assert len(graph.ir) == before + len(wrt)


@pytest.mark.parametrize("virtual", [False, True, None])
def test_Q2_what_does_not_depend_is_none_with_all_defaults_too(virtual):
    graph, loss, (x, _, _) = perceptron()
    apart = graph.input("apart", shape=(2,))
    grads = gradients(loss, [x, apart], use_virtual_grad=virtual)
    assert grads[1] is None
    assert grads[0] is not None


def test_F11_a_list_gives_a_list_and_a_variable_a_variable():
    _, loss, (x, w, _) = perceptron()
    assert isinstance(gradients(loss, x), og.Var)
    assert isinstance(gradients(loss, (x, w)), list)


def test_Q3_a_list_of_one_gives_a_list_of_one():
    _, loss, (x, _, _) = perceptron()
    assert gradients(loss, [x]) == [gradients(loss, x)]


def test_gradients_by_a_parameter_are_those_by_its_variable():
    graph = og.Graph()
    shared = og.SharedTensor(f32([1, 2]))
    loss = (graph.param(shared) * 3).sum()
    assert gradients(loss, shared) == gradients(loss, graph.param(shared))


def test_gradients_of_values_of_a_model_work_as_before():
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    graph = ir.Graph([x], [], nodes=[], opset_imports={"": 20})
    node = ir.node("ReduceSum", [x], {"keepdims": 0})
    graph.append(node)
    node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([])
    node.outputs[0].name = "y"
    assert [grad is not None for grad in gradients(node.outputs[0], [x])] == [True]


def test_L1_target_and_variable_of_two_graphs_are_refused():
    _, loss, _ = perceptron()
    _, _, (x, _, _) = perceptron()
    with pytest.raises(GraphError, match="belongs to graph"):
        gradients(loss, x)


def test_L1_targets_of_two_graphs_are_refused():
    _, loss, (x, _, _) = perceptron()
    _, other, _ = perceptron()
    with pytest.raises(GraphError, match="variables of one graph"):
        gradients([loss, other], x)


@BOTH
def test_L1_a_target_of_several_elements_is_refused(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    with pytest.raises(GraphError, match="grad target var must be scalar"):
        gradients(x * 2, x, use_virtual_grad=virtual)


@BOTH
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_L1_one_element_of_any_rank_is_a_scalar(virtual, shape):
    graph = og.Graph()
    x = graph.input("x", shape=shape)
    grad = gradients(x * x, x, use_virtual_grad=virtual)
    assert value(grad, x=np.full(shape, 3, np.float32)) == np.full(shape, 6)


@BOTH
@pytest.mark.parametrize("shape", [("N",), ("N", "M"), None])
def test_L1_a_target_of_unknown_shape_is_checked_when_it_runs(virtual, shape):
    graph = og.Graph()
    x = graph.input("x", shape=shape)
    function = graph.compile([x], copy_output(gradients(x * x, x, use_virtual_grad=virtual)))
    rank = 1 if shape is None else len(shape)
    assert function(np.full([1] * rank, 3, np.float32)) == np.full([1] * rank, 6)
    with pytest.raises(GraphError, match="grad target var must be scalar"):
        function(np.ones([2] + [1] * (rank - 1), np.float32))


@BOTH
def test_a_seed_takes_the_place_of_one(virtual):
    graph = og.Graph()
    x, dy = graph.input("x", shape=(3,)), graph.input("dy", shape=(3,))
    grad = gradients(x * x, x, seed=dy, use_virtual_grad=virtual)
    assert value(grad, x=f32([1, 2, 3]), dy=f32([1, 10, 100])).tolist() == [2, 40, 600]


@BOTH
def test_L11_gradients_of_several_targets_add_up(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    grad = gradients([x.sum(), x * x], x, seed=[None, np.asarray([1, 2])], use_virtual_grad=virtual)
    assert value(grad, x=f32([3, 4])).tolist() == [7, 17]


def test_seeds_that_are_not_as_many_as_targets_are_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with pytest.raises(GradientError, match="2 targets need as many seeds"):
        gradients([x.sum(), x.mean()], x, seed=[1.0])


@BOTH
def test_L2_a_variable_that_is_computed_warns_and_works(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = x * 2
    with pytest.warns(UserWarning, match="may be wrong"):
        grad = gradients((y * y).sum(), y, use_virtual_grad=virtual)
    assert value(grad, x=f32([1, 2])).tolist() == [4, 8]


def test_L2_the_warning_can_be_switched_off_and_inputs_have_none():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients(y.sum(), y, warn_mid_wrt=False)
        gradients(y.sum(), x)
        gradients((graph.constant([1.0]) * x).sum(), [graph.constant([1.0])])


@BOTH
def test_L3_no_dependence_gives_zeros_where_asked_and_warns(virtual):
    graph = og.Graph()
    x, z = graph.input("x", shape=(2,)), graph.input("z", shape=("N", 2))
    with pytest.warns(UserWarning, match="does not depend"):
        grad = gradients(x.sum(), z, use_virtual_grad=virtual, return_zero_for_nodep=True)
    assert value(grad, z=floats(3, 2)).tolist() == [[0, 0]] * 3


@BOTH
@pytest.mark.parametrize("through", ["Shape", "Sign", "ArgMax"])
def test_L3_an_operator_without_derivative_is_no_dependence(virtual, through):
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    y = getattr(og.op, through)(x).astype("float32").sum()
    assert gradients(y, x, use_virtual_grad=virtual) is None


@BOTH
def test_L4_the_gradient_of_a_variable_by_itself_is_one(virtual):
    graph = og.Graph()
    x = graph.input("x", "float64", (1,))
    grad = gradients(x, x, use_virtual_grad=virtual)
    assert grad.dtype == np.float64
    assert value(grad, x=np.asarray([5.0])) == [1]


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


def test_L5_a_custom_gradient_that_asks_for_itself_is_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    targets: list[og.Var] = []
    targets.append(og.set_grad(x, lambda: gradients(targets[0], x)).sum())
    (loss,) = targets
    with pytest.raises(GraphError, match="infinite recursion"):
        gradients(loss, x)


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


@BOTH
def test_L8_a_custom_gradient_of_another_shape_is_refused(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.set_grad(x, lambda dy: graph.constant(np.ones(3), "float32"))
    with pytest.raises(GraphError, match="grad should have same shape as original var"):
        gradients(y.sum(), x, use_virtual_grad=virtual)


@pytest.mark.parametrize(("shape", "size", "fits"), [(("N",), 3, True), (("N",), 2, False), (None, 3, True)])
def test_L8_shapes_that_are_not_known_are_compared_when_it_runs(shape, size, fits):
    graph = og.Graph()
    x, other = graph.input("x", shape=shape), graph.input("other", shape=("M",))
    y = og.set_grad(x, lambda dy: other * 2)
    function = graph.compile([x, other], copy_output(gradients(y, x, seed=other)))
    if fits:
        assert np.array_equal(function(floats(3), floats(3)), [-4, -2, 0])
    else:
        with pytest.raises(GraphError, match="grad should have same shape as original var: the custom gradient of x"):
            function(floats(3), floats(size))


def test_L8_a_gradient_of_another_rank_is_refused_when_it_runs():
    graph = og.Graph()
    x, other = graph.input("x"), graph.input("other", shape=("M", "K"))
    y = og.set_grad(x, lambda dy: other * 2)
    function = graph.compile([x, other], copy_output(gradients(y, x, seed=other)))
    with pytest.raises(GraphError, match="grad should have same shape as original var"):
        function(f32(1), f32([[1]]))


def test_L8_known_shapes_cost_no_node():
    graph, loss, wrt = perceptron()
    gradients(loss, wrt, use_virtual_grad=False)
    assert not any((node.name or "").startswith("check") for node in graph.ir)


def test_L8_a_custom_gradient_of_another_dtype_is_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.set_grad(x, lambda dy: dy.astype("float64"))
    with pytest.raises(GraphError, match="must have the dtype"):
        gradients(y.sum(), x)


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


@pytest.mark.parametrize("virtual", [False, True, None])
def test_L10_a_custom_gradient_is_used(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    y = og.set_grad(x, lambda dy: og.op.Clip(dy, -1.0, 1.0))
    loss, grad = values([(y * 5).sum(), gradients((y * y).sum(), x, use_virtual_grad=virtual)], x=f32([0.25, 3, -9]))
    assert loss == -28.75
    assert grad.tolist() == [0.5, 1, -1]


def test_L10_a_function_without_arguments_may_ask_for_the_target():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    found: list[og.Var] = []
    y = og.set_grad(x, lambda: gradients(og.current_grad_target(), found[0], warn_mid_wrt=False) * 10)
    found.append(y)
    assert value(gradients((y * y).sum(), x), x=f32([1, 2])).tolist() == [20, 40]


def test_L10_the_target_is_known_in_a_custom_gradient_only():
    with pytest.raises(GraphError, match="no gradient is being taken"):
        og.current_grad_target()


def test_L10_a_function_of_two_arguments_is_refused():
    graph = og.Graph()
    with pytest.raises(OptionError, match="takes the gradient of the result, or nothing"):
        og.set_grad(graph.input("x"), lambda dy, graph: dy)  # type: ignore[arg-type]


@BOTH
@pytest.mark.parametrize("stop", [og.zero_grad, lambda x: og.set_grad(x, None), lambda x: og.set_grad(x, lambda: None)])
def test_L10_a_stopped_gradient_does_not_flow(virtual, stop):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    loss, grad = (x * stop(x)).sum(), None
    grad = gradients(loss, x, use_virtual_grad=virtual)
    assert value(grad, x=f32([3, 4])).tolist() == [3, 4]
    assert value(loss, x=f32([3, 4])) == 25


@BOTH
def test_L10_behind_a_stop_there_is_no_dependence(virtual):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    assert gradients(og.zero_grad(x).sum(), x, use_virtual_grad=virtual) is None


def test_two_custom_gradients_of_one_variable_are_two():
    graph = og.Graph()
    x = graph.input("x", shape=(1,))
    first, second = og.set_grad(x, lambda dy: dy * 2), og.set_grad(x, lambda dy: dy * 30)
    assert value(gradients(first + second, x), x=f32([1])) == [32]


@pytest.mark.parametrize("orders", [(a, b) for a in (False, True) for b in (False, True)])
def test_second_derivatives_agree_with_those_worked_out_by_hand(orders):
    graph = og.Graph()
    x = graph.input("x", "float64", (3,))
    first = gradients((x**3).sum(), x, use_virtual_grad=orders[0])
    second = gradients((first * first).sum(), x, use_virtual_grad=orders[1])
    given = np.asarray([1.0, 2.0, -1.0])
    np.testing.assert_allclose(value(second, x=given), 36 * given**3)


def test_third_derivatives_work():
    graph = og.Graph()
    x = graph.input("x", "float64", ())
    y = og.op.Sin(x)
    for _ in range(3):
        y = gradients(y, x)
    np.testing.assert_allclose(value(y, x=np.asarray(0.7)), -np.cos(0.7))


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


def test_opsets_before_scatters_that_add_are_refused():
    graph = og.Graph(opset=13)
    x = graph.input("x", shape=(1,))
    with pytest.raises(OpsetError, match="opset 18"):
        gradients(x * 2, x)


def test_a_target_of_integers_is_refused():
    graph = og.Graph()
    x = graph.input("x", "int64", ())
    with pytest.raises(GradientError, match="only floating-point"):
        gradients(x, x)


def test_nothing_but_variables_can_be_differentiated_by():
    _, loss, _ = perceptron()
    with pytest.raises(GraphError, match="is no variable"):
        gradients(loss, ["x"])


def test_straight_through_holds_for_gradients_that_are_asked_for_in_it():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with og.straight_through("Round"):
        grad = gradients((og.op.Round(x) * 3).sum(), x)
    assert value(grad, x=f32([1.2, 2.7])).tolist() == [3, 3]


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


def test_stop_gradient_of_a_variable_is_another_variable():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    assert value(gradients((x * og.stop_gradient(x)).sum(), x), x=f32([3, 4])).tolist() == [3, 4]
    with pytest.raises(GradientError, match="one by one"):
        og.stop_gradient(x, x)  # type: ignore[call-overload]


@pytest.mark.parametrize("virtual", [True, None])
def test_a_custom_gradient_in_a_body_is_used(virtual):
    graph = og.Graph()
    x, c = graph.input("x", shape=(2,)), graph.input("c", "bool", ())
    y = og.op.If(c, then_branch=lambda: og.set_grad(x * 2, lambda dy: dy * 100), else_branch=lambda: x)
    grad = gradients(y.sum(), x, use_virtual_grad=virtual)
    assert value(grad, x=f32([1, 2]), c=np.asarray(True)).tolist() == [200, 200]


def test_L11_a_virtual_gradient_that_nothing_expands_is_an_error(monkeypatch):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    grad = gradients(x.sum(), x, use_virtual_grad=True)
    monkeypatch.delitem(GRADIENTS, "VirtualGrad")
    with pytest.raises(GraphError, match="VirtualGrad"):
        graph.compile([x], copy_output(grad))


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
