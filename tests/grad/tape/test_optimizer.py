"""Optimizers on tensors: the formulas, states, and what is left alone."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.grad.tape.kernels import CACHES, clear_caches

AdamW, SGD = og.optimizers.AdamW, og.optimizers.SGD
GRADS = [[0.5, -1.0, 2.0], [0.1, 0.3, -0.2], [-1.0, 0.0, 0.4]]
START = [1.0, -2.0, 3.0]


def sgd(rate, momentum=0.0, nesterov=False, weight_decay=0.0):
    p, v = np.array(START), np.zeros(3)
    for g in np.array(GRADS):
        g = g + weight_decay * p
        v = momentum * v + g
        p = p - rate * (g + momentum * v if nesterov else v)
    return p


def adamw(rate, weight_decay=0.01):
    p, m, v = np.array(START), np.zeros(3), np.zeros(3)
    for t, g in enumerate(np.array(GRADS), 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p * (1 - rate * weight_decay)
        p = p - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p


RULES = {
    "SGD": (SGD(0.1), sgd(0.1)),
    "momentum": (SGD(0.1, momentum=0.9), sgd(0.1, 0.9)),
    "Nesterov and decay": (SGD(0.1, 0.9, True, 0.1), sgd(0.1, 0.9, True, 0.1)),
    "AdamW": (AdamW(0.1), adamw(0.1)),
    "AdamW without decay": (AdamW(0.1, weight_decay=0.0), adamw(0.1, 0)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RULES)
def test_steps_follow_the_formula(name, dtype):
    rule, want = RULES[name]
    p = og.Tensor(START, dtype)
    optimizer = og.TensorOptimizer(rule, [p])
    for grad in GRADS:
        p.grad = og.Tensor(grad, dtype)
        optimizer.step()
    np.testing.assert_allclose(p.numpy(), want, rtol=1e-5)
    assert optimizer.steps == 3


def test_a_parameter_without_gradient_is_left_alone():
    p, q = og.Tensor(START), og.Tensor(START)
    optimizer = og.TensorOptimizer(AdamW(0.1), {"p": p, "q": q})
    p.grad = og.Tensor(GRADS[0])
    optimizer.step()
    assert q.tolist() == START
    assert not optimizer.state_dict()["q.mean"].any()
    assert p.tolist() != START


def test_without_any_gradient_a_step_does_nothing():
    optimizer = og.TensorOptimizer(AdamW(0.1), [og.Tensor(START)])
    optimizer.step()
    assert optimizer.steps == 0


def test_zero_grad_forgets_gradients():
    p = og.Tensor(START)
    p.grad = og.Tensor(GRADS[0])
    og.TensorOptimizer(SGD(0.1), [p]).zero_grad()
    assert p.grad is None


def test_one_step_is_one_kernel_for_all_parameters():
    parameters = [og.Tensor(np.ones(n, np.float32)) for n in range(1, 6)]
    optimizer = og.TensorOptimizer(AdamW(0.1), parameters)
    for p in parameters:
        p.grad = p * 2
    clear_caches()
    optimizer.step()
    optimizer.step()
    assert len(CACHES.kernels) == 1


def test_the_learning_rate_may_change_without_another_kernel():
    p = og.Tensor([1.0])
    optimizer = og.TensorOptimizer(SGD(0.5), [p])
    p.grad = og.Tensor([1.0])
    clear_caches()
    optimizer.step()
    optimizer.learning_rate = 0.25
    optimizer.step()
    assert p.item() == 0.25
    assert len(CACHES.kernels) == 1
    assert optimizer.learning_rate == 0.25


def test_a_step_is_not_recorded():
    p = og.Tensor([1.0])
    optimizer = og.TensorOptimizer(SGD(0.5), [p])
    p.grad = og.Tensor([1.0])
    with og.Grad() as grad:
        grad.wrt(p)
        optimizer.step()
        assert not grad.is_attached_to(p)


def test_values_that_were_read_before_a_step_stay():
    p = og.Tensor([1.0])
    before = p.numpy()
    optimizer = og.TensorOptimizer(SGD(0.5), [p])
    p.grad = og.Tensor([1.0])
    optimizer.step()
    assert (before[0], p.item()) == (1, 0.5)


def test_a_run_goes_on_from_a_state():
    ends = []
    for stop in (None, 1):
        p = og.Tensor(START)
        optimizer = og.TensorOptimizer(AdamW(0.1), {"p": p})
        for number, grad in enumerate(GRADS):
            if number == stop:
                state = optimizer.state_dict()
                assert set(state) == {"step", "learning_rate", "p.mean", "p.variance"}
                optimizer = og.TensorOptimizer(AdamW(0.5), {"p": p})
                optimizer.load_state_dict(state)
                assert optimizer.learning_rate == pytest.approx(0.1)
            p.grad = og.Tensor(grad)
            optimizer.step()
        ends.append(p.numpy())
    np.testing.assert_array_equal(ends[0], ends[1])


STATES = {
    "another rule": lambda state: state.pop("p.variance"),
    "another parameter": lambda state: state.update({"q.mean": np.zeros(3)}),
    "another shape": lambda state: state.update({"p.mean": np.zeros(2)}),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_does_not_fit_is_refused_as_a_whole(name):
    optimizer = og.TensorOptimizer(AdamW(0.1), {"p": og.Tensor(START)})
    state = optimizer.state_dict() | {"step": np.asarray(7)}
    STATES[name](state)
    with pytest.raises(og.errors.InputError, match="the state"):
        optimizer.load_state_dict(state)
    assert optimizer.steps == 0


WRONG: dict[str, tuple[list[og.Tensor], type[Exception]]] = {
    "none": ([], og.errors.OptionError),
    "no tensors": ([1.0], og.errors.OptionError),  # type: ignore[list-item]
    "integers": ([og.Tensor([1])], og.errors.GradientError),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_moved_is_an_error(name):
    parameters, error = WRONG[name]
    with pytest.raises(error):
        og.TensorOptimizer(SGD(0.1), parameters)


def test_a_parameter_given_twice_is_an_error():
    p = og.Tensor(START)
    with pytest.raises(og.errors.OptionError, match="twice"):
        og.TensorOptimizer(SGD(0.1), [p, p])


def test_P11_a_loop_of_backward_step_and_zero_grad_trains():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 3)).astype(np.float32)
    y = x @ np.array([[1], [-2], [3]], np.float32)
    net = og.nn.Linear(3, 1, rng=rng)
    optimizer = og.TensorOptimizer(SGD(0.3), net.parameters())
    gm = og.GradManager().attach(net.parameters())
    for _ in range(60):
        with gm:
            gm.backward(og.nn.mse(net(og.Tensor(x)), y))
        optimizer.step()
        optimizer.zero_grad()
    np.testing.assert_allclose(net.weight.numpy(), [[1, -2, 3]], atol=1e-3)
