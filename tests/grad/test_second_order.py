"""Second derivatives of loops and recurrent layers, in float32 with symbolic shapes: onnxruntime runs them too."""

import numpy as np
import pytest

from tests.grad.cases import control_flow, recurrent, sequence
from tests.grad.checks import Arrays, Case, build, evaluate, gradient_model_of, run_in_onnxruntime, seeds_of

CHOSEN = (
    "If-nested-True",
    "Scan-plain",
    "Loop-plain",
    "Loop-grows",
    "Loop-nested",
    "RNN-plain",
    "LSTM-plain",
    "GRU-plain",
)
CASES = [case for case in (*control_flow.CASES, *recurrent.CASES, *sequence.CASES) if str(case) in CHOSEN]
CASES += [case for case in sequence.CASES if case.op_type == "SequenceMap"]


def second_derivatives(case: Case, dtype: type, symbolic: bool, run) -> dict[str, np.ndarray]:
    """The gradient of sum(seed * gradients) by the inputs, with the same seeds in every dtype."""
    model, feeds = build(case, dtype, symbolic)
    wrt = list(feeds)
    first = gradient_model_of(model, wrt)
    second = gradient_model_of(first, wrt, of=[f"{name}.grad" for name in wrt])
    rng = np.random.default_rng(0)
    drawn = {name: rng.uniform(-1, 1, value.shape) for name, value in feeds.items()}
    outer: Arrays = {f"{name}.grad.seed": np.asarray(value, dtype) for name, value in drawn.items()}
    results = run(second, {**feeds, **seeds_of(model, evaluate(model, feeds)), **outer})
    return {name: results[f"{name}.grad"] for name in wrt}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_derivatives_run_in_onnxruntime(case):
    got = second_derivatives(case, np.float32, True, run_in_onnxruntime)
    want = second_derivatives(case, np.float64, False, evaluate)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-4 * max(1.0, float(np.abs(value).max(initial=0))))
