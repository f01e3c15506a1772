"""Control flow on tensors: bodies that are Python functions are called."""

from typing import Any

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError


def f(*values):
    return og.Tensor(np.array(values, np.float32))


def test_only_the_branch_that_is_taken_runs():
    ran = []

    def branch(name, value):
        ran.append(name)
        return value

    x = f(2.0)
    got = og.op.If(x > 1.0, then_branch=lambda: branch("then", x * 2.0), else_branch=lambda: branch("else", x))
    assert isinstance(got, og.Tensor)
    assert (got.tolist(), ran) == ([4], ["then"])
    both = og.op.If(x > 5.0, then_branch=lambda: (x, x), else_branch=lambda: (x + 1.0, 3.0))
    assert isinstance(both, tuple)
    assert [value.numpy().tolist() for value in both if isinstance(value, og.Tensor)] == [[3], 3]


def test_gradients_go_through_the_branch_that_was_taken_and_what_it_uses():
    x, y = f(2.0), f(3.0)
    with og.Grad() as grad:
        grad.wrt(x, y)
        got = og.op.If(x > 1.0, then_branch=lambda: x * y, else_branch=lambda: x + y)
        assert isinstance(got, og.Tensor)
        grad(got)
    assert x.grad is not None
    assert x.grad.tolist() == [3]


def test_a_loop_carries_values_and_stacks_what_it_gives_beside_them():
    x = f(1.0, 2.0)

    def body(number, condition, value):
        return condition, value * 2.0, value.sum() + number.astype("float32")

    last, sums = og.op.Loop(3, None, x, body=body)
    assert (last.tolist(), sums.tolist()) == ([8, 16], [3, 7, 14])


def test_a_loop_ends_by_its_condition_and_may_run_no_round():
    x = f(1.0)
    got = og.op.Loop(None, True, x, body=lambda number, condition, value: (value < 100.0, value * 3.0))
    assert got.tolist() == [729]
    assert og.op.Loop(5, False, x, body=lambda *given: given[1:]).tolist() == [1]


def test_a_loop_is_differentiated_round_by_round():
    x = f(2.0)
    with og.Grad() as grad:
        grad.wrt(x)
        grad(og.op.Loop(3, None, x, body=lambda number, condition, value: (condition, value * x)))
    assert x.grad is not None
    assert x.grad.tolist() == [32]  # x^4


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_agrees_with_the_scan_of_a_graph(axis, backwards):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_input_directions": [backwards]}
    attributes |= {"scan_output_axes": [axis], "scan_output_directions": [backwards]}

    def body(state, part):
        return state + part, state * part

    state = np.zeros(array.shape[1 - axis], np.float32)
    got = og.op.Scan(og.Tensor(state), og.Tensor(array), body=body, **attributes)
    graph = og.Graph()
    wanted = og.op.Scan(graph.constant(state), graph.constant(array), body=body, **attributes)
    run = graph.compile_outonly(list(wanted))
    for value, want in zip(got, run(), strict=True):
        np.testing.assert_array_equal(value.numpy(), want)


def test_without_a_round_what_rounds_give_is_empty():
    x = f(1.0, 2.0)
    value, each = og.op.Loop(0, None, x, body=lambda number, condition, value: (condition, value * 2.0, value.sum()))
    assert (value.tolist(), each.shape, each.dtype) == ([1, 2], (0,), np.float32)
    rows = og.Tensor(np.zeros((0, 2), np.float32))
    value, each = og.op.Scan(x, rows, num_scan_inputs=1, body=lambda state, part: (state + part, state > part))
    assert (value.tolist(), each.shape, each.dtype) == ([1, 2], (0, 2), np.bool_)


def test_bodies_that_do_not_fit_are_errors():
    x = f(1.0)
    with pytest.raises(GraphError, match="the body of Loop returns 1 values"):
        og.op.Loop(2, None, x, body=lambda number, condition, value: value)
    with pytest.raises(GraphError, match="the body of Scan returns 0 values"):
        og.op.Scan(x, x, num_scan_inputs=1, body=lambda state, part: ())
    with pytest.raises(InputError, match="num_scan_inputs=0"):
        og.op.Scan(x, num_scan_inputs=0, body=lambda part: part)
    with pytest.raises(InputError, match="different lengths"):
        og.op.Scan(x, f(1.0, 2.0), num_scan_inputs=2, body=lambda a, b: a)


def test_a_traced_choice_is_made_at_each_run():
    @og.trace
    def choose(x):
        return og.op.If(x.sum() > 0.0, then_branch=lambda: x * 2.0, else_branch=lambda: -x)

    assert choose(f(1.0)).tolist() == [2]
    assert choose(f(-1.0)).tolist() == [1]


def test_a_traced_loop_runs_as_often_as_it_is_told():
    scale = f(2.0)

    @og.trace
    def power(x, count):
        return og.op.Loop(count, None, x, body=lambda number, condition, value: (condition, value * scale))

    assert power(f(3.0), og.Tensor(2)).tolist() == [12]
    assert power(f(3.0), og.Tensor(4)).tolist() == [48]


def test_gradients_of_traced_bodies_are_an_error_with_advice():
    @og.trace
    def step(x):
        with og.Grad() as grad:
            grad.wrt(x)
            grad(og.op.If(x.sum() > 0.0, then_branch=lambda: x * 2.0, else_branch=lambda: -x))
        return x.grad

    with pytest.raises(GraphError, match="traced while gradients are recorded"):
        step(f(1.0))
