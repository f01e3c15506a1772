"""Cases for grad/rules/index.py."""

import numpy as np

from tests.grad.checks import Case


def ints(*values) -> np.ndarray:
    return np.array(values, np.int64)


CASES = [
    Case("Gather", ((4, 3), ints(1, -1, 1, 0))),
    Case("Gather", ((4, 3), ints([2, 0], [0, -3]).astype(np.int32)), {"axis": 1}),
    Case("Gather", ((2, 3, 2), np.array(-1, np.int64)), {"axis": -2}, name="Gather-scalar"),
    Case("Gather", ((3,), ints(2, 2)), name="Gather-1d"),
    Case("Gather", ((3, 2), np.zeros((0,), np.int64)), name="Gather-nothing"),
    Case("Compress", ((4, 3), np.array([True, False, True])), {"axis": 0}),
    Case("Compress", ((2, 3), np.array([False, True, True])), {"axis": -1}),
    Case("Compress", ((2, 3), np.array([False, True, False, True, True])), name="Compress-flat"),
    Case("GatherElements", ((3, 3), ints([1, 2, 0], [2, 0, 0]))),
    Case("GatherElements", ((2, 3), ints([1, -1, 1, 0], [2, 0, 0, -3])), {"axis": 1}, name="GatherElements-negative"),
    Case("GatherND", ((2, 3), ints([0, 0], [1, -1], [0, 0]))),
    Case("GatherND", ((3, 2), ints([[2]], [[2]])), name="GatherND-slices"),
    Case("GatherND", ((2, 3, 2), ints([1], [0])), {"batch_dims": 1}),
    Case("GatherND", ((2, 2, 3), ints([[[0], [2]], [[1], [1]]], [[[2], [2]], [[0], [-1]]])), {"batch_dims": 2}),
    Case("TopK", ((3, 4), ints(2)), outputs=2, seeded=(0,)),
    Case("TopK", ((4, 2), ints(3)), {"axis": 0, "largest": 0}, outputs=2, seeded=(0,)),
    Case("Unique", ((5,),), name="Unique"),
    Case("Unique", ((5,),), {"sorted": 0}, outputs=4, seeded=(0,)),
    Case("Unique", ((3, 2),), {"axis": 0}, name="Unique-axis"),
    Case("OneHot", (ints(0, 2, -1), np.array(3), np.array([0.5, 2.0]))),
    Case("OneHot", (ints([0, 2], [7, 1]), np.array(3), np.array([0.5, 2.0])), {"axis": 0}, name="OneHot-out-of-range"),
    Case("Range", (np.array(0.5), np.array(3.2), np.array(0.75)), half=False),  # no kernel in float16
    Case("TensorScatter", ((2, 5, 3), (2, 2, 3), ints(1, 3)), opset=24, name="TensorScatter"),
    Case("TensorScatter", ((2, 2, 5, 3), (2, 2, 2, 3)), opset=24, name="TensorScatter-from-0"),
    Case("TensorScatter", ((2, 4, 3), (2, 2, 3), ints(1, 3)), {"axis": 1, "mode": "circular"}, opset=24),
]
