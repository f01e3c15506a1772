"""Layers: their gradients are their derivatives, variables go through them, and PyTorch's give the same."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn
from onnxgrad.engine.errors import OptionError
from tests.models.nn.layers import LAYERS, Layer, call, floats, tensors_in, weighted

if TYPE_CHECKING:
    import torch


def directions(tensors, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(tensor.shape) for tensor in tensors]


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_a_layer_is_its_derivative(name):
    layer = LAYERS[name]
    net = layer.make().to(dtype="float64")
    inputs = [og.Tensor(x, "float64" if x.dtype.kind == "f" else None) for x in layer.inputs]
    moved = [*net.parameters(), *(x for x in inputs if x.dtype == np.float64)]
    with og.GradManager().attach(moved) as gm:
        gm.backward(weighted(tensors_in(call(net, *inputs))))
    steps = directions(moved)
    slope = sum(float((x.grad.numpy() * d).sum()) for x, d in zip(moved, steps, strict=True) if x.grad is not None)
    values, starts = [], [x.numpy().copy() for x in moved]
    for size in (1e-5, -1e-5):
        for x, start, step in zip(moved, starts, steps, strict=True):
            x.set(start + size * step)
        values.append(float(weighted(tensors_in(call(net, *inputs)))))
    np.testing.assert_allclose(slope, (values[0] - values[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in LAYERS if not name.startswith("batch norm")])
def test_a_variable_goes_through_a_layer(name):
    layer = LAYERS[name]
    net = layer.make()
    graph = og.Graph()
    vars = [graph.input(f"x{i}", x.dtype, x.shape) for i, x in enumerate(layer.inputs)]
    result = call(net, *vars)
    found = result[0] if isinstance(result, tuple) else result
    assert isinstance(found, og.Var)
    run = graph.compile(vars, og.copy_output(found))
    want = tensors_in(call(net, *map(og.Tensor, layer.inputs)))[0]
    np.testing.assert_allclose(run(*layer.inputs), want.numpy(), rtol=1e-5, atol=1e-6)


def test_batch_norm_takes_a_variable_when_it_does_not_train():
    net, graph = nn.BatchNorm(3), og.Graph()
    x = graph.input("x", "float32", ("N", 3))
    with pytest.raises(og.errors.GraphError, match="cannot update its statistics"):
        net(x)
    run = graph.compile([x], og.copy_output(net.eval()(x)))
    np.testing.assert_allclose(run(floats(2, 3)), floats(2, 3), rtol=1e-4)


def in_torch(name: str, layer: Layer, net: nn.Module) -> "torch.nn.Module":
    """PyTorch's layer with the same weights."""
    import torch

    options = dict(layer.options)
    if layer.theirs == "MultiheadAttention":
        options["batch_first"] = True
    theirs: torch.nn.Module = getattr(torch.nn, layer.theirs)(*layer.arguments, **options)
    missing = theirs.load_state_dict({key: torch.from_numpy(value) for key, value in net.state_dict().items()}, False)
    assert not missing.unexpected_keys
    assert set(missing.missing_keys) <= {"num_batches_tracked"}
    return theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_pytorch_gives_the_same_values_and_gradients(name):
    import torch

    layer = LAYERS[name]
    net = layer.make()
    theirs = in_torch(name, layer, net)
    inputs = [og.Tensor(x) for x in layer.inputs]
    given = [torch.from_numpy(x.copy()).requires_grad_(x.dtype.kind == "f") for x in layer.inputs]
    moved = [x for x in inputs if x.dtype == np.float32]
    with og.GradManager().attach([*net.parameters(), *moved]) as gm:
        ours = tensors_in(call(net, *inputs))
        gm.backward(weighted(ours))
    result = theirs(*(given * 3 if layer.theirs == "MultiheadAttention" and len(given) == 1 else given))
    flat = [result] if isinstance(result, torch.Tensor) else [result[0], *(result[1] if layer.theirs == "LSTM" else ())]
    flat += [result[1]] if layer.theirs == "GRU" else []
    assert len(flat) == len(ours)
    loss = torch.zeros(())
    for index, (one, other) in enumerate(zip(ours, flat, strict=True)):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-5)
        loss = loss + (other * torch.from_numpy(floats(*other.shape, seed=100 + index))).sum()
    loss.backward()
    named: dict[str, og.Tensor] = dict(net.named_parameters())
    pairs = [(named[key].grad, value.grad) for key, value in theirs.named_parameters()]
    pairs += [(one.grad, x.grad) for one, x in zip(moved, [x for x in given if x.requires_grad], strict=True)]
    for grad, value in pairs:
        assert grad is not None
        assert value is not None
        np.testing.assert_allclose(grad.numpy(), value.numpy(), rtol=1e-3, atol=1e-4)
    for key, buffer in net.named_buffers():
        np.testing.assert_allclose(buffer.numpy(), dict(theirs.named_buffers())[key].numpy(), rtol=1e-5)


