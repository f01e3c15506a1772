"""Graphs in several threads: their own, and one whose parameters others read and write meanwhile."""

import threading

import numpy as np
import pytest

import onnxgrad as og
from benchmarks import graph_threads


def test_threads_with_graphs_of_their_own_get_what_one_thread_gets(monkeypatch):
    monkeypatch.setattr(graph_threads, "NETS", 6)
    report = graph_threads.run(seconds=2.0, threads=8)
    assert report.errors == []
    assert report.nets >= 8
    assert report.growth < graph_threads.LIMIT


@pytest.mark.slow
def test_threads_with_graphs_of_their_own_for_a_minute():
    report = graph_threads.run(seconds=60.0, threads=8)
    assert report.errors == []
    assert report.growth < graph_threads.LIMIT


def in_threads(*works):
    """Run functions at the same time, and raise what one of them raises."""
    errors = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_reader_sees_whole_values_of_a_parameter_that_another_function_updates():
    w = og.SharedTensor(np.zeros(200_000, np.float32))
    writing, reading = og.Graph(), og.Graph()
    update = writing.compile([], og.add_update(writing.param(w), np.ones(1, np.float32)))
    v = reading.param(w)
    for _ in range(10):
        v = og.op.Sin(v) * 0.5 + reading.param(w)  # the parameter is read again and again while this runs
    read = reading.compile([], [og.copy_output(v.max() - v.min()), og.copy_output(reading.param(w).max())])
    spreads = []

    def write():
        for _ in range(200):
            update()

    def watch():
        for _ in range(50):
            spreads.append(float(read()[0]))

    in_threads(write, watch, watch)
    assert max(spreads) == 0
    assert np.asarray(w)[0] == 200


def test_updates_of_several_functions_are_all_counted():
    tensors = [og.SharedTensor(np.zeros(1000, np.float32)) for _ in range(2)]
    functions = []
    for order in (tensors, tensors[::-1]):
        graph = og.Graph()
        functions.append(graph.compile([], [og.add_update(graph.param(w), np.ones(1, np.float32)) for w in order]))

    def work(function):
        for _ in range(200):
            function()

    in_threads(*[lambda f=f: work(f) for f in functions * 2])
    assert [np.asarray(w)[0] for w in tensors] == [800, 800]


def test_functions_that_read_what_the_other_updates_do_not_wait_for_each_other():
    a, b = (og.SharedTensor(np.zeros(1000, np.float32)) for _ in range(2))
    functions = []
    for target, source in ((a, b), (b, a)):
        graph = og.Graph()
        functions.append(graph.compile([], og.add_update(graph.param(target), graph.param(source), beta=0.0)))
    done = []

    def work(function):
        for _ in range(300):
            function()
        done.append(function)

    in_threads(*[lambda f=f: work(f) for f in functions])
    assert len(done) == 2


def test_one_function_called_by_several_threads_gives_each_its_own_result():
    graph = og.Graph()
    x = graph.input("x", "float32", (3,))
    function = graph.compile([x], og.copy_output(x * 2.0))

    def work(number):
        given = np.full(3, number, np.float32)
        for _ in range(200):
            np.testing.assert_array_equal(function(given), given * 2)

    in_threads(*[lambda k=k: work(k) for k in range(4)])


def test_a_function_that_ends_in_its_own_callback_does_not_wait_for_itself():
    graph = og.Graph()
    x = graph.input("x", "float32", (2,))
    may_go = threading.Event()
    seen: list[float] = []

    def callback(value):
        may_go.wait(10)
        holder.clear()  # the last reference, in the thread that the runs behind this one wait for
        seen.append(value.get()[0])

    holder = [graph.compile([x], [(x + 1, callback)])]
    for number in range(3):
        holder[0].start(np.full(2, number, np.float32))
    may_go.set()
    for _ in range(1000):
        if len(seen) == 3:
            break
        threading.Event().wait(0.01)
    assert seen == [1, 2, 3]


def test_a_thread_that_cannot_be_started_is_an_error_and_not_a_wait_for_ever(monkeypatch):
    graph = og.Graph()
    x = graph.input("x", "float32", (2,))
    seen = []
    run = graph.compile([x], [(x + 1, lambda value: seen.append(value.get()[0]))])

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(og.errors.GraphError, match="can't start new thread"):
            run(np.zeros(2, np.float32))
    run(np.zeros(2, np.float32))
    assert seen == [1]


def test_a_parameter_whose_first_value_fails_leaves_the_others_free():
    class Broken:
        def get_shape(self):
            return (2,)

        def get_value(self):
            raise OSError("no file")

    good, bad = og.SharedTensor(np.ones(2, np.float32)), og.SharedTensor(dtype="float32")
    bad.lazy_initializer = Broken()
    graph = og.Graph()
    run = graph.compile([], og.copy_output(graph.param(good) + graph.param(bad)))
    with pytest.raises(OSError, match="no file"):
        run()
    memory = good.ort_value
    good.set(np.zeros(2, np.float32))  # a run that reads it would keep this memory as it is
    assert good.ort_value is memory
