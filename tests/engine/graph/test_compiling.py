"""Table E of docs/semantics.md, rows of `graph.compile`: what a graph is, outspecs, options of compiling; F14, F15."""

import gc
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, OptionError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def net():
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 3))
    return graph, x, x * 2.0


def test_E1_variables_and_functions_keep_their_graph_and_nothing_else_does():
    graph, x, y = net()
    function = graph.compile([x], og.copy_output(y))
    gone, borrowed = weakref.ref(graph), weakref.proxy(graph)
    del graph, x, y
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(function(X), X * 2)
    del function
    gc.collect()
    assert gone() is None
    with pytest.raises(ReferenceError):
        borrowed.inputs  # noqa: B018


def test_E3_memory_of_all_functions_of_a_graph_is_let_go():
    graph, x, y = net()
    functions = [graph.compile([x], og.copy_output(y + float(k))) for k in range(2)]
    for function in functions:
        function(X)
    graph.clear_device_memory()
    assert [function._execution._executor for function in functions] == [None, None]
    assert [float(function(X).sum()) for function in functions] == [30, 36]


def test_E6_nothing_of_a_compilation_is_left_in_the_graph():
    graph, x, y = net()
    updated = og.add_update(og.SharedTensor(np.zeros(3, np.float32)), y.sum(0))
    before = [str(node) for node in graph.ir]
    seen = []
    for _ in range(2):
        graph.compile([x], [(y, lambda value: seen.append(value.get())), og.copy_output(y), updated])
    graph.compile([x], og.copy_output(y))(X)
    assert [str(node) for node in graph.ir] == before
    assert len(graph.ir.outputs) == 0
    assert seen == []


@pytest.mark.parametrize("copy", [False, True])
def test_E7_a_function_goes_on_as_it_was_when_its_graph_grows(copy):
    graph, x, y = net()
    function = graph.compile([x], og.copy_output(y), copy=copy)
    graph.compile([x], og.copy_output(og.op.Exp(y) + og.SharedTensor(np.ones(3, np.float32))), copy=copy)(X)
    np.testing.assert_array_equal(function(X), X * 2)
    assert len(list(function._execution.lowered.model.graph)) == 2


def test_Q1_every_function_works_on_a_copy_of_the_graph():
    graph, x, y = net()
    first, second = graph.compile([x], og.copy_output(y)), graph.compile([x], og.copy_output(y), copy=True)
    models = {id(function._execution.lowered.model.graph) for function in (first, second)} | {id(graph.ir)}
    assert len(models) == 3


def batch_norm():
    """A graph whose BatchNormalization can be folded into its Conv, with a parameter that is not fixed as well."""
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 2, 4, 4))
    weight = og.SharedTensor(np.ones((3, 2, 1, 1), np.float32))
    scale = og.SharedTensor(np.full(3, 2, np.float32))
    y = og.op.Conv(x, graph.param(weight))
    zeros, ones = np.zeros(3, np.float32), np.ones(3, np.float32)
    return graph, x, og.op.BatchNormalization(y, graph.param(scale), zeros, zeros, ones, outputs=1), weight


def test_E7_optimized_for_inference_parameters_are_constants_with_their_present_values():
    graph, x, y, weight = batch_norm()
    image = np.ones((1, 2, 4, 4), np.float32)
    plain = graph.compile([x], og.copy_output(y))
    fast = graph.compile([x], og.copy_output(y), optimize_for_inference=True)
    before = plain(image)
    np.testing.assert_allclose(fast(image), before, rtol=1e-5)
    assert [node.op_type for node in fast._execution.lowered.model.graph] == ["Conv"]
    weight.set(weight.get() * 2)
    np.testing.assert_allclose(plain(image), before * 2, rtol=1e-5)
    np.testing.assert_allclose(fast(image), before, rtol=1e-5)


def test_E7_optimized_for_inference_volatile_and_updated_parameters_stay_what_they_are():
    graph = og.Graph()
    volatile, updated = og.SharedTensor(np.ones(2, np.float32)), og.SharedTensor(np.ones(2, np.float32))
    v, u = graph.param(volatile, volatile=True), graph.param(updated)
    function = graph.compile([], [og.copy_output(v + u), og.add_update(u, v)], optimize_for_inference=True)
    assert [function()[0].tolist() for _ in range(2)] == [[2, 2], [3, 3]]
    volatile.set(np.zeros(3, np.float32)[:1])
    assert function()[0].tolist() == [3, 3]


def _alias(w):
    tensor = og.SharedTensor(shape=w.shape)
    tensor.reset_to(w)
    return tensor


def _part(w):
    tensor = og.SharedTensor(shape=w.shape)
    tensor.share_memory_from(w)
    return tensor


