import itertools
import threading
import time

import numpy as np
import pytest

from onnxgrad.engine.errors import ExecutionError, InputError, OptionError
from onnxgrad.engine.runtime.batches import run_over
from onnxgrad.engine.runtime.feeds import FeedReader
from tests.engine.text_models import ADD, RELU, compiled, f32, floats

SUM = "g (float[N, M] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }"


def rows(count):
    return [f32([index, -index, 1]) for index in range(count)]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_batches_give_what_single_calls_give_in_order(batch_size, workers):
    run = compiled(RELU)
    results = list(run.map(rows(7), batch_size=batch_size, workers=workers))
    expected = list(run.map([row[None] for row in rows(7)], workers=workers))
    assert [result["y"].tolist() for result in results] == [result["y"][0].tolist() for result in expected]


@pytest.mark.parametrize("make", [lambda x: (x, x), lambda x: {"x": x, "z": x}], ids=["tuple", "dict"])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_items_hold_several_inputs(make, batch_size):
    items = [make(row if batch_size else row[None]) for row in rows(3)]
    results = [np.ravel(result["y"]).tolist() for result in compiled(ADD).map(items, batch_size=batch_size)]
    assert results == [[2 * value for value in row.tolist()] for row in rows(3)]


def test_nothing_is_padded_and_a_change_of_shape_ends_a_batch():
    run, sizes = compiled("g (float[N, M] x) => (float[N, M] y) { y = Neg(x) }"), []

    def record(feeds):
        sizes.append(feeds["x"].shape)
        return run.plan.run(feeds)

    items = [np.ones(size, np.float32) for size in (2, 2, 3, 3, 3, 2)]
    results = list(run_over(record, FeedReader(run._signature), items, 2, 1))
    assert sizes == [(2, 2), (2, 3), (1, 3), (1, 2)]
    assert [np.shape(np.asarray(result["y"])) for result in results] == [(2,), (2,), (3,), (3,), (3,), (2,)]


@pytest.mark.parametrize("workers", [1, 2])
def test_items_are_read_no_further_ahead_than_stated(workers):
    read = []

    def source():
        for index in itertools.count():
            read.append(index)
            yield f32([[index, 0, 0]])

    results = compiled(RELU).map(source(), workers=workers)
    for index in range(5):
        assert next(results)["y"][0, 0] == index
    assert len(read) <= 5 + 2 * workers
    results.close()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_error_comes_in_its_turn(batch_size, workers):
    good = f32([1, 2, 3]) if batch_size else f32([[1, 2, 3]])
    results = compiled(RELU).map([good, good, good, np.zeros(5), good], batch_size=batch_size, workers=workers)
    assert len([next(results) for _ in range(3)]) == 3
    with pytest.raises(InputError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_error_of_the_iterable_comes_after_the_results_before_it(batch_size, workers):
    def source():
        yield from rows(3) if batch_size else [row[None] for row in rows(3)]
        raise KeyError("no more")

    results = compiled(RELU).map(source(), batch_size=batch_size, workers=workers)
    assert len([next(results) for _ in range(3)]) == 3
    with pytest.raises(KeyError, match="no more"):
        next(results)


def test_threads_end_when_the_iteration_is_given_up():
    before = threading.active_count()
    results = compiled(RELU).map((row[None] for row in rows(100)), workers=4)
    next(results)
    results.close()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize(
    ("graph", "options", "part"),
    [
        (RELU, {"workers": 0}, "workers=0"),
        (RELU, {"batch_size": 0}, "batch_size=0"),
        ("g (float[4, 3] x) => (float[4, 3] y) { y = Relu(x) }", {"batch_size": 2}, "first axis is 4"),
        ("g (float x) => (float y) { y = Neg(x) }", {"batch_size": 2}, "no axis"),
        (SUM, {"batch_size": 2}, "no axis"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(graph, options, part):
    with pytest.raises(OptionError, match=part):
        compiled(graph).map([], **options)


def test_an_output_that_does_not_count_the_batch_is_an_error():
    run = compiled("g (float[N, 3] x) => (float[M, N] y) { y = Transpose(x) }")
    with pytest.raises(ExecutionError, match="cannot be divided among 2"):
        list(run.map(rows(2), batch_size=2))


def test_no_items_give_no_results():
    assert list(compiled(RELU).map([], batch_size=3, workers=2)) == []
    assert floats(1).size == 1
