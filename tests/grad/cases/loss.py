"""Cases for grad/rules/loss.py."""

import numpy as np

from tests.grad.checks import Case

LABELS = np.array([1, 0, 2, 2, 1])
IMAGE = np.array([[[0, 2], [1, 1]], [[2, 0], [0, 1]]])
WEIGHTS = np.array([0.5, 1.5, 2.0])


def loss(kind, labels, weights=None, outputs=1, seeded=None, name="", **attributes) -> Case:
    shape = (labels.shape[0], 3, *labels.shape[1:])
    inputs = [shape, labels] if weights is None else [shape, labels, weights]
    spelled = "-".join(f"{k}={v}" for k, v in attributes.items())
    name = f"{kind[:8]}-{labels.ndim}d-{'weights' if weights is not None else ''}-{spelled}{name}"
    return Case(kind, inputs, attributes, outputs=outputs, seeded=seeded, name=name)


NLL, SCE = "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"
CASES = [
    *(
        loss(kind, LABELS, w, reduction=r)
        for kind in (NLL, SCE)
        for w in (None, WEIGHTS)
        for r in ("none", "sum", "mean")
    ),
    *(loss(kind, IMAGE, w, ignore_index=2) for kind in (NLL, SCE) for w in (None, WEIGHTS)),
    *(loss(kind, IMAGE, w, reduction="none", ignore_index=1) for kind in (NLL, SCE) for w in (None, WEIGHTS)),
    *(loss(kind, np.array([[-100], [1]]), w, ignore_index=-100) for kind in (NLL, SCE) for w in (None, WEIGHTS)),
    *(loss(kind, LABELS.astype(np.int32), reduction="sum", name="-int32") for kind in (NLL, SCE)),
    *(loss(SCE, LABELS, outputs=2, seeded=used, name=f"-outputs{used}") for used in ((0,), (1,), (0, 1))),
    loss(SCE, IMAGE, WEIGHTS, outputs=2, reduction="none", ignore_index=0),
]
