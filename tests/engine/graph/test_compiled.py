"""Table D of docs/semantics.md: compiled functions."""

import gc
import json
import logging
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import ExecutionError, GraphError, InputError, OptionError
from onnxgrad.engine.graph.outputs import PendingRun

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Net:
    """y = x * w + b with a parameter w, for functions that tests compile."""

    def __init__(self):
        self.graph = og.Graph()
        self.x = self.graph.input("x", "float32", ("N", 3))
        self.w = og.SharedTensor(np.array([1, 2, 3], np.float32), name="w")
        self.y = self.x * self.graph.param(self.w) + 1.0

    def __call__(self, x):
        return x * self.w.get() + 1


@pytest.fixture
def net():
    return Net()


class Gate:
    """A callback that keeps a run from being over until it is opened."""

    def __init__(self):
        self.opened = threading.Event()

    def __call__(self, value):
        value.get()
        assert self.opened.wait(10)


def test_D1_a_run_can_be_started_without_waiting_for_it(net):
    gate = Gate()
    function = net.graph.compile([net.x], [(net.y, gate), og.copy_output(net.y)])
    pending = function.start(X)
    assert isinstance(pending, PendingRun)
    gate.opened.set()
    function.wait()
    np.testing.assert_array_equal(pending.get()[0], net(X))


