"""Tapes of several threads do not disturb each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import onnxgrad as og
from onnxgrad.grad.tape.operators import find_backward
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.tape import Slot, Tape


def test_one_decorator_of_no_grad_serves_several_threads():
    inside, leave = threading.Event(), threading.Event()

    @og.no_grad()
    def nothing(waits):
        if waits:
            inside.set()
            assert leave.wait(20)

    def record(waits):
        x = og.Tensor([3.0])
        with og.Grad() as grad:
            grad.wrt(x)
            own = STATE.recorders
            nothing(waits)
            if not waits:
                leave.set()
            return own == STATE.recorders

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(record, True)
        assert inside.wait(20)
        second = pool.submit(record, False)
        assert second.result()
        assert first.result()


class Slow(Tape):
    """A tape that another one, which looks at it, has to wait for."""

    looked: threading.Event
    go_on: threading.Event

    @property
    def recording(self):
        self.looked.set()
        self.go_on.wait(0.5)
        return True

    @recording.setter
    def recording(self, value):
        pass


def test_tapes_of_several_threads_attach_one_tensor():
    slow = Slow(find_backward)
    slow.looked, slow.go_on = threading.Event(), threading.Event()
    x = og.Tensor([3.0])
    x._slots = {slow: Slot(None)}

    def attach(tape):
        tape.begin()
        tape.attach(x)
        return tape.slot_of(x)

    with ThreadPoolExecutor(2) as pool:
        tapes = [Tape(find_backward) for _ in range(2)]
        first = pool.submit(attach, tapes[0])
        assert slow.looked.wait(20)
        second = pool.submit(attach, tapes[1])
        second.result()
        slow.go_on.set()
        assert first.result() is not None
    assert all(tape.slot_of(x) is not None for tape in tapes)
