"""Arithmetic at kinks, ties and the ends of domains."""

import numpy as np
import pytest

from tests.grad.at_points import floats, gradients_at, gradients_of
from tests.grad.checks import Case

ZERO, ONE = np.array(0.0), np.array(1.0)

POINTS = [
    (Case("Abs", [floats(0, -2, 2)]), [[0, -1, 1]]),
    (Case("Clip", [floats(0, 1, -1, 2), ZERO, ONE]), [[1, 1, 0, 0], 1, 1]),
    (Case("Max", [floats(1, 2), floats(1, 0)]), [[0.5, 1], [0.5, 0]]),
    (Case("Max", [floats([1, 2], [1, 1]), ONE]), [[[0.5, 1], [0.5, 0.5]], 1.5]),
    (Case("Min", [floats(1, 1), floats(1, 2), floats(1, 3)]), [[1 / 3, 1], [1 / 3, 0], [1 / 3, 0]]),
    (Case("Pow", [floats(0, 0, 0, 0, -2), floats(0, 1, 2, 3, 2)]), [[0, 1, 0, 0, -4], [0, 0, 0, 0, 0]]),
    (Case("Pow", [floats(0, -3), np.array([0, 0])]), [[0, 0]]),
    (Case("Mod", [floats(5.5, -5.5), floats(2, 2)], {"fmod": 1}), [[1, 1], [-2, 2]]),
    (Case("Sqrt", [floats(0, 4)]), [[np.inf, 0.25]]),
    (Case("Atan", [floats(1)]), [[0.5]]),
]


@pytest.mark.parametrize(("case", "expected"), POINTS, ids=lambda value: str(value)[:40])
def test_gradient_at_a_kink(case, expected):
    for got, want in zip(gradients_at(case), expected, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-6)


def test_an_operand_used_twice_gets_both_gradients():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y)
              { a = Mul(x, x)  b = Max(a, a)  y = Div(b, x) }"""
    (dx,) = gradients_of(text, {"x": [1.0, -2.0]}, {"y": [1.0, 3.0]})
    np.testing.assert_allclose(dx, [1, 3], rtol=1e-6)


def test_dimensions_that_turn_out_to_be_1_are_summed():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N, M] x, float[K, L] z) => (float[A, B] y)
              { y = Mul(x, z) }"""
    dx, dz = gradients_of(text, {"x": [[1.0], [2.0]], "z": [[3.0, 4.0, 5.0]]}, {"y": np.ones((2, 3), np.float32)})
    np.testing.assert_allclose(dx, [[12], [12]])
    np.testing.assert_allclose(dz, [[3, 3, 3]])


def test_where_lets_no_infinite_gradient_of_the_other_branch_through():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y)
              <float zero = {0}, float one = {1}>
              { c = Greater(x, zero)  safe = Where(c, x, one)  r = Sqrt(safe)  y = Where(c, r, zero) }"""
    (dx,) = gradients_of(text, {"x": [0.0, 4.0]}, {"y": [1.0, 1.0]})
    np.testing.assert_allclose(dx, [0, 0.25])


def test_a_cast_to_integers_cuts_the_path():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y)
              { i = Cast<to = 7>(x)  k = Cast<to = 1>(i)  y = Mul(k, x) }"""
    (dx,) = gradients_of(text, {"x": [2.5, -1.5]}, {"y": [1.0, 1.0]})
    np.testing.assert_allclose(dx, [2, -1])


def test_a_cast_to_float64_gives_the_gradient_in_float32():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (double[N] y)
              { w = Cast<to = 11>(x)  y = Mul(w, w) }"""
    (dx,) = gradients_of(text, {"x": [2.5, -1.5]}, {"y": np.ones(2)})
    assert dx.dtype == np.float32
    np.testing.assert_allclose(dx, [5, -3])