@pytest.mark.parametrize("read", [_alias, _part, lambda w: w], ids=["an alias", "a part of it", "itself, fixed"])
def test_E7_what_a_function_changes_under_another_name_is_not_frozen_into_it(read):
    w = og.SharedTensor(np.ones(3, np.float32))
    graph = og.Graph()
    reads = graph.param(read(w)) * 10
    update = og.add_update(graph.param(w, volatile=True), np.ones(3, np.float32))
    run = graph.compile([], [og.copy_output(reads), update], optimize_for_inference=True)
    assert [run()[0][0] for _ in range(3)] == [10, 20, 30]


def test_E7_nothing_is_compiled_out_of_a_body_that_is_being_written():
    graph = og.Graph()
    x = graph.input("x", "float32", (2,))

    def branch():
        with pytest.raises(GraphError, match="being written"):
            graph.compile([x], og.copy_output(x * 7))
        return x

    og.op.If(x.sum() > 0, then_branch=branch, else_branch=lambda: x)


def test_E8_a_bare_variable_is_computed_for_what_it_updates():
    graph = og.Graph()
    w = og.SharedTensor(np.zeros(2, np.float32))
    function = graph.compile([], og.add_update(graph.param(w), np.ones(2, np.float32)))
    assert function() == []
    np.testing.assert_array_equal(w, [1, 1])


def test_E8_one_copy_output_returns_one_value_and_a_list_a_list():
    graph, x, y = net()
    assert isinstance(graph.compile([x], og.copy_output(y))(X), np.ndarray)
    assert isinstance(graph.compile([x], [og.copy_output(y)])(X), list)


def test_E8_a_variable_that_is_asked_for_twice_is_computed_and_fetched_once():
    graph, x, y = net()
    first, second = graph.compile([x], [og.copy_output(y), og.copy_output(y)])(X)
    assert first is second


def test_E8_outputs_callbacks_and_effects_stand_side_by_side():
    graph, x, y = net()
    seen = []
    outspec = [(y, lambda value: seen.append(value.get())), og.copy_output(x + 1.0), y + 3.0]
    (result,) = graph.compile([x], outspec)(X)
    np.testing.assert_array_equal(result, X + 1)
    np.testing.assert_array_equal(seen[0], X * 2)


def test_E8_compile_outonly_returns_the_values_of_variables_by_name():
    graph, _, y = net()
    np.testing.assert_array_equal(graph.compile_outonly(y)(x=X), X * 2)
    assert [value.sum() for value in graph.compile_outonly([y, y + 1.0])(x=X)] == [30, 36]


def test_E12_an_empty_outspec_is_an_error():
    graph, x, _ = net()
    with pytest.raises(GraphError, match="nothing to compute"):
        graph.compile([x], [])


@pytest.mark.parametrize("entry", [3, (1, 2), ("y", print), None], ids=str)
def test_E8_what_is_no_outspec_is_an_error(entry):
    graph, x, _ = net()
    with pytest.raises(OptionError, match="no part of an outspec"):
        graph.compile([x], [entry])


def test_E8_a_variable_of_another_graph_is_an_error():
    graph, x, _ = net()
    with pytest.raises(GraphError, match="belongs to graph"):
        graph.compile([x], og.copy_output(net()[2]))


def test_an_extra_dependency_is_computed_with_its_variable():
    graph = og.Graph()
    w = og.SharedTensor(np.zeros(1, np.float32))
    y = graph.constant(1.0) + 1.0
    updated = og.add_update(graph.param(w), np.ones(1, np.float32))
    graph.dependencies[y.value] = [updated.value]
    graph.compile([], og.copy_output(y + 1.0))()
    assert w.get() == 1


RESIDENT = """
import numpy as np, onnxgrad as og
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def function(number):
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", "N"))
    return graph.compile([x], og.copy_output((og.op.Exp(x + number) @ x).sum()))
x = np.zeros((2000, 2000), np.float32)
functions = [function(float(k)) for k in range(5)]
functions[0](x)
before = resident()
for f in functions[1:]:
    f(x)
print(resident() - before)
"""


def test_E11_functions_of_all_graphs_share_the_memory_of_their_runs():
    result = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 24e6  # 32 MB each, were it not shared


LATE = """
import numpy as np, time, onnxgrad as og
graph = og.Graph()
x = graph.input("x", "float32", (3,))
def slow(value):
    time.sleep(0.3)
    print(value.get().sum())
f = graph.compile([x], (x * 2.0, slow))
f.start(np.ones(3, np.float32))
"""


def test_F14_what_was_started_is_over_when_the_interpreter_ends():
    result = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "6.0"


def test_F15_the_version_is_three_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+", og.__version__)