def test_D1_runs_of_one_function_follow_each_other_in_the_order_of_calls(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    pending = [function.start(X + k) for k in range(20)]
    function.wait()
    for k, output in enumerate(pending):
        np.testing.assert_array_equal(output.get(), net(X + k))


def test_D1_an_array_may_change_when_the_run_is_started(net):
    gate = Gate()
    function = net.graph.compile([net.x], [(net.y, gate), og.copy_output(net.y)])
    given = X.copy()
    first, second = function.start(given), function.start(given)
    given[:] = 100
    gate.opened.set()
    function.wait()
    np.testing.assert_array_equal(first.get()[0], net(X))
    np.testing.assert_array_equal(second.get()[0], net(X))


def test_D2_wait_returns_the_function_when_run_and_callbacks_are_over(net):
    seen = []
    function = net.graph.compile([net.x], (net.y, lambda value: seen.append(value.get())))
    for _ in range(3):
        function.start(X)
    assert function.wait() is function
    assert len(seen) == 3


def failing_function():
    graph = og.Graph()
    x = graph.input("x", "float32", ("N",))
    index = graph.input("index", "int64", ())
    return graph.compile([x, index], og.copy_output(og.op.Gather(x, index)))


def test_D2_an_asynchronous_error_is_raised_once():
    function = failing_function()
    function.start(X[0], np.array(9))
    with pytest.raises(ExecutionError, match="Gather"):
        function.wait()
    assert function.wait() is function


def test_D2_a_failed_run_does_not_stop_those_after_it():
    function = failing_function()
    function.start(X[0], np.array(9))
    good = function.start(X[1], np.array(2))
    with pytest.raises(ExecutionError):
        function.wait()
    assert good.get() == X[1, 2]


def test_D3_dropping_the_last_reference_waits_for_the_run(net):
    seen = []

    def slow(value):
        time.sleep(0.1)
        seen.append(value.get())

    function = net.graph.compile([net.x], (net.y, slow))
    function.start(X)
    del function
    gc.collect()
    assert len(seen) == 1


def test_D3_an_error_that_nobody_waited_for_is_logged(caplog):
    function = failing_function()
    function.start(X[0], np.array(9))
    with caplog.at_level(logging.ERROR, "onnxgrad.graph"):
        del function
        gc.collect()
    assert "nobody waits for" in caplog.text
    assert "Gather failed" in caplog.text


def test_D3_a_function_that_is_not_used_any_more_is_let_go(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    function(X)
    gone = weakref.ref(function)
    del function
    assert gone() is None


def test_D4_the_time_of_the_last_run_is_known_when_it_is_over(net):
    gate = Gate()
    function = net.graph.compile([net.x], (net.y, gate))
    assert function.prev_exec_time == 0.0
    function.start(X)
    with pytest.raises(GraphError, match="when it is over"):
        _ = function.prev_exec_time
    gate.opened.set()
    assert function.wait().prev_exec_time > 0


def test_D5_a_dump_is_json_with_nodes_values_chunks_and_their_order(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    function(X)
    dump = json.loads(json.dumps(function.dump()))
    types = [dump["nodes"][key]["type"] for key in dump["sequence"]]
    assert [kind for kind in types if kind != "ai.onnx::Constant"] == ["ai.onnx::Mul", "ai.onnx::Add"]
    (output,) = dump["outputs"]
    assert dump["values"][output]["chunk"] in dump["chunks"]
    assert {dump["values"][key]["name"] for key in dump["inputs"]} == {"x", "w"}


def test_D5_a_dump_without_known_shapes_has_no_chunks(net):
    assert net.graph.compile([net.x], og.copy_output(net.y)).dump()["chunks"] == {}


def test_D5_a_dump_holds_what_is_needed_only_for_a_shape(net):
    function = net.graph.compile([net.x], og.copy_output(og.op.Shape(net.y)))
    assert "ai.onnx::Add" in [node["type"] for node in function.dump()["nodes"].values()]


def test_D6_inputs_are_those_that_are_read_or_whose_shape_is(net):
    z = net.graph.input("z", "float32", ("M",))
    net.graph.input("unused", "float32", ("K",))
    function = net.graph.compile(None, [og.copy_output(net.y), og.copy_output(og.op.Shape(z))])
    assert function.inputs == (net.x, z)


def test_Q4_an_input_that_is_not_needed_is_an_error(net):
    unused = net.graph.input("unused", "float32", ("K",))
    with pytest.raises(InputError, match="no input that the function needs"):
        net.graph.compile([net.x, unused], og.copy_output(net.y))


def test_D7_cleared_memory_is_taken_again_by_the_next_run(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    function(X)
    function.clear_device_memory()
    np.testing.assert_array_equal(function(X), net(X))


GIVEN_BACK = """
import numpy as np
import onnxgrad as og

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096

graph = og.Graph()
x = graph.input("x", "float32", ("N", "N"))
function = graph.compile([x], og.copy_output(og.op.Exp(x).sum()))
function(np.zeros((4000, 4000), np.float32))  # 64 MB for Exp
before = resident()
function.clear_device_memory()
print(before - resident())
"""


def test_D7_memory_is_given_back():  # in a process of its own: the arena is shared with what other tests left in it
    result = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, check=True)
    assert int(result.stdout) > 60e6


def test_D8_the_size_of_a_plan_follows_the_shapes_of_the_last_call(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    function(np.zeros((1000, 3), np.float32))
    small = function.memory_plan().bytes_per_device["cpu"]
    function(np.zeros((2000, 3), np.float32))
    large = function.memory_plan().bytes_per_device["cpu"]
    assert (small, large) == (2 * 12032, 2 * 24000)


def test_D8_shapes_may_be_given_and_must_be_known(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    with pytest.raises(GraphError, match="cannot be planned"):
        function.memory_plan()
    assert function.memory_plan({"x": (16, 3)}).size == 2 * 192


def test_D10_arguments_are_given_by_position_or_by_name(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    np.testing.assert_array_equal(function(X), function(x=X))
    with pytest.raises(InputError, match="not both"):
        function(X, x=X)


def test_D10_a_missing_input_is_an_error(net):
    with pytest.raises(InputError, match="missing: 'x'"):
        net.graph.compile([net.x], og.copy_output(net.y))()


def test_D10_extra_names_are_warned_of_once_for_each_set(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    with pytest.warns(UserWarning, match="does not need: a, b$") as warned:
        for _ in range(3):
            function(x=X, a=1, b=2)
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="does not need: a$"):
        function(x=X, a=1)


def test_D10_positions_need_a_list_of_inputs(net):
    with pytest.raises(InputError, match="takes them by name"):
        net.graph.compile(None, og.copy_output(net.y))(X)


def test_D10_the_number_of_positional_arguments_is_checked(net):
    with pytest.raises(InputError, match="called with 2"):
        net.graph.compile([net.x], og.copy_output(net.y))(X, X)


def test_D10_an_input_with_a_value_need_not_be_given():
    graph = og.Graph()
    x = graph.input("x", value=X)
    function = graph.compile([], og.copy_output(x * 2.0))
    np.testing.assert_array_equal(function(), X * 2)
    np.testing.assert_array_equal(function(x=X + 1), (X + 1) * 2)
    np.testing.assert_array_equal(function(), X * 2)


def two_inputs():
    graph = og.Graph()
    a, b = graph.input("a", "float32", ()), graph.input("b", "float32", ())
    return a, b, graph.compile([a, b], og.copy_output(a - b))


def test_D11_inputs_can_be_put_in_another_order():
    a, b, function = two_inputs()
    assert function(3.0, 1.0) == 2
    function.inputs = [b, a]
    assert function(3.0, 1.0) == -2
    function.inputs = None
    assert function(a=3.0, b=1.0) == 2


def test_D11_inputs_must_be_exactly_those_needed():
    a, b, function = two_inputs()
    with pytest.raises(GraphError, match="also needs the inputs b"):
        function.inputs = [a]
    with pytest.raises(InputError, match="no input"):
        function.inputs = [a, b, a.graph.input("c", "float32", ())]
    with pytest.raises(InputError, match="given twice"):
        function.inputs = [a, b, a]
    assert function.inputs == (a, b)


def test_D12_outputs_can_be_chosen_reordered_and_repeated(net):
    z = net.y * 2.0
    function = net.graph.compile([net.x], [og.copy_output(net.y), og.copy_output(z)])
    assert function.available_outputs == (net.y, z)
    function.outputs = [z, z, net.y]
    assert [float(value.sum()) for value in function(X)] == [2 * net(X).sum()] * 2 + [net(X).sum()]
    function.outputs = z
    np.testing.assert_array_equal(function(X), 2 * net(X))
    assert function.outputs == z


def test_D12_what_was_no_copy_output_is_no_output(net):
    z = net.y * 2.0
    function = net.graph.compile([net.x], [og.copy_output(net.y), z])
    with pytest.raises(OptionError, match="was not compiled as an output"):
        function.outputs = [z]


def test_D13_a_result_that_has_not_arrived_is_an_error(net):
    gate = Gate()
    function = net.graph.compile([net.x], [(net.y, gate), og.copy_output(net.y)])
    function.start(X)
    second = function.start(X)
    assert not second.is_ready
    with pytest.raises(GraphError, match="has not arrived"):
        second.get()
    gate.opened.set()
    function.wait()
    assert second.is_ready


def test_D13_the_result_of_a_failed_run_says_so():
    function = failing_function()
    pending = function.start(X[0], np.array(9))
    with pytest.raises(ExecutionError):
        function.wait()
    with pytest.raises(GraphError, match="the run failed"):
        pending.get()


def test_D14_hooks_are_called_before_and_after(net):
    calls = []
    function = net.graph.compile([net.x], og.copy_output(net.y))
    function.before, function.after = lambda: calls.append("before"), lambda: calls.append("after")
    function(X)
    function.before = None
    function(X)
    assert calls == ["before", "after", "after"]


def test_D14_a_hook_must_be_callable(net):
    function = net.graph.compile([net.x], og.copy_output(net.y))
    with pytest.raises(OptionError, match="cannot be called"):
        function.after = 3


def test_D15_any_number_of_functions_of_a_graph_may_run(net):
    functions = [net.graph.compile([net.x], og.copy_output(net.y * float(k))) for k in range(4)]
    for k in (3, 0, 2, 1):
        np.testing.assert_array_equal(functions[k](X), net(X) * k)


def test_Q27_memory_can_be_asked_of_any_function(net):
    older = net.graph.compile([net.x], og.copy_output(net.y))
    net.graph.compile([net.x], og.copy_output(net.y * 2.0))
    older(X)
    assert older.memory_plan().size > 0
    older.clear_device_memory()
    assert older(X).shape == (2, 3)
