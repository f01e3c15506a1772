"""Cases for grad/rules/scatter.py."""

import numpy as np

from tests.grad.checks import Case


def ints(*values) -> np.ndarray:
    return np.array(values, np.int64)


ZEROS = np.array([[1.0, 0.0, 2.0], [0.0, -1.5, 0.5]])
REDUCTIONS = ("none", "add", "mul", "min", "max")

CASES = [
    *(Case("ScatterElements", ((3, 3), ints([1, 0, 2], [0, -1, 1]), (2, 3)), {"reduction": how}) for how in REDUCTIONS),
    *(
        Case("ScatterElements", ((2, 4), ints([1, 1, 3], [0, 2, 2]), (2, 3)), {"axis": 1, "reduction": how})
        for how in REDUCTIONS[1:]
    ),
    Case(
        "ScatterElements",
        (ZEROS, ints([0, 1, 1], [0, 0, 1]), np.array([[2.0, 3.0, 0.0], [4.0, 0.5, 0.0]])),
        {"reduction": "mul"},
        name="ScatterElements-mul-zeros",
        second=False,  # a product with zeros: only the first derivative is exact
    ),
    *(Case("ScatterND", ((3, 3), ints([0, 1], [-1, 2]), (2,)), {"reduction": how}) for how in REDUCTIONS),
    *(
        Case(
            "ScatterND",
            ((3, 2), ints([[2]], [[0]], [[2]]), (3, 1, 2)),
            {"reduction": how},
            name=f"ScatterND-rows-{how}",
        )
        for how in REDUCTIONS[1:]
    ),
]
