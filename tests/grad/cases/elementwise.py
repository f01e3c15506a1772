"""Arithmetic, element by element."""

import numpy as np

from tests.grad.checks import Case

AWAY = (0.3, 2.0)  # from 0
BROADCAST = ((2, 3), (3,))


def _floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float64)


CASES = [
    Case("Add", BROADCAST),
    Case("Add", ((2, 1, 3), (4, 1)), name="Add-both-ways"),
    Case("Add", ((), (3,)), name="Add-scalar"),
    Case("Add", ((0, 3), (3,)), name="Add-zero-size"),
    Case("Sub", BROADCAST),
    Case("Neg", ((2, 3),)),
    Case("Mul", BROADCAST),
    Case("Mul", ((3,), (2, 3)), name="Mul-other-way"),
    Case("Div", BROADCAST, domain=AWAY),
    Case("Div", ((2, 1), (1, 3)), domain=(-2.0, -0.3), name="Div-both-ways"),
    Case("Mod", (_floats(5.3, -5.3, 5.3, -5.3), _floats(2.0, 2.0, -2.0, -2.0)), {"fmod": 1}),
    Case("Mod", (_floats(5.3, -5.3, 0.5), _floats(2.0)), {"fmod": 1}, name="Mod-broadcast"),
    # onnxruntime and float16 do not know the floored remainder of floats of opset 28 yet
    Case("Mod", (_floats(5.3, -5.3, 5.3, -5.3), _floats(2.0, 2.0, -2.0, -2.0)), opset=28, runs32=False),
    Case("Abs", (_floats(-1.5, 0.5, 2.0),)),
    Case("Sqrt", ((2, 3),), domain=AWAY),
    Case("Exp", ((2, 3),)),
    Case("Log", ((2, 3),), domain=AWAY),
    Case("Reciprocal", ((2, 3),), domain=AWAY),
    Case("Erf", ((2, 3),), half=False),  # numpy has no float16 erf
    Case("Erf", ((),), name="Erf-scalar", half=False),
    Case("Pow", BROADCAST, domain=AWAY),
    Case("Pow", ((2, 1), (1, 3)), domain=AWAY, name="Pow-both-ways"),
    *(Case("Pow", ((3,), _floats(e)), fixed=[1], domain=AWAY, name=f"Pow-{e}") for e in (0, 0.5, 1, 2, 3, -1.5)),
    Case("Pow", (_floats(-1.5, 0.0, 0.5), _floats(2.0)), fixed=[1], name="Pow-square-of-negative"),
    Case("Pow", (_floats(-1.5, 0.0, 0.5), np.array([3, 3, 3])), name="Pow-whole-exponents"),
    Case("Pow", (_floats(-1.5, 1.5, -0.5), np.array([3, 0, -1])), name="Pow-exponent-0"),
    Case("Pow", (_floats(0.5, 1.5), _floats(0.0, 1.0)), name="Pow-trained-exponent-0"),
    Case("Max", ((2, 3), (3,), ())),
    Case("Max", ((2, 3),), name="Max-one"),
    Case("Min", ((2, 3), (2, 1))),
    Case("Min", ((2, 3), (3,), (1,), (2, 1)), name="Min-four"),
    Case("Sum", ((2, 3), (3,), ())),
    Case("Sum", ((2, 3),), name="Sum-one"),
    Case("Mean", ((2, 3), (3,), (1, 1))),
    Case("Mean", ((2, 3),), name="Mean-one"),
    Case("Where", (np.array([True, False, True]), (2, 3), (3,))),
    Case("Where", (np.array([[True], [False]]), (3,), ()), name="Where-condition-broadcasts"),
    Case("Clip", (_floats(-1.0, 0.2, 0.4, 2.0), _floats(0.0).reshape(()), _floats(1.0).reshape(()))),
    Case("Clip", (_floats(-1.0, 0.2, 2.0), None, _floats(1.0).reshape(())), name="Clip-no-minimum"),
    Case("Clip", (_floats(-1.0, 0.2, 2.0), _floats(0.0).reshape(())), name="Clip-no-maximum"),
    Case("Clip", ((2, 2),), name="Clip-no-bounds"),
    Case(
        "Clip",
        (_floats(-1.0, 0.2, 0.7, 2.0), _floats(1.0).reshape(()), _floats(0.5).reshape(())),
        name="Clip-crossed-bounds",
    ),
    Case("Cast", ((2, 3),), {"to": 11}, runs32=False, half=False),  # the output is float64 whatever the input
    Case("CastLike", ((2, 3), (1,)), fixed=[1]),
    Case("Identity", ((2, 3),)),
]
