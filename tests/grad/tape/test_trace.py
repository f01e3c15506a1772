"""og.trace: a function of tensors as one graph, with the results that it has when it runs at once."""

import logging
import re
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
