"""Circular and hyperbolic functions and their inverses."""

from tests.grad.checks import Case

CASES = [
    Case("Sin", ((2, 3),)),
    Case("Cos", ((2, 3),)),
    Case("Tan", ((2, 3),), domain=(-1.2, 1.2)),
    Case("Asin", ((2, 3),), domain=(-0.9, 0.9)),
    Case("Acos", ((2, 3),), domain=(-0.9, 0.9)),
    Case("Atan", ((2, 3),)),
    Case("Sinh", ((2, 3),)),
    Case("Cosh", ((2, 3),)),
    Case("Asinh", ((2, 3),)),
    Case("Acosh", ((2, 3),), domain=(1.2, 3.0)),
    Case("Atanh", ((2, 3),), domain=(-0.9, 0.9)),
    Case("Sin", ((),), name="Sin-scalar"),
    Case("Cos", ((0, 2),), name="Cos-zero-size"),
]
