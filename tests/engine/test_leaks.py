"""Memory stays, over many calls and many compilations; calls of several threads do not disturb each other."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from onnxgrad.engine.compile import compile
from onnxgrad.engine.runtime.plan import SessionRegion
from onnxgrad.engine.runtime.session import SESSIONS
from tests.engine.text_models import model_of

MATMUL = "g (float[N, 512] x) => (float[N, 512] y) { p = MatMul(x, w) y = Relu(p) }"
SHIFT = "g (float[N, 512] x) => (float[N, 512] y) { y = Add(x, w) }"


def resident():
    """MiB of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def model_with(number, graph=MATMUL):
    """A model with a weight of its own, 1 MiB of it for MATMUL."""
    model = model_of(graph)
    shape = (512, 512) if graph == MATMUL else (512,)
    model.graph.initializer.append(numpy_helper.from_array(np.full(shape, number, np.float32), "w"))
    return model


def growth(step, times):
    """MiB that `times` steps add, after as many to warm up as fill the caches: the least of three rounds.

    What leaks does so in every round; what a new thread's allocator takes for itself, it takes once.
    """
    for number in range(40):
        step(number)
    rounds = []
    for first in (1000, 1000 + times, 1000 + 2 * times):
        before = resident()
        for number in range(first, first + times):
            step(number)
        rounds.append(resident() - before)
    return min(rounds)


def calls(run):
    x = np.ones((256, 512), np.float32)
    return lambda number: run(x)


def bindings(run):
    x = np.ones((64, 512), np.float32)
    return lambda number: run.bind(x)()


def maps(run):
    rows = [np.ones(512, np.float32)] * 4
    return lambda number: list(run.map(rows, batch_size=2, workers=2))


STEPS = {
    "calls": (calls, 10_000, 1_000),
    "device": (lambda run: lambda number: run.on_device(np.ones((256, 512), np.float32)), 10_000, 500),
    "bindings": (bindings, 2_000, 200),
    "maps": (maps, 1_000, 50),
}


def growth_of(name, few):
    make, many, some = STEPS[name]
    return growth(make(compile(model_with(1, SHIFT), providers="cpu", threads=1)), some if few else many)


@pytest.mark.parametrize("name", STEPS)
def test_some_calls_leave_nothing(name):
    assert growth_of(name, few=True) < 8


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_many_calls_leave_nothing(name):
    assert growth_of(name, few=False) < 8


def compilation(number):
    run = compile(model_with(number), providers="cpu", threads=1)
    assert run(np.ones((1, 512), np.float32))["y"][0, 0] == 512 * number


def test_some_compilations_leave_no_more_than_the_cache_keeps():
    assert growth(compilation, 30) < 12


@pytest.mark.slow
def test_many_compilations_leave_no_more_than_the_cache_keeps():
    assert growth(compilation, 500) < 24


def test_calls_of_several_threads_give_what_each_asked_for():
    run = compile(model_with(1, SHIFT), providers="cpu", threads=1)
    wrong = []

    def call(number):
        x = np.full((4, 512), number, np.float32)
        for _ in range(100):
            if not (run(x)["y"] == number + 1).all():
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_several_threads_that_compile_one_model_get_one_session():
    SESSIONS.clear()
    model, runs = model_with(7, SHIFT), []

    def build():
        runs.append(compile(model, providers="cpu", threads=1))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    regions = [run.plan.regions[0] for run in runs]
    assert len({id(region.session) for region in regions if isinstance(region, SessionRegion)}) == 1
