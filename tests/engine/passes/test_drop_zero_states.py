"""Zeros as the initial state of a recurrent node are left out; anything else stays."""

import numpy as np
import pytest

from onnxgrad.engine.passes.drop_zero_states import drop_zero_states
from tests.engine.passes.checks import check, f32, i64, model_of, operators

GRU = "g (float[T,N,2] x) => (float[T,1,N,3] y) {{ {state} y = GRU<hidden_size=3>(x, w, r, , , h) }}"
LSTM = "g (float[T,2,2] x) => (float[T,1,2,3] y) {{ {state} y = LSTM<hidden_size=3>(x, w, r, , , {states}) }}"
BATCH = "s = Shape<start=1,end=2>(x) n = Concat<axis=0>(one, s, three)"


def weights(gates):
    rng = np.random.default_rng(0)
    w, r = (rng.standard_normal((1, 3 * gates, size)).astype(np.float32) for size in (2, 3))
    return {"w": w, "r": r, "one": i64(1), "three": i64(3)}


@pytest.mark.parametrize(
    ("state", "left"),
    [
        (f"{BATCH} h = ConstantOfShape(n)", ["GRU"]),
        (f"{BATCH} h = Expand(zero, n)", ["GRU"]),
        (f"{BATCH} h = ConstantOfShape<value = float[1] {{0.5}}>(n)", None),
        (f"{BATCH} h = Expand(half, n)", None),
        (f"{BATCH} z = ConstantOfShape(n) h = Cos(z)", None),
    ],
    ids=["ConstantOfShape", "Expand", "filled", "expanded number", "computed"],
)
def test_a_state_of_zeros_goes_with_the_shape_it_was_made_of(state, left):
    model = model_of(GRU.format(state=state), **weights(3), zero=f32(0), half=f32(0.5))
    result = check(model, drop_zero_states, hits=1 if left else 0)
    assert left is None or operators(result) == left


def test_each_state_of_an_lstm_is_judged_alone():
    numbers = {**weights(4), "zeros": np.zeros((1, 2, 3), np.float32), "ones": np.ones((1, 2, 3), np.float32)}
    for states, hits in (("zeros, ones", 1), ("ones, zeros", 1), ("zeros, zeros", 2), ("ones, ones", 0)):
        check(model_of(LSTM.format(state="", states=states), **numbers), drop_zero_states, hits=hits)
