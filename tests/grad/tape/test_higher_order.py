"""Second and third derivatives on the tape against central differences in float64."""

from collections.abc import Callable

import numpy as np
import pytest

import onnxgrad as og

POINT = np.array([0.31, 0.72, 1.13, 0.55])
MATRIX = np.random.default_rng(1).uniform(-1, 1, (4, 4))

Function = Callable[[og.Tensor], og.Tensor]


class Cube(og.Function):
    """y = x^3, whose gradient is written by hand."""

    def forward(self, x):
        self.x = x
        return x * x * x

    def backward(self, dy):
        return dy * 3.0 * self.x * self.x


FUNCTIONS: dict[str, Function] = {
    "cos": lambda x: og.op.Cos(x).sum(),
    "exp of a square": lambda x: og.op.Exp(x * x).sum(),
    "tanh": lambda x: og.op.Tanh(x * 1.5).sum(),
    "sigmoid times x": lambda x: (og.op.Sigmoid(x) * x).sum(),
    "log": lambda x: og.op.Log(x + 1.0).sum(),
    "quotient": lambda x: (x[0:2] / x[2:4]).sum(),
    "power": lambda x: (x**2.5).sum(),
    "power of powers": lambda x: (x ** x[1:2]).sum(),
    "sqrt": lambda x: og.op.Sqrt(x * x + 0.5).sum(),
    "reciprocal": lambda x: og.op.Reciprocal(x + 0.4).sum(),
    "softmax": lambda x: (og.op.Softmax(x) * x).sum(),
    "log-sum-exp": lambda x: og.op.ReduceLogSumExp(x * 2.0, keepdims=0),
    "quadratic form cubed": lambda x: (x @ og.Tensor(MATRIX) @ x) ** 3.0,
    "matrix product": lambda x: og.op.Tanh(x.reshape(2, 2) @ x.reshape(2, 2).T).sum(),
    "norm": lambda x: og.op.ReduceL2(x, keepdims=0),
    "product of slices": lambda x: (x[0:1] * x[1:2] * x[2:4]).sum(),
    "layer norm": lambda x: (og.op.LayerNormalization(x.reshape(2, 2), og.Tensor([1.0, 2.0], "float64")) ** 3.0).sum(),
    "mish": lambda x: og.op.Mish(x * 2.0).sum(),
    "gather and scatter": lambda x: (og.op.Gather(x, [0, 0, 2]) * og.op.Gather(x, [1, 3, 2]) * x[1:4]).sum(),
    "concat, transpose, mean": lambda x: (og.op.Concat(x, x * x, axis=0).reshape(2, 4).T.mean(axis=0) ** 3.0).sum(),
    "convolution": lambda x: og.op.Tanh(og.op.Conv(x.reshape(1, 1, 4), x[0:2].reshape(1, 1, 2))).sum(),
    "function of one's own": lambda x: (og.op.Sin(x) * Cube()(x)).sum(),  # type: ignore[union-attr]
    "einsum": lambda x: og.op.Einsum(x, x, x, equation="i,i,j->j").sum(),
    "cumulative sum": lambda x: (og.op.CumSum(x, 0) ** 3.0).sum(),
}


def derivatives(function: Function, at: np.ndarray, directions: list[np.ndarray], order: int) -> list[float]:
    """f', f'', ... along directions: each derivative is a number, of which the next is taken."""
    found: list[float] = []

    def go(levels: int, x: og.Tensor) -> og.Tensor:
        """The derivative of that order, as a tensor that outer levels have recorded."""
        if levels == 0:
            return function(x)
        got: list[og.Tensor] = []
        with og.Grad() as grad:
            grad.wrt(x, callback=got.append)
            grad(go(levels - 1, x))
        slope = (got[0] * og.Tensor(directions[levels - 1])).sum()
        return slope

    for levels in range(1, order + 1):
        found.append(float(go(levels, og.Tensor(at))))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_and_third_derivatives_are_slopes_of_the_ones_before(name):
    rng = np.random.default_rng(2)
    directions = [rng.uniform(-1, 1, 4) for _ in range(3)]
    function, step = FUNCTIONS[name], 1e-5

    def value(at):
        return float(function(og.Tensor(at)))

    def slope(scalar, direction):
        return (scalar(POINT + step * direction) - scalar(POINT - step * direction)) / (2 * step)

    got = derivatives(function, POINT, directions, 3)
    wanted = [slope(value, directions[0])]
    for order in (1, 2):
        wanted.append(slope(lambda at, k=order: derivatives(function, at, directions, k)[-1], directions[order]))
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def test_there_are_twenty_functions_and_more():
    assert len(FUNCTIONS) >= 20


def test_a_hessian_vector_product_is_the_product_with_the_hessian():
    x, v = og.Tensor(POINT), og.Tensor(np.array([1.0, -2.0, 0.5, 0.0]))
    first: list[og.Tensor] = []
    second: list[og.Tensor] = []
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, callback=second.append)
        inner.wrt(x, callback=first.append)
        inner((x @ og.Tensor(MATRIX) @ x) * 0.5)
        outer((first[0] * v).sum())
    np.testing.assert_allclose(second[0].numpy(), (MATRIX + MATRIX.T) / 2 @ v.numpy())
