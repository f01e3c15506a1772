"""Gradients of what is traced are those of what runs at once, whatever the function is, and memory is let go of."""

import gc
from collections.abc import Callable
from weakref import ref

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.grad.registry import RULES

Function = Callable[[og.Tensor, og.Tensor], og.Tensor]


class Doubled(og.Function):
    """2 x, with a gradient that says 3."""

    def forward(self, x):
        return x * 2

    def backward(self, dy):
        return dy * 3


def custom(a, b):
    return Doubled()(a) * b


def split(a, b):
    left, right = og.op.Split(a, num_outputs=2, axis=1)
    return left * right[:, :1] + b[0, 0]


def top(a, b):
    values, places = og.op.TopK(a, [2])
    return values * og.op.Cast(places, to=1) + b.sum()


def without(a, b):
    with og.no_grad():
        weight = a * b
    return weight * a


FUNCTIONS: dict[str, Function] = {
    "sum of products": lambda a, b: a * b,
    "a square": lambda a, b: a * a,
    "with itself detached": lambda a, b: a * a.detach() + b,
    "equal values from two tensors": lambda a, b: (a + 1.0) * (a.detach() + 1.0) * (a + 1.0),
    "broadcast": lambda a, b: a * b[0] + b[:, :1],
    "matrix product": lambda a, b: a @ b.T,
    "matrix product with itself": lambda a, b: og.op.Tanh(a @ a.T) + b[0, 0],
    "matrix product with itself detached": lambda a, b: og.op.Tanh(a @ a.T.detach()) + b[0, 0],
    "shared": lambda a, b: (c := og.op.Tanh(a * b)) * c + c,
    "reused in a chain": lambda a, b: (c := a * b) * (c + a),
    "gathered": lambda a, b: og.op.Gather(a, np.array([0, 0, 1])) * b[0],
    "indexed": lambda a, b: a[1:, ::2] * b[:1, 0],
    "chosen": lambda a, b: og.op.Where(a > b, a * a, b),
    "split": split,
    "largest": top,
    "softmax": lambda a, b: og.op.Softmax(a) * b,
    "normalized": lambda a, b: og.op.LayerNormalization(a, b[0], b[1]),
    "without gradient": without,
    "a function of its own": custom,
    "an operator that is a function": lambda a, b: og.op.Elu(og.op.Celu(a, alpha=2.0)) + og.op.HardSwish(b),
    "cast": lambda a, b: (a.astype("float64") * b.astype("float64")).astype("float32"),
    "reshaped": lambda a, b: a.reshape(3, 2) @ b.transpose(0, 1),
    "nothing of b": lambda a, b: og.op.Exp(a),
}


def inputs():
    rng = np.random.default_rng(0)
    return [og.Tensor(rng.standard_normal((2, 3)).astype(np.float32)) for _ in range(2)]


def gradients(function, a, b):
    with og.Grad() as grad:
        found: dict[str, og.Tensor] = {}
        grad.wrt(a, callback=lambda value: found.setdefault("a", value))
        grad.wrt(b, callback=lambda value: found.setdefault("b", value))
        y = function(a, b)
        grad(y, og.op.Cos(y.detach()))
    return y, found


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value.numpy(), theirs[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_same_traced_and_at_once(name):
    a, b = inputs()
    value, want = gradients(FUNCTIONS[name], a, b)
    traced = og.trace(lambda a, b: gradients(FUNCTIONS[name], a, b))
    for _ in range(2):
        ours, found = traced(a, b)
        np.testing.assert_allclose(ours.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
        assert_same(found, want)


def second(function, a, b):
    """Gradients of the sum of squared gradients."""
    found: dict[str, og.Tensor] = {}
    with og.Grad() as outer:
        outer.wrt(a, callback=lambda value: found.setdefault("a", value))
        outer.wrt(b, callback=lambda value: found.setdefault("b", value))
        _, first = gradients(function, a, b)
        outer([(value * value).sum() for value in first.values()])
    return found


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("largest", "a function of its own")])
def test_second_gradients_are_the_same_traced_and_at_once(name):
    a, b = inputs()
    want = second(FUNCTIONS[name], a, b)
    assert_same(og.trace(lambda a, b: second(FUNCTIONS[name], a, b))(a, b), want)


