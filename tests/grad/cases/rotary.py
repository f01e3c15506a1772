"""Cases for grad/rules/rotary.py."""

import numpy as np

from tests.grad.checks import Case

PLACES = np.array([[0, 2, 1], [4, 3, 3]])


def rotary(x, half=2, places=PLACES, **attributes) -> Case:
    caches = [(5, half)] * 2 if places is not None else [(2, 3, half)] * 2
    inputs = [x, *caches] if places is None else [x, *caches, places]
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    return Case("RotaryEmbedding", inputs, attributes, opset=23, name=f"RotaryEmbedding-{x}({spelled})")


def contrib(x, places, half=2, **attributes) -> Case:
    inputs = [x, places, (8, half), (8, half)]
    spelled = f"com.microsoft.RotaryEmbedding-{x}-{places.shape}{attributes}"
    return Case("RotaryEmbedding", inputs, attributes, op_domain="com.microsoft", name=spelled)


CASES = [
    rotary((2, 2, 3, 4)),
    rotary((2, 2, 3, 4), interleaved=1),
    rotary((2, 2, 3, 4), places=None),
    rotary((2, 2, 3, 6), rotary_embedding_dim=4),
    rotary((2, 3, 8), num_heads=2),
    rotary((2, 3, 12), num_heads=2, rotary_embedding_dim=4, interleaved=1, places=None),
    contrib((2, 3, 8), PLACES),
    contrib((2, 2, 3, 4), np.array([1]), interleaved=1),
    contrib((2, 3, 12), PLACES, num_heads=2, rotary_embedding_dim=4),
]
