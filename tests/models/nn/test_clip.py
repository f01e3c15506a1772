"""Gradients whose norm is bounded."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn
from onnxgrad.engine.errors import InputError, OptionError


def parameters(*arrays):
    made = [og.Tensor(np.zeros_like(array)) for array in arrays]
    for parameter, array in zip(made, arrays, strict=True):
        parameter.grad = og.Tensor(array)
    return [*made, og.Tensor([1.0])]


@pytest.mark.slow
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_gradients_are_scaled_as_pytorch_does(max_norm):
    import torch

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (4,), ())]
    ours = parameters(*arrays)
    theirs = [torch.nn.Parameter(torch.zeros_like(torch.tensor(array))) for array in arrays]
    for parameter, array in zip(theirs, arrays, strict=True):
        parameter.grad = torch.tensor(array)
    norm = nn.clip_gradients(ours, max_norm)
    np.testing.assert_allclose(norm.item(), torch.nn.utils.clip_grad_norm_(theirs, max_norm).item(), rtol=1e-6)
    for mine, other in zip(ours, theirs, strict=False):
        assert mine.grad is not None
        assert other.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-5)
    assert ours[-1].grad is None


def test_gradients_of_zero_stay_zero():
    (x, _) = parameters(np.zeros(3, np.float32))
    assert nn.clip_gradients([x], 1.0).item() == 0
    assert x.grad.tolist() == [0, 0, 0]


def test_gradients_of_several_dtypes_keep_them():
    *given, _ = parameters(np.full(3, 200, np.float16), np.full(1, 3.0))
    nn.clip_gradients(given, 1.0)
    assert [parameter.grad.dtype for parameter in given] == [np.float16, np.float64]
    assert abs(given[0].grad.numpy().astype(np.float64) ** 2).sum() == pytest.approx(1, abs=1e-2)


def test_a_traced_step_clips_as_one_that_runs_at_once():
    def trained(wrap):
        x = og.Tensor([3.0, -4.0])
        optimizer = og.TensorOptimizer(og.optimizers.SGD(0.5), [x])
        gradients = og.GradManager().attach(x)

        def step():
            with gradients:
                gradients.backward((x * x).sum())
            norm = nn.clip_gradients([x], 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return norm

        function = wrap(step)
        return [*(function().item() for _ in range(3)), *x.numpy()]

    assert trained(og.trace) == pytest.approx(trained(lambda function: function))


def test_what_cannot_be_clipped_is_an_error():
    with pytest.raises(OptionError, match="not possible"):
        nn.clip_gradients(parameters(np.ones(2)), 0.0)
    with pytest.raises(InputError, match="no parameter has a gradient"):
        nn.clip_gradients([og.Tensor([1.0])], 1.0)
