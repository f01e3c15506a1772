"""Cases for grad/rules/pool.py."""

import numpy as np

from tests.grad.checks import Case

WINDOWS: list[tuple[tuple[int, ...], dict[str, int | str | list[int]]]] = [
    ((2, 2, 7), {"kernel_shape": [3]}),
    ((1, 2, 5, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((1, 1, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 0, 1]}),
    ((1, 1, 6), {"kernel_shape": [3], "strides": [4], "ceil_mode": 1}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [2, 1, 0, 1]}),
    ((1, 1, 5, 6), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 1, 7, 8), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 1, 5, 5), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID"}),
    ((1, 1, 3, 4, 3), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 1], "pads": [0, 1, 0, 1, 0, 1]}),
]


def spread(shape) -> np.ndarray:
    """Values that differ by at least 0.05, in random order: far from ties."""
    count = int(np.prod(shape))
    return ((np.random.default_rng(0).permutation(count) - count / 3) * 0.05).reshape(shape)


def pool(op, shape, attributes, **options) -> Case:
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    return Case(op, [spread(shape)], attributes, name=f"{op}-{shape}-{spelled}", **options)


CASES = [
    *(pool("MaxPool", shape, attributes) for shape, attributes in WINDOWS),
    pool("MaxPool", (1, 2, 5, 6), {"kernel_shape": [2, 2], "storage_order": 1}, outputs=2, seeded=[0]),
    pool("MaxPool", (1, 2, 9, 9), {"kernel_shape": [7, 7], "pads": [1, 2, 1, 2]}),
    pool("MaxPool", (1, 1, 9, 8), {"kernel_shape": [7, 7], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    pool("MaxPool", (2, 2, 40), {"kernel_shape": [38]}),
    *(pool("AveragePool", shape, attributes) for shape, attributes in WINDOWS),
    *(pool("AveragePool", shape, {**attributes, "count_include_pad": 1}) for shape, attributes in WINDOWS),
    *(pool("LpPool", shape, attributes) for shape, attributes in WINDOWS),
    *(pool("LpPool", (1, 2, 5, 4), {"kernel_shape": [2, 3], "strides": [1, 2], "p": p}) for p in (1, 3, 4)),
    Case("GlobalAveragePool", [(2, 3, 4)]),
    Case("GlobalAveragePool", [(2, 3, 2, 3)], name="GlobalAveragePool-2d"),
    Case("GlobalMaxPool", [spread((2, 3, 2, 3))]),
    *(Case("GlobalLpPool", [(2, 3, 2, 3)], {"p": p}, opset=21) for p in (1, 2, 3, 4)),
    Case(
        "MaxUnpool",
        [(1, 2, 2, 2), np.array([[[[0, 3], [8, 10]], [[17, 18], [24, 31]]]])],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
]