def test_batch_norm_follows_the_statistics_of_the_batches():
    net = nn.BatchNorm(2, momentum=0.5)
    mean, variance = np.zeros(2), np.ones(2)
    for seed in range(2):
        x = floats(5, 2, 3, seed=seed)
        net(og.Tensor(x))
        mean = 0.5 * mean + 0.5 * x.mean((0, 2))
        variance = 0.5 * variance + 0.5 * x.var((0, 2), ddof=1)
    np.testing.assert_allclose(net.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(net.running_var.numpy(), variance, rtol=1e-5)


def test_batch_norm_uses_the_running_statistics_when_it_does_not_train():
    net = nn.BatchNorm(2).eval()
    net.running_mean.set([1.0, 2.0])
    net.running_var.set([4.0, 9.0])
    np.testing.assert_allclose(net(og.Tensor([[3.0, 5.0]])).numpy(), [[1, 1]], rtol=1e-5)
    assert net.running_mean.tolist() == [1, 2]


def test_dropout_zeroes_and_scales_while_training_only():
    net, x = nn.Dropout(0.25), og.Tensor(np.ones(4000, np.float32))
    y = net(x).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.05
    assert net.eval()(x) is x


@pytest.mark.parametrize("ratio", [-0.5, 1.0])
def test_a_ratio_that_dropout_cannot_have_is_an_error(ratio):
    for make in (nn.Dropout, lambda given: nn.dropout(og.Tensor([1.0]), given)):
        with pytest.raises(OptionError, match="ratio of dropout"):
            make(ratio)


@pytest.mark.parametrize("wrap", [og.trace, lambda function: function], ids=["traced", "at once"])
def test_the_masks_of_dropout_follow_the_seed(wrap):
    drop = wrap(nn.Dropout(0.5))
    x = og.Tensor(np.ones(64, np.float32))

    def masks(number):
        nn.seed(number)
        return [drop(x).tolist() for _ in range(2)]

    first, second = masks(1)
    assert first != second
    assert masks(1) == [first, second]
    assert masks(2) != [first, second]


def test_dropout_between_layers_draws_at_each_call_also_without_gradients(tmp_path):
    net = nn.Sequential(nn.relu, nn.Dropout(0.5), nn.softplus)
    x = np.ones((8, 32), np.float32)
    traced = og.trace(net)
    traced.export(tmp_path / "net.onnx", x)
    run = og.compile(tmp_path / "net.onnx")
    for function in (lambda: traced(og.Tensor(x)).numpy(), lambda: next(iter(run(x).values()))):
        first, second = function(), function()
        assert not np.array_equal(first, second)
        assert len(np.unique(first)) == 2


@pytest.mark.filterwarnings("error")
def test_attention_of_half_floats_without_a_place_to_go_to_has_no_nan():
    x = og.Tensor(np.ones((2, 3), np.float16))
    y = nn.scaled_dot_product_attention(x, x, x, mask=np.zeros((2, 2), bool))
    assert y.tolist() == x.tolist()


def test_the_gradient_of_dropout_has_the_mask_of_its_values():
    x = og.Tensor(np.ones(64, np.float32))
    with og.GradManager().attach(x) as gm:
        y = nn.dropout(x, 0.5)
        gm.backward(y.sum())
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_a_softmax_of_products(causal):
    q, k, v = floats(2, 3, 4), floats(2, 3, 4, seed=1), floats(2, 3, 5, seed=2)
    mask = np.array([True, True, False])
    scores = q @ k.transpose(0, 2, 1) / 2
    allowed = np.broadcast_to(mask, (3, 3)) & (np.tri(3, dtype=bool) if causal else True)
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * allowed
    want = weights / weights.sum(-1, keepdims=True) @ v
    given = og.Tensor(q), og.Tensor(k), og.Tensor(v)
    ours = nn.scaled_dot_product_attention(*given, mask, causal)
    np.testing.assert_allclose(ours.numpy(), want, rtol=1e-5, atol=1e-6)
    bias = np.where(mask, 0, -1e9).astype(np.float32)
    added = nn.scaled_dot_product_attention(*given, bias, causal)
    np.testing.assert_allclose(added.numpy(), ours.numpy(), rtol=1e-5)


def test_recurrent_layers_go_on_from_a_state():
    net = nn.LSTM(3, 4, 2)
    x = og.Tensor(floats(6, 2, 3))
    whole, last = net(x)
    first, state = net(x[:4])
    rest, end = net(x[4:], state)
    np.testing.assert_allclose(np.concatenate([first.numpy(), rest.numpy()]), whole.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(end[1].numpy(), last[1].numpy(), rtol=1e-5, atol=1e-6)


WRONG = {
    "groups": lambda: nn.Conv(3, 4, 3, groups=2),
    "padding": lambda: nn.Conv(3, 4, 3, padding="full"),
    "heads": lambda: nn.MultiHeadAttention(7, 2),
    "groups of channels": lambda: nn.GroupNorm(2, 5),
}


@pytest.mark.parametrize("name", WRONG)
def test_numbers_that_do_not_fit_are_an_error(name):
    with pytest.raises(og.errors.OptionError):
        WRONG[name]()


ACTIVATIONS: dict[str, tuple[Callable[[og.Tensor], og.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "elu": (nn.elu, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    "silu": (nn.silu, lambda x: x / (1 + np.exp(-x))),
    "sigmoid": (nn.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (nn.tanh, np.tanh),
    "softplus": (nn.softplus, lambda x: np.log1p(np.exp(x))),
    "mish": (nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "gelu": (lambda x: nn.gelu(x, "tanh"), lambda x: x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))),
    "softmax": (nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (nn.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "flatten": (nn.flatten, lambda x: x.reshape(len(x), -1)),
    "max_pool": (lambda x: nn.max_pool(x, 2), lambda x: x.reshape(2, 3, 2, 2, 2, 2).max((3, 5))),
    "avg_pool": (lambda x: nn.avg_pool(x, 2), lambda x: x.reshape(2, 3, 2, 2, 2, 2).mean((3, 5))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_function_is_its_formula(name):
    ours, formula = ACTIVATIONS[name]
    x = floats(2, 3, 4, 4)
    np.testing.assert_allclose(ours(og.Tensor(x)).numpy(), formula(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
