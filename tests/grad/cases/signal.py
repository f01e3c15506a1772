"""Cases for grad/rules/signal.py."""

import numpy as np

from tests.grad.checks import Case


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def dft(shape, axis=None, length=None, opset=22, runs32=True, **attributes) -> Case:
    name = f"DFT-{opset}-{shape}-{axis}-{length}-{attributes}"
    inputs = [shape, None if length is None else number(length)]
    if opset >= 20 and axis is not None:
        inputs.append(number(axis))
    elif axis is not None:
        attributes["axis"] = axis
    while inputs[-1] is None:
        inputs.pop()
    return Case("DFT", inputs, attributes, name=name, opset=opset, runs32=runs32, half=False)  # float16 is not allowed


def stft(signal, step, window=None, frame=None, **attributes) -> Case:
    inputs = [signal, number(step), window, None if frame is None else number(frame)]
    while inputs[-1] is None:
        inputs.pop()
    return Case("STFT", inputs, attributes, name=f"STFT-{signal}-{window}-{attributes}", half=False)


CASES = [
    dft((2, 5, 1)),
    dft((2, 4, 2)),
    dft((2, 3, 3, 2), axis=1),
    dft((2, 3, 2, 1), axis=-3),
    dft((2, 5, 1), onesided=1),
    dft((2, 4, 1), onesided=1),
    dft((2, 5, 2), inverse=1),
    dft((2, 5, 1), length=7),
    dft((2, 5, 2), length=3),
    dft((2, 5, 2), length=8, inverse=1),
    dft((2, 5, 1), length=8, onesided=1),
    dft((2, 5, 1), length=3, onesided=1),
    dft((2, 5, 1), opset=18),
    dft((2, 3, 4, 2), axis=2, opset=19, inverse=1),
    # onnxruntime gives complex results here
    dft((2, 4, 2), inverse=1, onesided=1, runs32=False),
    dft((2, 4, 2), length=7, inverse=1, onesided=1, runs32=False),
    dft((2, 3, 2), length=6, inverse=1, onesided=1, runs32=False),
    stft((2, 9, 1), 2, window=(4,)),
    stft((1, 8, 1), 3, frame=5),
    stft((1, 8, 2), 2, window=(4,), onesided=0),
    stft((1, 8, 1), 2, window=(4,), frame=4, onesided=0),
    # expanded by the function of the standard, which computes the activation in float32; onnxruntime stops at opset 26
    Case("CausalConvWithState", [(2, 3, 5), (3, 1, 3), (3,), (2, 3, 2)], opset=27, outputs=2, runs32=False),
    Case(
        "CausalConvWithState",
        [(1, 2, 4), (2, 1, 2)],
        {"activation": "silu"},
        name="CausalConvWithState-silu",
        opset=27,
        outputs=2,
        seeded=[0],
        runs32=False,
        second=False,
        tolerance=1e-2,
    ),
]
