"""What functions do that no row of docs/semantics.md speaks of: aliases, hosts, observers, recursion."""

import time

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError
from tests.engine.graph.test_compiled import Net

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def net():
    return Net()


def test_a_function_cannot_be_called_by_its_own_callback(net):
    functions: list[og.GraphFunction] = []
    functions.append(net.graph.compile([net.x], (net.y, lambda value: functions[0](X))))
    with pytest.raises(GraphError, match="its own callbacks"):
        functions[0](X)


def test_an_output_of_a_constant_is_a_copy(net):
    constant = net.graph.constant(X)
    function = net.graph.compile([], og.copy_output(constant))
    function()[:] = 0
    np.testing.assert_array_equal(function(), X)


def test_an_output_that_is_a_parameter_is_a_copy_unless_it_is_borrowed(net):
    w = net.graph.param(net.w)
    copied, borrowed = net.graph.compile([], [og.copy_output(w), og.copy_output(net.graph.param(net.w))])()
    copied[:] = 0
    assert net.w.get().sum() == 6
    (borrowed,) = net.graph.compile([], [og.copy_output(w, borrow_mem=True)])()
    borrowed[:] = 7
    assert net.w.get().sum() == 21


def test_strings_and_integers_pass_through():
    graph = og.Graph()
    s = graph.input("s", str, ("N",))
    n = graph.input("n", "int32", ("N",))
    seen = []
    function = graph.compile(
        [s, n], [og.copy_output(og.op.Identity(s)), (og.op.Add(n, n), lambda v: seen.append(v.get()))]
    )
    (text,) = function(np.array(["a", "b"], object), np.array([1, 2], np.int32))
    assert list(text) == ["a", "b"]
    assert seen[0].tolist() == [2, 4]


def test_observers_see_every_node_with_its_values(net):
    seen = []
    net.graph.observers.append(lambda node, values: seen.append((node.op_type, [value.shape for value in values])))
    net.graph.compile([net.x], og.copy_output(net.y))(X)
    assert seen == [("Mul", [(2, 3)]), ("Add", [(2, 3)])]


def test_an_observer_that_raises_keeps_parameters_as_they_were(net):
    def observer(node, values):
        raise ZeroDivisionError

    net.graph.observers.append(observer)
    function = net.graph.compile([net.x], og.add_update(net.graph.param(net.w), net.y.sum(0)))
    with pytest.raises(ZeroDivisionError):
        function(X)
    np.testing.assert_array_equal(net.w, [1, 2, 3])
    net.graph.observers.clear()
    function(X)
    assert np.asarray(net.w)[0] > 1


def on_host(x):
    """The two largest of x: uint64[N], which onnxruntime has no kernel for."""
    return og.op.TopK(x, [2])[0]


def test_a_function_that_runs_partly_on_the_host_updates_and_calls_back():
    graph = og.Graph()
    x = graph.input("x", "uint64", ("N",))
    w = og.SharedTensor(np.zeros(2, np.float32))
    largest = on_host(x + np.uint64(1))
    seen = []
    watched = graph.callback(largest, lambda value: seen.append(value.get()))
    updated = og.add_update(graph.param(w), watched.astype("float32") * 2.0)
    function = graph.compile([x], [og.copy_output(largest), updated])
    plan = function._execution._plan
    assert plan is not None
    assert len(plan.regions) == 3
    given = np.array([5, 7, 1], np.uint64)
    for count in (1, 2):
        (result,) = function(given)
        np.testing.assert_array_equal(result, [8, 6])
        np.testing.assert_array_equal(w, [16 * count, 12 * count])
    assert [value.tolist() for value in seen] == [[8, 6]] * 2


def test_parts_of_which_one_runs_on_the_host_hand_values_on():
    graph = og.Graph()
    x = graph.input("x", "uint64", ("N",))
    largest = on_host(x)
    first, second = graph.compile_multi_part([([x], largest), ([], og.copy_output(largest.astype("float32") + 1.0))])
    first(np.array([5, 7, 1], np.uint64))
    np.testing.assert_array_equal(second(), [8, 6])


def test_Q23_waiting_waits_for_what_runs_before_it_waits_for_callbacks(net):
    seen = []

    def slow(value):
        time.sleep(0.01)
        seen.append(value.get())

    function = net.graph.compile([net.x], (net.y, slow))
    for _ in range(5):
        function.start(X)
    function.wait()  # callbacks of runs that had not begun are over too
    assert len(seen) == 5
