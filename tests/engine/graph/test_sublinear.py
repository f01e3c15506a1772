"""Less memory for more time: the option enable_sublinear_memory_opt."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.graph.marks import OF_GRADIENT
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import floats


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("log_static_mem_alloc", "log_level"),
        ("enable_async_exec", "async_exec_level"),
        ("sublinear_mem_cofig.lb_memory", "lb_memory_mb"),
        ("sublinear_mem_config.thresh_nr_try", "thresh_nr_try"),
        ("graph_opt.f16_io_comp", "f16_io_comp"),
    ],
)
def test_O_old_names_and_groups_are_understood(old, name):
    graph = og.Graph()
    graph.set_option(old, 3)
    assert getattr(graph.options, name) == 3


def deep(endpoints=False, **options):
    """The gradient of twelve layers, its size in memory, and its values."""
    graph = og.Graph()
    for name, value in options.items():
        graph.set_option(name, value)
    h = x = graph.input("x", shape=(64, 32))
    weights = [graph.param(og.SharedTensor(np.eye(32, dtype=np.float32) * (1 + k / 20))) for k in range(12)]
    for k, w in enumerate(weights):
        h = og.op.Tanh(og.op.Sigmoid(h @ w) * h)
        if endpoints and k % 4 == 3:
            og.tools.set_sublinear_memory_endpoint(h)
    grads = og.gradients((h * h).sum(), weights)
    function = graph.compile([x], [copy_output(grad) for grad in grads])  # type: ignore[arg-type]
    again = sum(".again" in (node.name or "") for node in function._execution.lowered.model.graph)
    return function(floats(64, 32) / 1000), function.memory_plan().size, again


@pytest.mark.parametrize("endpoints", [False, True], ids=["found", "given"])
def test_O_sublinear_memory_computes_twice_and_needs_less(endpoints):
    want, usual, none = deep()
    got, less, again = deep(endpoints, enable_sublinear_memory_opt=1)
    assert none == 0
    assert again > 0
    assert less < 0.7 * usual
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_O_sublinear_memory_does_nothing_where_there_is_enough():
    assert deep(enable_sublinear_memory_opt=1, lb_memory_mb=100)[2] == 0


def test_O_what_draws_random_numbers_is_not_computed_twice():
    graph = og.Graph()
    graph.set_option("enable_sublinear_memory_opt", 1)
    x = graph.input("x", shape=(64, 32))
    start = x * 1.0  # a pass would take it away
    og.tools.set_sublinear_memory_endpoint(start)
    y, mask = og.op.Dropout(start, 0.5, True, outputs=2)
    loss = (og.op.Tanh(y) * og.op.Tanh(y)).sum()
    grad = og.gradients(loss, x)
    assert grad is not None
    function = graph.compile([x], [copy_output(grad), copy_output(mask)])
    found, kept = function(np.ones((64, 32), np.float32))
    assert np.array_equal(found != 0, kept)


def test_nodes_of_gradients_are_marked():
    for virtual in (False, True):
        graph = og.Graph()
        x = graph.input("x", shape=(2,))
        grad = og.gradients((x * x).sum(), x, use_virtual_grad=virtual)
        function = graph.compile([x], copy_output(grad))  # type: ignore[arg-type]
        marks = [OF_GRADIENT in node.meta for node in function._execution.lowered.model.graph]
        assert True in marks
