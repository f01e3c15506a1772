"""What traced functions read and set outside of themselves, also when they fail and in several threads."""

import threading

import numpy as np
import pytest

import onnxgrad as og


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


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
