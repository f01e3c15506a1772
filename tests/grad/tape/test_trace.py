"""og.trace: a function of tensors as one graph, with the results that it has when it runs at once."""

import logging
import re
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import onnxgrad as og


class Pair(NamedTuple):
    first: og.Tensor
    second: og.Tensor


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def count_runs(function):
    """The function, and a list that grows when Python runs it."""
    runs = []

    def counted(*args, **kwargs):
        runs.append(1)
        return function(*args, **kwargs)

    return counted, runs


STRUCTURES = {
    "one": lambda x: x + 1,
    "tuple": lambda x: (x + 1, x * 2),
    "list": lambda x: [x + 1, [x * 2]],
    "dict": lambda x: {"a": x + 1, "b": {"c": x * 2}},
    "named tuple": lambda x: Pair(x + 1, x * 2),
    "constants": lambda x: (x + 1, None, "text", 3),
    "the same twice": lambda x: (y := x + 1, y),
    "an argument": lambda x: (x, x + 1),
    "nothing": lambda x: None,
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_P10_the_result_has_the_structure_that_the_function_gives_it(name):
    function = STRUCTURES[name]
    x = og.Tensor(floats(3))
    traced = og.trace(function)
    for _ in range(2):
        assert repr(traced(x)) == repr(function(x))


def test_a_function_runs_in_python_once():
    function, runs = count_runs(lambda x: x * x)
    traced = og.trace(function)
    for number in range(3):
        np.testing.assert_allclose(traced(og.Tensor(floats(4, seed=number))).numpy(), floats(4, seed=number) ** 2)
    assert len(runs) == 1


def test_arguments_in_tuples_lists_and_dicts_come_in_as_tensors():
    traced = og.trace(lambda batch, scale: batch["x"] * scale[0] + batch["parts"][1])
    batch = {"x": floats(3), "parts": (og.Tensor(floats(3)), floats(3, seed=1))}
    np.testing.assert_allclose(traced(batch, [np.float32(2)]).numpy(), floats(3) * 2 + floats(3, seed=1), rtol=1e-6)


def test_P10_arguments_by_name_are_arguments():
    traced = og.trace(lambda x, y, sign=1: x - y if sign > 0 else y - x)
    x, y = og.Tensor(3.0), og.Tensor(1.0)
    assert traced(y=y, x=x).item() == 2
    assert traced(x, y, sign=-1).item() == -2


CHANGES = {
    "shape": (lambda x: (x, 1), lambda x: (x[:1], 1), r"x is float32\[1, 2\], was float32\[2, 2\]"),
    "rank": (lambda x: (x, 1), lambda x: (x[0], 1), r"x is float32\[2\], was float32\[2, 2\]"),
    "dtype": (lambda x: (x, 1), lambda x: (x.astype("float64"), 1), r"x is float64\[2, 2\], was float32\[2, 2\]"),
    "constant": (lambda x: (x, 1), lambda x: (x, 2), "factor is 2, was 1"),
    "type of a constant": (lambda x: (x, 1), lambda x: (x, 1.0), "factor is 1.0, was 1"),
    "structure": (lambda x: ([x, x], 1), lambda x: ([x], 1), "x is list of 1, was list of 2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_shape_dtype_or_constant_is_captured_anew_and_explained(name):
    before, after, reason = CHANGES[name]
    traced = og.trace(lambda x, factor: (x if isinstance(x, og.Tensor) else x[0]) * factor)
    x = og.Tensor(floats(2, 2))
    for arguments in (before(x), after(x), before(x)):
        traced(*arguments)
    assert traced.captures == 2
    explained = traced.explain()
    assert "the first call" in explained
    assert "2 runs" in explained
    assert re.search(reason, explained), explained


def test_floats_are_told_apart_by_their_bits():
    traced = og.trace(lambda x, number: og.op.Div(x, og.Tensor(number)))
    for number in (float("nan"), float("nan"), 0.0, -0.0):
        found = traced(og.Tensor(1.0), number)
    assert found.item() == -np.inf
    assert traced.captures == 3


def test_captures_are_logged(caplog):
    with caplog.at_level(logging.INFO, "onnxgrad.trace"):
        traced = og.trace(lambda x: x + 1)
        traced(floats(2))
        traced(floats(3))
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == [
        "the first call",
        "x is float32[3], was float32[2]",
    ]


def test_many_captures_are_warned_of_once_and_bounded(caplog):
    traced = og.trace(lambda x, n: x * n, max_captures=10)
    with caplog.at_level(logging.WARNING, "onnxgrad.trace"):
        for n in range(12):
            traced(floats(2), n)
    assert len(caplog.records) == 1
    assert traced.captures == 10


def test_closed_over_tensors_are_read_at_each_call():
    weight = og.Tensor([2.0])
    traced = og.trace(lambda x: x * weight)
    assert traced(og.Tensor([3.0])).item() == 6
    weight.set([5.0])
    assert traced(og.Tensor([3.0])).item() == 15
    assert traced.captures == 1


def test_tensors_made_inside_are_constants():
    traced = og.trace(lambda x: x + og.Tensor([1.0, 2.0]))
    np.testing.assert_allclose(traced(floats(2)).numpy(), floats(2) + np.array([1, 2], np.float32))
    (capture,) = (known for several in traced._captures.values() for known in several)
    assert len(capture.ports) == 1


def test_values_that_are_set_are_there_after_each_call():
    total = og.Tensor([0.0])

    def add(x):
        total.set(total + x)
        return total * 2

    traced = og.trace(add)
    assert [traced(og.Tensor([float(n)])).item() for n in (1, 2, 3)] == [2, 6, 12]
    assert total.item() == 6


def test_a_value_that_is_set_is_read_by_what_comes_after():
    state = og.Tensor([1.0])

    def step(x):
        before = state * 1
        state.set(x)
        return before, state * 1

    before, after = og.trace(step)(og.Tensor([7.0]))
    assert (before.item(), after.item(), state.item()) == (1, 7, 7)


def test_what_was_read_from_a_tensor_before_stays_as_it_was():
    state = og.Tensor([1.0])
    view = state.numpy()
    og.trace(state.set)(og.Tensor([7.0]))
    assert view[0] == 1
    assert state.item() == 7


def test_an_argument_that_is_set_is_set_for_the_caller():
    traced = og.trace(lambda x: x.set(x + 1))
    for tensor in (og.Tensor([1.0]), og.Tensor([5.0])):
        before = float(tensor)
        traced(tensor)
        assert tensor.item() == before + 1
    assert traced.captures == 1


def test_elements_that_are_set_by_an_index_are_set():
    x = og.Tensor(np.zeros(4, np.float32))

    def fill(value):
        x[1:3] = value

    traced = og.trace(fill)
    traced(og.Tensor(2.0))
    traced(og.Tensor(3.0))
    assert x.tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize("first", ["other", "itself"])
def test_an_argument_that_is_also_reached_otherwise_is_one_tensor(first):
    weight, other = og.Tensor([1.0]), og.Tensor([10.0])

    def step(x):
        weight.set(weight + 1)
        return x * 1

    traced = og.trace(step)
    order = [other, weight, weight, other] if first == "other" else [weight, other, weight, other]
    values = [10, 3, 4, 10] if first == "other" else [2, 10, 4, 10]
    assert [traced(tensor).item() for tensor in order] == values
    assert traced.captures == 2


def test_the_same_tensor_twice_is_one_tensor():
    def step(x, y):
        x.set(x + 1)
        return y * 1

    traced = og.trace(step)
    x = og.Tensor([1.0])
    assert traced(x, x).item() == 2
    assert traced(x, og.Tensor([5.0])).item() == 5
    assert traced(x, x).item() == 4


READS: dict[str, Callable[[og.Tensor], object]] = {
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.item(),
    "bool": lambda x: x if x else -x,
    "float": float,
    "asarray": np.asarray,
    "tolist": lambda x: x.tolist(),
    "dlpack": lambda x: x.__dlpack__(),
    "ort_value": lambda x: x.ort_value,
}


@pytest.mark.parametrize("closed", [False, True], ids=["argument", "closure"])
@pytest.mark.parametrize("name", READS)
def test_reading_elements_inside_is_an_error_that_says_what_to_do(name, closed):
    outside = og.Tensor(1.0)
    traced = og.trace(lambda x: READS[name](outside if closed else x))
    with pytest.raises(og.errors.GraphError, match=r"being traced\n  try: keep what depends on elements"):
        traced(og.Tensor(1.0))
    assert traced.captures == 0


def test_tensors_can_be_shown_inside():
    shown = []
    outside = og.Tensor([1.0])
    og.trace(lambda x: shown.extend([repr(x), repr(outside)]))(og.Tensor([1.0]))
    assert all("float" in text.lower() for text in shown)


def test_sizes_are_known_inside():
    traced = og.trace(lambda x: x.reshape(x.shape[0] * len(x[0])) * x.ndim)
    np.testing.assert_allclose(traced(floats(2, 3)).numpy(), floats(2, 3).reshape(6) * 2)


def test_a_dynamic_axis_needs_no_second_capture():
    traced = og.trace(lambda x: (x * 2).sum(axis=0), dynamic={"x": {0: "batch"}})
    for count in (2, 5, 3):
        np.testing.assert_allclose(traced(floats(count, 3)).numpy(), floats(count, 3).sum(0) * 2, rtol=1e-5)
    assert traced.captures == 1
    assert "float32[batch, 3]" in traced.explain()


def test_dynamic_names_a_parameter():
    with pytest.raises(og.errors.OptionError, match="no parameter 'y'"):
        og.trace(lambda x: x, dynamic={"y": [0]})


def test_a_value_of_another_shape_is_not_set():
    state = og.Tensor(np.zeros(3, np.float32))

    def keep(x):
        state.set(x * 1)

    with pytest.raises(og.errors.InputError, match="a value of shape"):
        og.trace(keep)(floats(2))
    traced = og.trace(keep, dynamic={"x": [0]})
    traced(floats(3))
    with pytest.raises(og.errors.ExecutionError, match=r"a value of shape \(2,\)"):
        traced(floats(2))
    np.testing.assert_allclose(state.numpy(), floats(3))


def test_an_error_while_tracing_leaves_nothing_behind():
    state, weight = og.Tensor([1.0]), og.Tensor([2.0])
    gm = og.GradManager().attach(weight)

    def fails(x):
        state.set(x)
        with gm:
            gm.backward((weight * x).sum())
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        og.trace(fails)(og.Tensor([5.0]))
    assert state.item() == 1
    assert weight.grad is None
    assert (state + weight).item() == 3


def test_an_error_while_running_changes_nothing():
    state = og.Tensor(np.zeros(2, np.float32))

    def step(x, index):
        state.set(state + x)
        return og.op.Gather(x, index)

    traced = og.trace(step)
    traced(floats(2), np.int64(1))
    before = state.tolist()
    with pytest.raises(og.errors.ExecutionError):
        traced(floats(2), np.int64(9))
    assert state.tolist() == before


def test_a_tensor_that_a_trace_left_behind_says_so():
    kept = []
    og.trace(lambda x: kept.append(x * 2))(floats(2))
    with pytest.raises(og.errors.GraphError, match="has no elements yet"):
        kept[0].numpy()
    with pytest.raises(og.errors.GraphError, match="left behind"):
        og.trace(lambda x: x + kept[0])(floats(2))


def test_P10_a_traced_function_inside_of_another_is_part_of_it():
    inner = og.trace(lambda x: x * 2)
    outer = og.trace(lambda x: inner(x) + 1)
    assert outer(og.Tensor([3.0])).item() == 7
    assert inner.captures == 0


def test_gradients_that_are_recorded_outside_flow_through():
    inner = og.trace(lambda x: x * x)
    x = og.Tensor([3.0])
    gm = og.GradManager().attach(x)
    inner(x)
    with gm:
        gm.backward(inner(x).sum())
    assert x.grad is not None
    assert x.grad.item() == 6


def test_a_variable_of_a_graph_goes_through():
    traced = og.trace(lambda x: x * 2)
    graph = og.Graph()
    var = graph.input("x", "float32", (2,))
    assert isinstance(traced(var), og.Var)
    assert traced.captures == 0


def test_random_numbers_are_new_at_each_call():
    traced = og.trace(lambda: og.op.RandomNormal(shape=[8]))
    first, second = traced(), traced()
    assert not np.array_equal(np.asarray(first), np.asarray(second))


def test_two_draws_in_one_function_differ():
    first, second = og.trace(lambda x: (og.nn.dropout(x), og.nn.dropout(x)))(np.ones(64, np.float32))
    assert not np.array_equal(first.numpy(), second.numpy())


def test_methods_can_be_traced():
    class Scale:
        def __init__(self, factor):
            self.factor = og.Tensor(factor)

        @og.trace
        def apply(self, x):
            return x * self.factor

    assert Scale([2.0]).apply(og.Tensor([3.0])).item() == 6
    assert Scale([4.0]).apply(og.Tensor([3.0])).item() == 12


def test_a_traced_function_keeps_its_name_and_documentation():
    @og.trace(threads=1)
    def double(x):
        """Twice x."""
        return x * 2

    assert (double.__name__, double.__doc__) == ("double", "Twice x.")


def test_strings_are_tensors_too():
    traced = og.trace(lambda x: og.op.StringNormalizer(x, case_change_action="UPPER"))
    assert traced(np.array(["a", "b"], object)).tolist() == ["A", "B"]


def test_threads_may_capture_and_run_one_function():
    weight = og.Tensor(floats(4, 4))
    traced = og.trace(lambda x: (x @ weight).sum())
    wrong = []

    def work(seed):
        for size in (1, 2, 3, 4, 3, 2, 1):
            x = floats(size, 4, seed=seed)
            if not np.allclose(traced(x).item(), (x @ floats(4, 4)).sum(), rtol=1e-4, atol=1e-5):
                wrong.append(size)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert traced.captures == 4


def test_updates_of_several_threads_are_not_lost():
    total = og.Tensor(np.zeros(200_000, np.float32))
    traced = og.trace(lambda x: total.set(total + x), threads=1)
    traced(og.Tensor(0.0))

    def work():
        for _ in range(50):
            traced(og.Tensor(1.0))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert total.numpy()[0] == 200


def test_other_threads_see_no_trace_of_a_capture():
    weight = og.Tensor([2.0])
    inside, done, seen = threading.Event(), threading.Event(), []

    def other():
        inside.wait(10)
        seen.append((weight * 3).item())
        done.set()

    def step(x):
        weight.set(weight * x)
        inside.set()
        done.wait(10)
        return weight * 1

    worker = threading.Thread(target=other)
    worker.start()
    assert og.trace(step)(og.Tensor([5.0])).item() == 10
    worker.join()
    assert seen == [6]
