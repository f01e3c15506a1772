"""Gradients of variables of a computing graph: the rows of tables F9-F11 and L, virtual and real."""

import warnings

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, GraphError, OpsetError
from onnxgrad.engine.graph.expansion import GRADIENTS
from onnxgrad.engine.graph.outspec import copy_output
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


def test_gradients_by_volatile_parameters_and_scalars_are_those_by_their_variables():
    graph = og.Graph()
    shared, scalar = og.SharedTensor(f32([1, 2])), og.SharedScalar(3.0)
    loss = (graph.param(shared, volatile=True) * scalar).sum()
    by_shared, by_scalar = values(gradients(loss, [shared, scalar]))
    assert (by_shared.tolist(), by_scalar) == ([3, 3], 3)


def test_a_parameter_that_the_graph_does_not_read_is_refused():
    _, loss, _ = perceptron()
    with pytest.raises(GraphError, match="does not read"):
        gradients(loss, og.SharedTensor(f32([1, 2])))


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


def test_a_tensor_that_two_variables_read_is_no_answer_to_what_to_differentiate_by():
    graph, w = og.Graph(), og.SharedTensor(f32([2, 3]))
    fixed, volatile = graph.param(w), graph.param(w, volatile=True)
    target = (fixed * volatile).sum()
    with pytest.raises(GraphError, match="two variables read"):
        og.gradients(target, w)
    np.testing.assert_array_equal(values(gradients(target, [fixed, volatile]))[0], f32([2, 3]))


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


def test_L8_known_shapes_cost_no_node():
    graph, loss, wrt = perceptron()
    gradients(loss, wrt, use_virtual_grad=False)
    assert not any((node.name or "").startswith("check") for node in graph.ir)


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


def test_L11_a_virtual_gradient_that_nothing_expands_is_an_error(monkeypatch):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    grad = gradients(x.sum(), x, use_virtual_grad=True)
    monkeypatch.delitem(GRADIENTS, "VirtualGrad")
    with pytest.raises(GraphError, match="VirtualGrad"):
        graph.compile([x], copy_output(grad))
