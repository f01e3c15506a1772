"""Row D8 of docs/semantics.md, and what a plan must keep to: values that are alive together do not overlap."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError

KIB = 1024


def chain(length, fork=False):
    """A function of x: float32[N, 16] through `length` operators, which may read the first value again at the end."""
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 16))
    first = y = og.op.Exp(x)
    for _ in range(length - 1):
        y = og.op.Sin(y)
    return graph.compile([x], og.copy_output(y + first if fork else y))


def overlaps(plan):
    """Pairs of chunks that share bytes while both are needed."""
    return [
        (a.name, b.name)
        for i, a in enumerate(plan.chunks)
        for b in plan.chunks[i + 1 :]
        if a.first <= b.last and b.first <= a.last and a.offset < b.offset + b.size and b.offset < a.offset + a.size
    ]


@pytest.mark.parametrize("length", [2, 3, 10])
def test_D8_a_chain_needs_two_buffers(length):
    plan = chain(length).memory_plan({"x": (16, 16)})
    assert plan.size == 2 * KIB


def test_D8_a_value_that_is_read_late_keeps_its_place():
    plan = chain(10, fork=True).memory_plan({"x": (16, 16)})
    assert plan.size == 3 * KIB
    assert overlaps(plan) == []


def test_D8_nothing_is_allocated_and_nothing_runs():
    function = chain(3)
    seen = []
    function.before = lambda: seen.append(1)
    assert function.memory_plan({"x": (10**9, 16)}).size > 10**11
    assert seen == []


def test_D8_a_reshape_takes_no_memory():
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 16))
    y = og.op.Exp(x)
    late = og.op.Sin(y.reshape(-1)) * y.sum()
    plan = graph.compile([x], og.copy_output(late)).memory_plan({"x": (16, 16)})
    assert plan.size == 2 * KIB + 64


def test_D8_a_small_value_goes_into_the_smallest_gap():
    graph = og.Graph()
    x, s = graph.input("x", "float32", (16, 16)), graph.input("s", "float32", (16,))
    large, small = og.op.Exp(x), og.op.Exp(s)
    late = large.sum() + small.sum()
    plan = graph.compile([x, s], og.copy_output(late)).memory_plan()
    assert plan.size == KIB + 2 * 64
    assert overlaps(plan) == []


def test_D8_values_of_unknown_size_cannot_be_planned():
    graph = og.Graph()
    x = graph.input("x", "float32", (16,))
    function = graph.compile([x], og.copy_output(og.op.NonZero(x)))
    with pytest.raises(GraphError, match="not known before the run"):
        function.memory_plan()


def test_D8_plans_of_random_graphs_do_not_overlap(rng):
    for _ in range(20):
        graph = og.Graph()
        values = [graph.input("x", "float32", (8,))]
        for _ in range(25):
            a, b = rng.integers(0, len(values), 2)
            size = int(rng.integers(1, 40))
            values.append(og.op.Expand(values[a].sum() + values[b].sum(), [size]))
        outputs = [og.copy_output(values[-1]), og.copy_output(values[10])]
        plan = graph.compile([values[0]], outputs).memory_plan()
        assert overlaps(plan) == []
        assert plan.size == max(chunk.offset + chunk.size for chunk in plan.chunks)


def test_D8_the_size_of_parameters_counts_as_it_is_now():
    graph = og.Graph()
    w = og.SharedTensor(np.zeros((16, 16), np.float32))
    function = graph.compile([], og.copy_output(og.op.Exp(graph.param(w, volatile=True))))
    assert function.memory_plan().size == KIB
    w.resize(32, 16)
    assert function.memory_plan().size == 2 * KIB
