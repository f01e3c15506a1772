"""Dropout."""

import numpy as np

from tests.grad.checks import Case

CASES = [
    Case("Dropout", ((2, 3),)),
    Case("Dropout", ((2, 3),), outputs=2, seeded=[0], name="Dropout-with-mask"),
    Case("Dropout", ((2, 3), np.array(0.3)), name="Dropout-ratio"),
    Case("Dropout", ((2, 3), np.array(0.3), np.array(False)), name="Dropout-inference"),
    Case("Dropout", ((2, 8), np.array(0.3), np.array(True)), {"seed": 3}, runs32=False, name="Dropout-on"),
]
