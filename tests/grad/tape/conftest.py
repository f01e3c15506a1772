"""A tape that records, and a place for gradients."""

import pytest

from onnxgrad.grad.tape.operators import find_backward
from onnxgrad.grad.tape.tape import Tape
from tests.grad.tape.watch import Watch


@pytest.fixture
def seen():
    return Watch()


@pytest.fixture
def tape():
    tape = Tape(find_backward)
    tape.begin()
    yield tape
    tape.release()
