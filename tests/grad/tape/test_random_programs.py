"""Random programs: values, gradients and second gradients are the same traced and at once, and as PyTorch's."""

import functools

import numpy as np
import pytest

import onnxgrad as og

SHAPES = ((2, 3), (3,), (1, 3), (2, 1), (), (2, 3, 4), (4,))


class Ours:
    tanh, sin = staticmethod(og.op.Tanh), staticmethod(og.op.Sin)

    @staticmethod
    def swapped(x):
        return x.transpose([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])

    @staticmethod
    def doubled(x):
        return og.op.Concat(x, x, axis=0)

    @staticmethod
    def largest(x):
        return x.max(0)

    @staticmethod
    def reversed(x):
        return x[::-1]

    @staticmethod
    def positive(x, y):
        return og.op.Where(x > 0.0, x, y)

    @staticmethod
    def placed(x):
        y = og.op.Identity(x)
        y[0] = og.op.Tanh(x[-1])
        return y


class Theirs:
    def __init__(self, torch):
        self.torch, self.tanh, self.sin = torch, torch.tanh, torch.sin

    @staticmethod
    def swapped(x):
        return x.transpose(-1, -2)

    def doubled(self, x):
        return self.torch.cat([x, x])

    @staticmethod
    def largest(x):
        return x.amax(0)

    def reversed(self, x):
        return self.torch.flip(x, [0])

    def positive(self, x, y):
        return self.torch.where(x > 0, x, y)

    def placed(self, x):
        y = x.clone()
        y[0] = self.tanh(x[-1])
        return y


BINARY = {
    "add": lambda of, x, y: x + y,
    "sub": lambda of, x, y: x - y,
    "mul": lambda of, x, y: x * y,
    "div": lambda of, x, y: x / (y * y + 1.0),
    "positive": lambda of, x, y: of.positive(x, y),
    "detached": lambda of, x, y: x * y.detach(),
}
UNARY = {
    "tanh": lambda of, x: of.tanh(x),
    "cube": lambda of, x: of.tanh(x) ** 3,
    "sum": lambda of, x: x.sum(),
    "mean": lambda of, x: x.mean(0),
    "largest": lambda of, x: of.largest(x),
    "reversed": lambda of, x: of.reversed(x),
    "gathered": lambda of, x: x[[0, -1, 0]],
    "doubled": lambda of, x: of.doubled(x),
    "placed": lambda of, x: of.placed(x),
    "with itself": lambda of, x: x @ of.swapped(x),
}
LEAST_RANK = {"tanh": 0, "cube": 0, "sum": 0, "with itself": 2}


def run(of, values, rng):
    """A scalar that depends on each of a dozen operators that `rng` chooses."""
    values = list(values)
    for _ in range(12):
        x = values[rng.integers(len(values))]
        name = rng.choice([*BINARY, *UNARY])
        if name in BINARY:
            fitting = [y for y in values if set(_broadcast(x, y)) <= {True}]
            made = BINARY[name](of, x, fitting[rng.integers(len(fitting))])
        elif len(x.shape) < LEAST_RANK.get(name, 1):
            continue
        else:
            made = UNARY[name](of, x)
        if np.prod(tuple(made.shape)) <= 200:
            values.append(made)
    return sum((of.sin(value).sum() for value in values[1:]), of.sin(values[0]).sum())


def _broadcast(x, y):
    return [a == b or 1 in (a, b) for a, b in zip(reversed(x.shape), reversed(y.shape), strict=False)]


def ours(arrays, seed, wrap):
    def second(*tensors):
        first: dict[int, og.Tensor] = {}
        found: dict[int, og.Tensor] = {}
        with og.Grad() as outer, og.Grad() as inner:
            for index, x in enumerate(tensors):
                outer.wrt(x, callback=functools.partial(found.__setitem__, index))
                inner.wrt(x, callback=functools.partial(first.__setitem__, index))
            loss = run(Ours, tensors, np.random.default_rng(seed))
            inner(loss)
            outer(sum((og.op.Sin(first[index]).sum() for index in sorted(first)), og.Tensor(np.float64(0))))
        return loss, first, found

    loss, *grads = wrap(second)(*map(og.Tensor, arrays))
    zeros = [np.zeros_like(array) for array in arrays]
    return [loss.numpy(), *(np.array(of.get(i, zero)) for of in grads for i, zero in enumerate(zeros))]


def theirs(arrays, seed):
    import torch

    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = run(Theirs(torch), tensors, np.random.default_rng(seed))
    first = torch.autograd.grad(loss, tensors, create_graph=True, materialize_grads=True)
    second = torch.autograd.grad(
        torch.stack([torch.sin(grad).sum() for grad in first]).sum(), tensors, materialize_grads=True
    )
    return [value.detach().numpy() for value in (loss, *first, *second)]


SEEDS = [*range(3), 28, 29, 40, 51, 55, 59]  # the latter share nodes with gradients


def inputs(seed):
    rng = np.random.default_rng(1000 + seed)
    return [rng.standard_normal(SHAPES[rng.integers(len(SHAPES))]) for _ in range(3)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_has_the_same_derivatives_traced_and_at_once(seed):
    arrays = inputs(seed)
    at_once, traced = ours(arrays, seed, lambda function: function), ours(arrays, seed, og.trace)
    for got, want in zip(traced, at_once, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda function: function, og.trace], ids=["at once", "traced"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_has_the_derivatives_of_pytorch(seed, wrap):
    arrays = inputs(seed)
    for got, want in zip(ours(arrays, seed, wrap), theirs(arrays, seed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)
