"""Cases for grad/rules/quantized_lstm.py."""

from collections.abc import Sequence

import numpy as np

from tests.grad.checks import Case

STEPS, BATCH, COLUMNS, HIDDEN = 3, 2, 3, 2
LENGTHS = np.array([3, 2], np.int32)


def lstm(
    name: str,
    kind: type[np.integer],
    scales: Sequence[int],
    *,
    zeros=False,
    rest=False,
    outputs: int = 3,
    runs32=True,
    **attributes,
) -> Case:
    """scales: the shape of a scale per direction; zeros: with zero points; rest: with all optional inputs."""
    rng = np.random.default_rng(1)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    low, high = (0, 255) if kind == np.uint8 else (-127, 127)
    w, r = (rng.integers(low, high, (directions, rows, 4 * HIDDEN)).astype(kind) for rows in (COLUMNS, HIDDEN))
    scale = rng.uniform(0.004, 0.008, (directions, *scales))
    zero = rng.integers(low, high, (directions, *scales)).astype(kind) // 8
    state = (directions, BATCH, HIDDEN)
    given = ((directions, 8 * HIDDEN), LENGTHS, state, state, (directions, 3 * HIDDEN)) if rest else (None,) * 5
    inputs = ((STEPS, BATCH, COLUMNS), w, r, *given, scale, zero if zeros else None, scale, zero if zeros else None)
    return Case(
        "DynamicQuantizeLSTM",
        inputs,
        {"hidden_size": HIDDEN, **attributes},
        f"DynamicQuantizeLSTM-{name}",
        outputs=outputs,
        fixed=(8, 10),  # a kernel takes constants only
        domain=(-1.0, 1.0),
        op_domain="com.microsoft",
        second=False,  # what the gradient is made of is differentiated twice as LSTM
        half=False,
        runs32=runs32,
    )


CASES = [
    # the kernel wants zero points
    lstm("signed", np.int8, (), runs32=False),
    lstm("unsigned", np.uint8, (), zeros=True, outputs=1),
    lstm("columns", np.int8, (4 * HIDDEN,), direction="reverse", runs32=False),
    lstm("all-inputs", np.int8, (), zeros=True, rest=True, direction="bidirectional", runs32=False),
]
