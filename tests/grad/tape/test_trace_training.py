"""Training steps that are traced do what they do at once: parameters, gradients, statistics, states of optimizers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad import nn

RULES = {
    "SGD": og.optimizers.SGD(0.1),
    "momentum": og.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "AdamW": og.optimizers.AdamW(0.01),
}


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def labels(count, classes, seed=0):
    return np.random.default_rng(seed).integers(0, classes, count)


class Recurrent(nn.Module):
    def __init__(self):
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

    def __call__(self, x):
        y, _ = self.lstm(x)
        return self.head(y[:, -1])


class Words(nn.Module):
    def __init__(self):
        self.embedding, self.attention = nn.Embedding(7, 8), nn.MultiHeadAttention(8, 2)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def __call__(self, x):
        y = self.embedding(x)
        return self.head(self.norm(y + self.attention(y, causal=True)).mean(axis=1))


NETS: dict[str, tuple[Callable[[], nn.Module], np.ndarray]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.relu, nn.Linear(8, 3)), floats(6, 5)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv(2, 4, 3, padding="same", bias=False), nn.BatchNorm(4), nn.relu,
            nn.Conv(4, 4, 3, stride=2), nn.flatten, nn.Linear(36, 3),
        ),
        floats(6, 2, 7, 7),
    ),
    "groups": (
        lambda: nn.Sequential(nn.Conv(4, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.silu, nn.flatten, nn.Linear(72, 3)),
        floats(6, 4, 5, 5),
    ),
    "recurrent": (Recurrent, floats(6, 4, 3)),
    "words": (Words, labels(24, 7).reshape(6, 4)),
}  # fmt: skip


@dataclass
class Run:
    """A net with its optimizer, and one step of it, at once or traced."""

    net: nn.Module
    rule: og.optimizers.Optimizer = RULES["AdamW"]
    losses: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.optimizer = og.TensorOptimizer(self.rule, dict(self.net.named_parameters()))
        self.gradients = og.GradManager().attach(self.net.parameters())

    def step(self, x, y):
        with self.gradients:
            loss = nn.cross_entropy(self.net(x), y)  # type: ignore[operator]  # any module
            self.gradients.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def state(self):
        return {**self.net.state_dict(), **{f"optimizer.{k}": v for k, v in self.optimizer.state_dict().items()}}


def pair(make, rule=RULES["AdamW"]):
    """Two equal runs."""
    runs = []
    for _ in range(2):
        nn.seed(1)
        runs.append(Run(make(), rule))
    return runs


def assert_equal_states(one, other, tolerance=2e-5):
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", NETS)
def test_steps_of_a_net_are_the_same_traced_and_at_once(name):
    make, x = NETS[name]
    at_once, traced = pair(make)
    step = og.trace(traced.step)
    for seed in range(3):
        y = labels(6, 3, seed)
        ours = step(og.Tensor(x), y).item()
        np.testing.assert_allclose(ours, at_once.step(og.Tensor(x), y).item(), rtol=1e-4)
    assert_equal_states(traced, at_once, 2e-4)
    assert step.captures == 1


@pytest.mark.parametrize("rule", RULES)
def test_steps_of_a_rule_are_the_same_traced_and_at_once(rule):
    make, x = NETS["mlp"]
    at_once, traced = pair(make, RULES[rule])
    step = og.trace(traced.step)
    for seed in range(5):
        y = labels(6, 3, seed)
        step(x, y)
        at_once.step(og.Tensor(x), y)
    assert_equal_states(traced, at_once)


def test_the_learning_rate_may_change_without_another_capture():
    make, x = NETS["mlp"]
    at_once, traced = pair(make, RULES["SGD"])
    step = og.trace(traced.step)
    for rate in (0.1, 0.05, 0.0):
        for run in (at_once, traced):
            run.optimizer.learning_rate = rate
        step(x, labels(6, 3))
        at_once.step(og.Tensor(x), labels(6, 3))
    assert_equal_states(traced, at_once)
    assert step.captures == 1


def test_the_learning_rate_that_a_traced_function_sets_can_be_read():
    weight = og.Tensor([1.0])
    optimizer = og.TensorOptimizer(og.optimizers.SGD(0.5), [weight])

    @og.trace
    def choose(rate):
        optimizer.learning_rate = rate

    for rate in (0.1, 0.2, 0.1):
        choose(rate)
        assert optimizer.learning_rate == pytest.approx(rate)


def test_gradients_add_up_over_calls():
    make, x = NETS["mlp"]
    at_once, traced = pair(make)

    def accumulate(run, x, y):
        with run.gradients:
            run.gradients.backward(nn.cross_entropy(run.net(x), y))

    add = og.trace(lambda x, y: accumulate(traced, x, y))
    for seed in range(3):
        y = labels(6, 3, seed)
        add(x, y)
        accumulate(at_once, og.Tensor(x), y)
    for ours, theirs in zip(traced.net.parameters(), at_once.net.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert add.captures == 2
    assert "weight was None" in add.explain()
    traced.optimizer.zero_grad()
    add(x, labels(6, 3))
    assert add.captures == 2


def test_gradients_that_were_there_before_are_forgotten_by_zero_grad_inside():
    weight = og.Tensor([2.0])
    gm = og.GradManager().attach(weight)

    def step(x):
        weight.grad = None
        with gm:
            gm.backward((weight * x).sum())

    traced = og.trace(step)
    for value in (3.0, 5.0):
        traced(og.Tensor([value]))
        assert weight.grad is not None
        assert weight.grad.item() == value
    assert traced.captures == 1


def test_gradients_of_arguments_are_added_to_the_arguments():
    def step(x):
        with og.Grad() as grad:
            grad.wrt(x)
            grad((x * x).sum())

    traced = og.trace(step)
    for value in (3.0, 5.0):
        x = og.Tensor([value])
        traced(x)
        traced(x)
        assert x.grad is not None
        assert x.grad.item() == 4 * value
    assert traced.captures == 2


def test_a_gradient_that_is_only_read_stays():
    weight = og.Tensor([2.0])
    grad = weight.grad = og.Tensor([3.0])
    traced = og.trace(lambda x: x * weight.grad)
    assert traced(og.Tensor([2.0])).item() == 6
    assert weight.grad is grad
    weight.grad = og.Tensor([4.0])
    assert traced(og.Tensor([2.0])).item() == 8
    assert traced.captures == 1


def test_a_gradient_can_be_read_and_used_inside():
    weight = og.Tensor([2.0])
    gm = og.GradManager().attach(weight)

    def step(x):
        with gm:
            gm.backward((weight * x).sum())
        grad, weight.grad = weight.grad, None
        assert grad is not None
        weight.set(weight - grad * 0.5)

    traced = og.trace(step)
    for _ in range(2):
        traced(og.Tensor([1.0]))
    assert weight.item() == 1


def test_higher_derivatives_are_the_same_traced_and_at_once():
    def third(x):
        found: list[og.Tensor] = []
        with og.Grad() as outer, og.Grad() as middle, og.Grad() as inner:
            for grad in (outer, middle, inner):
                grad.wrt(x, callback=found.append)
            inner(og.op.Sin(x) * x)
            middle(found[-1])
            outer(found[-1])
        return found

    x = og.Tensor([0.3, 1.2])
    want = [
        np.sin(0.3) + 0.3 * np.cos(0.3),
        2 * np.cos(0.3) - 0.3 * np.sin(0.3),
        -3 * np.sin(0.3) - 0.3 * np.cos(0.3),
    ]
    for function in (third, og.trace(third)):
        np.testing.assert_allclose([float(grad.numpy()[0]) for grad in function(x)], want, rtol=1e-5)


def test_running_statistics_move_at_each_call():
    at_once, traced = nn.BatchNorm(3), nn.BatchNorm(3)
    function = og.trace(traced)
    for seed in range(3):
        x = floats(4, 3, 2, seed=seed)
        np.testing.assert_allclose(function(x).numpy(), at_once(og.Tensor(x)).numpy(), rtol=1e-4, atol=1e-5)
    for name, array in at_once.state_dict().items():
        np.testing.assert_allclose(traced.state_dict()[name], array, rtol=1e-5)


def test_train_and_eval_are_captured_each_for_itself():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    traced = og.trace(net)
    x = og.Tensor(np.ones((2, 4), np.float32))
    assert not np.array_equal(traced(x).numpy(), traced(x).numpy())
    net.eval()
    np.testing.assert_array_equal(traced(x).numpy(), traced(x).numpy())
    assert traced.captures == 2
    assert "an attribute of a Sequential was set" in traced.explain()
    net.train()
    traced(x)
    assert traced.captures == 2


def test_a_parameter_that_is_replaced_is_seen():
    net = nn.Linear(2, 2)
    traced = og.trace(net)
    traced(og.Tensor(floats(1, 2)))
    net.weight = nn.Parameter(np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(traced(og.Tensor(floats(1, 2))).numpy()[0], net.state_dict()["bias"])


class Stack(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(2, 2)]
        self.named = {"last": nn.Linear(2, 2)}

    def __call__(self, x):
        for layer in (*self.layers, *self.named.values()):
            x = layer(x)
        return x


CHANGES = {
    "appended": lambda net: net.layers.append(nn.Linear(2, 2)),
    "replaced": lambda net: net.layers.__setitem__(0, nn.Linear(2, 2)),
    "replaced in a dict": lambda net: net.named.update(last=nn.Linear(2, 2)),
    "taken away": lambda net: delattr(net.layers[0], "bias"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_lists_and_dicts_of_a_module_hold_is_looked_at(name, monkeypatch):
    monkeypatch.setattr(nn.Linear, "bias", None, raising=False)
    net, x = Stack(), og.Tensor(floats(1, 2))
    traced = og.trace(net)
    traced(x)
    traced(x)
    assert traced.captures == 1
    CHANGES[name](net)
    np.testing.assert_allclose(traced(x).numpy(), net(x).numpy(), rtol=1e-6)
    assert traced.captures == 2


def test_states_of_optimizers_outlast_captures():
    make, x = NETS["mlp"]
    at_once, traced = pair(make)
    step = og.trace(traced.step)
    for size in (6, 4, 6, 2):
        step(x[:size], labels(size, 3))
        at_once.step(og.Tensor(x[:size]), labels(size, 3))
    assert_equal_states(traced, at_once)
    assert traced.optimizer.steps == 4


def test_a_step_of_the_mlp_writes_each_tensor_once():
    make, x = NETS["mlp"]
    run = Run(make())
    step = og.trace(run.step)
    step(x, labels(6, 3))
    (capture,) = (known for several in step._captures.values() for known in several)
    assert len(capture.writes) == 1 + 4 * 3  # the number of the step; each parameter with its mean and variance
    assert len({index for _, index in capture.writes}) == 1 + 4 * 3
