"""Rows E9 and E10 of docs/semantics.md: functions in parts."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import ExecutionError, GraphError

X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1


class Net:
    """h = exp(x); y = h * h; z = y + k: three values to cut at."""

    def __init__(self):
        self.graph = og.Graph()
        self.x = self.graph.input("x", "float32", ("N", 3))
        self.k = self.graph.input("k", "float32", ())
        self.h = og.op.Exp(self.x)
        self.y = self.h * self.h
        self.z = self.y + self.k

    def parts(self, *outputs):
        """Functions for (inputs, variable) each."""
        return self.graph.compile_multi_part([(inputs, og.copy_output(var)) for inputs, var in outputs])


@pytest.fixture
def net():
    return Net()


def operators(function):
    """What a function computes."""
    return [node.op_type for node in function._execution.lowered.model.graph if node.op_type != "Constant"]


def test_E9_each_part_computes_only_what_is_still_missing(net):
    first, second, third = net.parts(([net.x], net.h), ([], net.y), ([net.k], net.z))
    assert [operators(part) for part in (first, second, third)] == [["Exp"], ["Mul"], ["Add"]]
    h = np.exp(X)
    np.testing.assert_allclose(first(X), h, rtol=1e-6)
    np.testing.assert_allclose(second(), h * h, rtol=1e-6)
    np.testing.assert_allclose(third(np.float32(2)), h * h + 2, rtol=1e-6)


def test_E9_there_must_be_a_part(net):
    with pytest.raises(GraphError, match="no parts"):
        net.graph.compile_multi_part([])


def test_E9_a_value_that_is_needed_much_later_is_kept_until_then(net):
    first, second, third = net.parts(([net.x], net.h), ([net.k], net.k + 1.0), ([], net.y))
    first(X)
    second(np.float32(1))
    np.testing.assert_allclose(third(), np.exp(X) ** 2, rtol=1e-6)
    assert first._stage.turns.values == {}


def test_E9_an_input_is_that_of_the_part_before_unless_the_part_names_it(net):
    first, second, third = net.parts(([net.x], net.h), ([], net.x + 1.0), ([net.x], net.x + 2.0))
    given = X.copy()
    first(given)
    given[:] = 0
    np.testing.assert_array_equal(second(), X + 1)
    np.testing.assert_array_equal(third(X * 2), X * 2 + 2)


def test_E9_parts_update_parameters_and_read_them_when_they_run():
    graph = og.Graph()
    w = og.SharedTensor(np.ones(3, np.float32))
    wv = graph.param(w)
    x = graph.input("x", "float32", (3,))
    y = x * wv
    updated = og.add_update(wv, y)
    parts = graph.compile_multi_part([([x], og.copy_output(y)), ([], updated), ([], og.copy_output(wv * 1.0))])
    for value in (2, 4):
        parts[0](np.ones(3, np.float32))
        np.testing.assert_array_equal(w, [value / 2] * 3)
        parts[1]()
        np.testing.assert_array_equal(w, [value] * 3)
        np.testing.assert_array_equal(parts[2](), [value] * 3)


@pytest.mark.parametrize("virtual", [False, True])
def test_E9_gradients_go_back_through_parts(virtual):
    graph = og.Graph()
    x = graph.input("x", "float32", ("N",))
    y = og.op.Exp(x)
    loss = (y * y).sum()
    grad = og.gradients(loss, x, use_virtual_grad=virtual, return_zero_for_nodep=virtual)
    assert grad is not None
    forward, backward = graph.compile_multi_part([([x], og.copy_output(loss)), ([], og.copy_output(grad))])
    assert forward(X[0]) == pytest.approx(np.exp(2 * X[0]).sum())
    np.testing.assert_allclose(backward(), 2 * np.exp(2 * X[0]), rtol=1e-5)
    assert "Exp" not in operators(backward)


def test_E9_random_numbers_are_drawn_once(net):
    noise = og.op.RandomNormalLike(net.x)
    first, second = net.parts(([net.x], noise), ([], noise * 1.0))
    np.testing.assert_array_equal(first(X), second())


def test_E9_callbacks_belong_to_the_part_that_computes_their_value(net):
    seen = []
    watched = net.graph.callback(net.h, lambda value: seen.append(value.get()))
    first, second = net.parts(([net.x], watched), ([], watched * 2.0))
    first(X)
    second()
    assert len(seen) == 1


def test_E10_only_the_shape_is_handed_on_where_that_is_all_that_is_read(net):
    first, second = net.parts(([net.x], net.y), ([], og.op.Shape(net.h)))
    assert [value.name for value in second._execution.lowered.model.graph.inputs] == ["Shape"]
    first(X)
    np.testing.assert_array_equal(second(), [2, 3])


def test_E10_parts_run_in_their_order(net):
    first, second, third = net.parts(([net.x], net.h), ([], net.y), ([net.k], net.z))
    with pytest.raises(GraphError, match="expected to execute part 0, actual part is 1"):
        second()
    first(X)
    with pytest.raises(GraphError, match="expected to execute part 1, actual part is 2"):
        third(np.float32(0))
    second()
    third(np.float32(0))
    with pytest.raises(GraphError, match="expected to execute part 0, actual part is 1"):
        second()


def test_Q21_part_0_may_begin_anew_at_any_time(net):
    first, second, third = net.parts(([net.x], net.h), ([], net.y), ([net.k], net.z))
    first(X)
    second()
    first(X * 0)
    np.testing.assert_array_equal(second(), np.ones((2, 3)))
    np.testing.assert_array_equal(third(np.float32(2)), np.full((2, 3), 3))


def test_E10_beginning_anew_drops_what_waited(net):
    first, second, third = net.parts(([net.x], net.h), ([net.k], net.k + 1.0), ([], net.y))
    first(X)
    first._stage.turns.values["stale"] = X
    first(X)
    assert "stale" not in first._stage.turns.values
    assert second(np.float32(1)) == 2
    third()


def test_E10_values_are_consumed_by_the_part_that_reads_them(net):
    first, second = net.parts(([net.x], net.h), ([], net.y))
    first(X)
    assert len(first._stage.turns.values) == 1
    second()
    assert first._stage.turns.values == {}


def test_E10_a_part_that_failed_may_be_called_again():
    graph = og.Graph()
    x, index = graph.input("x", "float32", ("N",)), graph.input("i", "int64", ())
    y = x * 2.0
    parts = graph.compile_multi_part([([x], og.copy_output(y)), ([index], og.copy_output(og.op.Gather(y, index)))])
    parts[0](X[0])
    with pytest.raises(ExecutionError):
        parts[1](np.array(7))
    np.testing.assert_array_equal(parts[1](np.array(1)), 4)


def test_E10_parts_follow_each_other_without_waiting(net):
    first, second, third = net.parts(([net.x], net.h), ([], net.y), ([net.k], net.z))
    pending = [(first.start(X * k), second.start(), third.start(np.float32(k)))[2] for k in (0.0, 0.5, 1.0)]
    third.wait()
    for k, output in zip((0.0, 0.5, 1.0), pending, strict=True):
        np.testing.assert_allclose(output.get(), np.exp(X * k) ** 2 + k, rtol=1e-5)


def test_E10_a_part_after_one_that_failed_says_so():
    graph = og.Graph()
    x, index = graph.input("x", "float32", ("N",)), graph.input("i", "int64", ())
    y = og.op.Gather(x, index)
    parts = graph.compile_multi_part([([x, index], og.copy_output(y)), ([], og.copy_output(y + 1.0))])
    parts[0].start(X[0], np.array(7))
    pending = parts[1].start()
    with pytest.raises(ExecutionError):
        parts[1].wait()
    with pytest.raises(GraphError, match="the run failed") as caught:
        pending.get()
    assert "the part that computes it failed" in str(caught.value.__cause__)


def test_E10_observers_of_the_graph_do_not_see_parts(net):
    seen = []
    net.graph.observers.append(lambda node, values: seen.append(node))
    net.parts(([net.x], net.h))[0](X)
    assert seen == []
