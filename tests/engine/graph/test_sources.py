"""Rows of tables A and B and row P13 of docs/semantics.md: inputs and parameters in functions that run."""

import threading

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import ExecutionError, GraphError, InputError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import lower

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Lazy:
    """A value that counts how often it is made."""

    made = 0

    def get_shape(self):
        return X.shape

    def get_value(self):
        self.made += 1
        return X


def reading(tensor, **options):
    """A function that gives twice the value of a parameter."""
    graph = og.Graph()
    return graph.compile([], og.copy_output(graph.param(tensor, **options) * 2.0))


def test_A5_a_run_reads_the_value_that_is_set_now():
    tensor = og.SharedTensor(X)
    run = reading(tensor)
    for number in (1, 5):
        tensor.set(X + number)
        np.testing.assert_array_equal(run(), 2 * (X + number))


def test_A6_a_run_reads_a_value_that_was_not_synchronised():
    tensor = og.SharedTensor(X)
    run = reading(tensor)
    tensor.set(X + 1, sync=False)
    np.testing.assert_array_equal(run(), 2 * (X + 1))


@pytest.mark.parametrize("share", [False, True])
def test_A9_A10_what_a_callback_keeps_is_not_overwritten_by_the_next_run(share):
    graph, kept = og.Graph(), og.SharedTensor(dtype="float32")
    x = graph.input("x", shape=(2, 3))

    def keep(value):
        if kept.is_empty:
            kept.set(value, share=share)

    run = graph.compile([x], [(x * 2.0, og.lazy_callback(keep))])
    run(X)
    run(X + 100)
    np.testing.assert_array_equal(kept.get(), 2 * X)


def test_A9_a_value_can_be_kept_from_an_eager_callback(caplog):
    graph, kept = og.Graph(), og.SharedTensor(dtype="float32")
    x = graph.input("x", shape=(2, 3))
    graph.compile([x], [(x * 2.0, kept.set)])(X)
    np.testing.assert_array_equal(kept.get(), 2 * X)
    assert "use a lazy callback" in caplog.text


def test_A12_a_fixed_parameter_keeps_its_shape():
    tensor = og.SharedTensor(X)
    run = reading(tensor)
    tensor.set(np.zeros((3, 3)))
    with pytest.raises((ExecutionError, GraphError, InputError)):
        run()


def test_A12_a_volatile_parameter_may_change_its_shape():
    tensor = og.SharedTensor(X)
    run = reading(tensor, volatile=True)
    for shape in ((2, 3), (5, 1)):
        tensor.set(np.ones(shape))
        np.testing.assert_array_equal(run(), np.full(shape, 2))


def test_A13_A15_parts_of_a_pack_are_parameters():
    pack, parts = og.SharedTensor(np.arange(5.0), "float32"), [og.SharedTensor(shape=(n,)) for n in (3, 2)]
    parts[0].share_memory_from(pack, 0)
    parts[1].share_memory_from(pack, 3)
    graph = og.Graph()
    updates = [og.add_update(part, graph.param(part), beta=10.0) for part in parts]
    run = graph.compile([], [*updates, og.copy_output(graph.param(pack))])
    (old,) = run()
    np.testing.assert_array_equal(old, np.arange(5.0))
    np.testing.assert_array_equal(pack.get(), 11 * np.arange(5.0))


def test_A16_a_run_reads_an_alias():
    tensor, other = og.SharedTensor(X), og.SharedTensor(X + 1)
    run = reading(tensor)
    tensor.reset_to(other)
    np.testing.assert_array_equal(run(), 2 * (X + 1))


def test_A17_bits_of_a_part_at_an_odd_offset_are_read():
    pack, part = og.SharedTensor(np.arange(9) % 2, dtype="int8"), og.SharedTensor(shape=(7,), dtype="int8")
    part.share_memory_from(pack, 1)
    graph = og.Graph()
    run = graph.compile([], og.copy_output(graph.param(part) + graph.constant(1, "int8")))
    np.testing.assert_array_equal(run(), np.arange(1, 8) % 2 + 1)


def test_A18_a_lazy_value_is_made_when_the_function_runs():
    tensor, lazy = og.SharedTensor(), Lazy()
    tensor.lazy_initializer = lazy
    run = reading(tensor)
    assert lazy.made == 0
    np.testing.assert_array_equal(run(), 2 * X)
    run()
    assert lazy.made == 1


