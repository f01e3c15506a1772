"""Cases for grad/rules/linalg.py."""

import numpy as np

from tests.grad.checks import Case


def product(a, b, **options) -> Case:
    return Case("MatMul", (a, b), name=f"MatMul-{a}-{b}", **options)


def gemm(a, b, c, **attributes) -> Case:
    name = f"Gemm-{c}-{'-'.join(f'{k}={v}' for k, v in attributes.items())}"
    return Case("Gemm", (a, b, c) if c is not None else (a, b), attributes, name=name)


CASES = [
    product((2, 3), (3, 4)),
    product((3,), (3,)),
    product((3,), (3, 2)),
    product((2, 3), (3,)),
    product((3,), (2, 3, 2)),
    product((2, 2, 3), (3,)),
    product((4, 1, 2, 3), (2, 3, 2)),
    product((2, 3), (2, 1, 3, 2)),
    product((1, 3), (3, 1)),
    product((0, 3), (3, 2)),
    product((2, 0), (0, 3)),
    gemm((2, 3), (3, 4), (4,)),
    gemm((3, 2), (3, 4), (1, 4), transA=1),
    gemm((2, 3), (4, 3), (2, 1), transB=1, alpha=0.5),
    gemm((3, 2), (4, 3), (), transA=1, transB=1, alpha=-1.5, beta=2.0),
    gemm((2, 3), (3, 4), (2, 4), beta=0.5),
    gemm((2, 3), (3, 4), None, alpha=3.0),
    gemm((2, 0), (0, 3), (3,)),
    gemm((0, 2), (2, 3), (3,)),
    Case("Det", ((3, 3),), half=False),  # the reference has no determinant in float16
    Case("Det", ((2, 1, 4, 4),), name="Det-batch", half=False),
    Case("Det", ((2, 2),), name="Det-2", half=False),
    Case("Det", (np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]),), name="Det-singular", half=False),
]
