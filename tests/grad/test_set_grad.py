"""Custom gradients of variables: row L10, and what L5 and L8 check of them."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, GraphError, OptionError
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import f32, floats
from tests.grad.test_symbolic import BOTH, gradients, value, values


def test_L5_a_custom_gradient_that_asks_for_itself_is_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    targets: list[og.Var] = []
    targets.append(og.set_grad(x, lambda: gradients(targets[0], x)).sum())
    (loss,) = targets
    with pytest.raises(GraphError, match="infinite recursion"):
        gradients(loss, x)


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


def test_L8_a_custom_gradient_of_another_dtype_is_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    y = og.set_grad(x, lambda dy: dy.astype("float64"))
    with pytest.raises(GraphError, match="must have the dtype"):
        gradients(y.sum(), x)


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