def test_a_gradient_that_is_taken_later_is_recorded_by_a_tape_outside():
    def double(x, dy):
        found: list[og.Tensor] = []
        with og.Grad() as inner:
            inner.wrt(x, callback=found.append)
            go_back = inner.backward_closure(og.op.Sin(x))
            with og.Grad() as outer:
                outer.wrt(dy, callback=found.append)
                go_back([dy])
                outer(found[0])
        return found[1]

    x, dy = og.Tensor([0.5]), og.Tensor([1.0])
    for function in (double, og.trace(double)):
        np.testing.assert_allclose(function(x, dy).numpy(), np.cos([0.5]), rtol=1e-6)


def test_a_missing_rule_is_an_error_when_the_gradient_is_taken(monkeypatch):
    monkeypatch.delitem(RULES, ("", "Atanh"))

    def step(x, back):
        with og.Grad() as grad:
            grad.wrt(x)
            y = og.op.Atanh(x).sum()
            if back:
                grad(y)
        return y

    traced = og.trace(step)
    traced(np.zeros(2, np.float32), False)
    with pytest.raises(og.errors.GradientRuleMissing, match="Atanh"):
        traced(np.zeros(2, np.float32), True)


def test_dropout_has_one_mask_for_values_and_gradients():
    def step(x):
        found: list[og.Tensor] = []
        with og.Grad() as grad:
            grad.wrt(x, callback=found.append)
            y = og.nn.dropout(x, 0.5)
            grad(y)
        return y, found[0]

    traced = og.trace(step)
    for _ in range(2):
        y, dx = traced(np.ones(64, np.float32))
        np.testing.assert_array_equal(y.numpy(), dx.numpy())


def test_arguments_are_not_kept():
    traced = og.trace(lambda x: x * 2)
    x = og.Tensor([1.0])
    weak = ref(x)
    traced(x)
    del x
    gc.collect()
    assert weak() is None


def test_values_that_were_replaced_are_not_kept():
    weight = og.Tensor(np.ones(4, np.float32))
    first = weight.detach()
    traced = og.trace(lambda x: weight.set(weight + x))
    traced(og.Tensor(1.0))
    (capture,) = (known for several in traced._captures.values() for known in several)
    payload = first._payload
    del first
    assert not any(known is capture for known in gc.get_referrers(payload))
    assert capture.graph is None
    assert [type(port).__name__ for port in capture.ports] == ["Given", "Tensor"]


def test_captures_that_are_forgotten_let_go_of_tensors():
    weight = og.Tensor([1.0])
    weak = ref(weight)
    held = [weight]
    traced = og.trace(lambda x: x * held[0])
    traced(og.Tensor([1.0]))
    held.clear()
    del weight
    traced.clear()
    gc.collect()
    assert weak() is None


def test_an_argument_that_is_attached_outside_has_its_gradient():
    w, x, other = (og.Tensor(value) for value in ([2.0, 3.0], [1.0, 4.0], [5.0, 6.0]))
    gradients = og.GradManager().attach([w, x])

    def step(a):
        with gradients:
            gradients.backward((a * a * w + x).sum())

    traced = og.trace(step)
    for argument in (other, x, x, other):
        found = []
        for function in (step, traced):
            w.grad = x.grad = None
            function(argument)
            found.append({"w": w.grad, "x": x.grad})
        assert_same(*found)
    assert traced.captures == 2


def test_a_tensor_that_is_set_and_given_twice_is_captured_once():
    x = og.Tensor([1.0, 4.0])

    @og.trace
    def add(a, b):
        x.set(a + b)

    for _ in range(3):
        add(x, x)
    assert add.captures == 1
    np.testing.assert_array_equal(x.numpy(), [8.0, 32.0])