def test_B1_the_source_of_an_input_survives_copies_of_the_graph():
    graph = og.Graph()
    x = graph.input("x", shape=(2, 3))
    lowered = lower(graph, [(x * 2.0).value])
    assert lowered.sources["x"] is HostTensor.from_var(x)


def test_B2_an_input_with_a_value_need_not_be_given_one():
    graph = og.Graph()
    x = graph.input("x", value=X)
    run = graph.compile([x], og.copy_output(x * 2.0))
    np.testing.assert_array_equal(run(x=X + 1), 2 * (X + 1))
    by_name = graph.compile(None, og.copy_output(x * 2.0))
    np.testing.assert_array_equal(by_name(), 2 * X)
    HostTensor.from_var(x).set(X + 5)
    np.testing.assert_array_equal(by_name(), 2 * (X + 5))


def test_B2_a_rank_that_is_not_known_is_any():
    graph = og.Graph()
    x = graph.input("x")
    run = graph.compile([x], og.copy_output(og.op.Relu(x)))
    for shape in ((2,), (1, 2, 3)):
        np.testing.assert_array_equal(run(np.full(shape, -1, np.float32)), np.zeros(shape))


@pytest.mark.parametrize("borrows", [False, True])
def test_B5_a_run_that_nobody_waits_for_reads_a_copy_unless_it_borrows(borrows):
    graph, array = og.Graph(), X.copy()
    x = graph.input("x", shape=(2, 3))
    HostTensor.from_var(x).borrow_on_cpu = borrows
    run = graph.compile([x], og.copy_output(x * 2.0))
    with run._execution.guard:
        pending = run.start(array)
        array[:] = 7
    run.wait()
    np.testing.assert_array_equal(pending.get(), np.full((2, 3), 14) if borrows else 2 * X)


def test_B7_an_input_that_was_there_before_is_a_user_input():
    graph = og.Graph()
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 3]))
    graph.ir.inputs.append(value)
    x = graph.mark_as_input(value)
    np.testing.assert_array_equal(graph.compile([x], og.copy_output(x * 2.0))(X), 2 * X)


@pytest.mark.parametrize(("volatile", "sees"), [(False, False), (True, True)])
def test_P13_a_fixed_parameter_is_a_constant_of_an_optimized_function(volatile, sees):
    graph, tensor = og.Graph(), og.SharedTensor(X)
    out = og.copy_output(graph.param(tensor, volatile=volatile) * 2.0)
    run = graph.compile([], out, optimize_for_inference=True)
    tensor.set(X + 1)
    np.testing.assert_array_equal(run(), 2 * (X + sees))


def test_P13_a_constant_never_changes():
    graph, array = og.Graph(), np.zeros(2000, np.float32)
    one, two = graph.constant(array) + 1.0, array[:9] + graph.constant([0.0]) + 1.0
    array[:] = 5
    run = graph.compile([], [og.copy_output(one), og.copy_output(two)])
    np.testing.assert_array_equal(np.concatenate(run()), np.ones(2009))


def test_P13_many_tensors_are_parameters_of_one_graph():
    graph = og.Graph()
    tensors = [og.SharedTensor(np.full(3, i), "float32", name="w") for i in range(20)]
    total = og.op.Sum(*(graph.param(tensor) for tensor in tensors))
    assert len({var.name for var in graph.inputs}) == 20
    np.testing.assert_array_equal(graph.compile([], og.copy_output(total))(), np.full(3, 190))


def test_P13_a_copy_is_a_value_of_its_own():
    graph, tensor = og.Graph(), og.SharedTensor(X)
    run = graph.compile([], og.copy_output(og.op.Identity(graph.param(tensor))))
    found = run()
    tensor.set(X + 1)
    np.testing.assert_array_equal(found, X)


def test_threads_read_whole_values_while_a_function_updates():
    """A reader never sees a parameter between two updates, nor a spare buffer that a run writes."""
    graph, tensor = og.Graph(), og.SharedTensor(np.zeros(5000), "float32")
    step = graph.compile([], [og.add_update(tensor, graph.constant(np.ones(5000, np.float32)))])
    torn, done = [], threading.Event()

    def read():
        while not done.is_set():
            value = np.asarray(tensor)
            if value.min() != value.max():
                torn.append(value)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        step()
    done.set()
    for thread in threads:
        thread.join(10)
    assert not torn
    np.testing.assert_array_equal(tensor.get(), np.full(5000, 200))
