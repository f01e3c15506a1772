"""Normalizations of channels."""

import numpy as np

from tests.grad.checks import Case

POSITIVE = np.array([0.5, 1.5])
BATCH = ((2, 2, 3), (2,), (2,), (2,), POSITIVE)

CASES = [
    Case("BatchNormalization", BATCH),
    Case("BatchNormalization", ((3, 2), (2,), (2,), (2,), POSITIVE), {"epsilon": 0.1}),
    Case("BatchNormalization", BATCH, {"training_mode": 1, "momentum": 0.7}, outputs=3),
    Case("BatchNormalization", BATCH, {"training_mode": 1}, outputs=3, seeded=[0], name="BatchNormalization-only-y"),
    Case("BatchNormalization", BATCH, {"training_mode": 1}, outputs=3, seeded=[1, 2], name="BatchNorm-running"),
    Case("InstanceNormalization", ((2, 2, 3), (2,), (2,))),
    Case("InstanceNormalization", ((1, 2, 2, 2), (2,), (2,)), {"epsilon": 0.1}),
    Case("GroupNormalization", ((2, 4, 3), (4,), (4,)), {"num_groups": 2}, opset=22),
    Case("GroupNormalization", ((2, 4), (4,), (4,)), {"num_groups": 2}, opset=22, name="GroupNormalization-rank-2"),
    Case("GroupNormalization", ((2, 4, 3), (2,), (2,)), {"num_groups": 2}, opset=18),
    Case("MeanVarianceNormalization", ((2, 2, 2, 2),)),
    Case("MeanVarianceNormalization", ((2, 3, 2),), {"axes": [-1]}),
    Case("LpNormalization", ((2, 3),)),
    Case("LpNormalization", ((2, 3),), {"p": 1, "axis": 0}),
    Case("LRN", ((1, 5, 2, 1),), {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 1.5}),
    # onnxruntime refuses even windows
    Case("LRN", ((1, 5, 1, 1),), {"size": 4, "alpha": 0.5}, runs32=False),
    Case("LRN", ((1, 2, 2, 1),), {"size": 1, "alpha": 0.5}),
]
