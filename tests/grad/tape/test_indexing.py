"""Indices that do not fit a tensor are errors, not other elements."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import InputError

KEYS = {
    "an integer too large": 2,
    "an integer too small": -3,
    "an integer after an ellipsis": (..., 3),
    "an integer after a new axis": (None, 2),
    "an integer beside an array": (2, np.array([0, 1])),
    "a short mask": np.array([True]),
    "a long mask": np.array([True, False, False]),
    "a mask of the second axis": (slice(None), np.array([True, False])),
    "a mask of two axes": np.ones((2, 2), bool),
    "a mask that is a tensor": og.Tensor(np.array([True])),
}


@pytest.mark.parametrize("name", KEYS)
def test_an_index_that_does_not_fit_is_an_error(name):
    x = og.Tensor(np.zeros((2, 3), np.float32))
    for operand in (x, og.Graph().constant(np.zeros((2, 3), np.float32))):
        with pytest.raises(InputError, match=r"out of bounds|a mask of shape"):
            operand[KEYS[name]]
    with pytest.raises(InputError, match=r"out of bounds|a mask of shape|no index"):
        x[KEYS[name]] = 1.0
