"""What every test gets: one seeded generator, and hypothesis without a clock and without chance."""

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("onnxgrad", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("onnxgrad")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives every test the same numbers in every run."""
    return np.random.default_rng(20)
