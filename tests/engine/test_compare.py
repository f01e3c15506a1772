"""What counts as the same output: rounding, sequences, maps, absent values."""

import numpy as np
import pytest

from onnxgrad.engine.compare import agreements, differences

LONG = np.zeros(2001, np.float32)
CHANGED = np.where(np.arange(2001) == 1000, np.float32(1), LONG)
SAME = {
    "rounding of complex numbers": (np.array([1 + 1j], np.complex64), np.array([1 + 1.00001j], np.complex64)),
    "rounding in a sequence": ([LONG + 1], [LONG + np.float32(1.00001)]),
    "rounding in a map of a sequence": ([{"cat": 0.5, "dog": 0.5}], [{"cat": 0.500001, "dog": 0.499999}]),
    "empty sequences": ([], []),
    "absent values": (None, None),
}
OTHER = {
    "one element of a sequence": ([LONG], [CHANGED]),
    "one element of a nested sequence": ([[LONG], [LONG]], [[LONG], [CHANGED]]),
    "length of a sequence": ([LONG], [LONG, LONG]),
    "numbers of a map": ([{"cat": 0.5}], [{"cat": 0.6}]),
    "keys of a map": ([{"cat": 0.5}], [{"dog": 0.5}]),
    "an absent value": (LONG, None),
    "dtype": (LONG, LONG.astype(np.float64)),
}


@pytest.mark.parametrize(("want", "got"), SAME.values(), ids=SAME)
def test_outputs_that_are_the_same(want, got):
    assert agreements({"y": want}, {"y": got})[0].holds
    assert differences({"y": want}, {"y": got}, 0) == []


@pytest.mark.parametrize(("want", "got"), OTHER.values(), ids=OTHER)
def test_outputs_that_differ(want, got):
    assert not agreements({"y": want}, {"y": got})[0].holds
    assert len(differences({"y": want}, {"y": got}, 0)) == 1
