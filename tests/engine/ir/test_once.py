"""What is done once is done before any thread goes on."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from onnxgrad.engine.ir.once import once

COLD = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import onnxgrad as og
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
def square(number):
    barrier.wait(20)
    x = og.Tensor([3.0])
    return (x * x).item()
with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(square, range(8))) == [9.0] * 8
"""


def test_threads_wait_until_it_is_done():
    calls, started, leave = [], threading.Event(), threading.Event()

    @once
    def prepare():
        started.set()
        assert leave.wait(20)
        calls.append(1)

    def use():
        prepare()
        return len(calls)

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(use) for _ in range(4)]
        assert started.wait(20)
        leave.set()
        assert [one.result() for one in found] == [1] * 4


def test_after_an_error_it_is_tried_again():
    calls = []

    @once
    def prepare():
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        prepare()
    prepare()
    prepare()
    assert len(calls) == 2


def test_the_first_operators_of_a_process_may_run_in_several_threads():
    subprocess.run([sys.executable, "-c", COLD], check=True, timeout=120)
