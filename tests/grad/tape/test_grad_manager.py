"""Table K of docs/semantics.md: GradManager and Grad as programs use them, and what they keep in memory."""

import gc
import weakref
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, InputError, TapeError
from onnxgrad.grad.tape.state import STATE
from tests.grad.tape.watch import t


def test_K1_tensors_or_iterables_of_floats_are_attached():
    x, y, z = t(1.0), t(2.0), t(3.0)
    gm = og.GradManager().attach(x).attach(iter([y, z]))
    assert gm.attached_tensors() == [x, y, z]
    with pytest.raises(TypeError, match="a float where a Tensor is wanted"):
        gm.attach([1.0])  # type: ignore[list-item]
    with pytest.raises(GradientError, match="only tensors of floats"):
        gm.attach(og.Tensor([1]))


def test_K1_callbacks_of_repeated_attaching_are_called_in_turn():
    x = t(1.0)
    gm = og.GradManager()
    gm.attach(x, lambda tensor, grad: grad + 1.0)
    gm.attach([x], [lambda tensor, grad: grad * 10.0, lambda tensor, grad: grad + tensor])
    with gm:
        gm.backward(x * 2.0)
    assert x.grad is not None
    assert x.grad.tolist() == [31]


def test_K1_attached_tensors_are_not_kept_alive():
    x = t(1.0)
    gm = og.GradManager().attach(x)
    seen = weakref.ref(x)
    del x
    assert seen() is None
    assert gm.attached_tensors() == []
    with gm:
        gm.backward(t(1.0))


def test_K1_attaching_while_recording_takes_effect_at_once():
    x = t(3.0)
    gm = og.GradManager()
    with gm:
        gm.attach(x)
        gm.backward(x * x)
    assert x.grad is not None
    assert x.grad.tolist() == [6]


def test_K2_recording_twice_and_going_back_without_a_record_are_errors():
    gm = og.GradManager()
    with pytest.raises(RuntimeError, match="no computation history"):
        gm.backward(t(1.0))
    with gm, pytest.raises(RuntimeError, match="already recording"):
        gm.record()
    with gm:
        gm.backward(t(1.0))
        with pytest.raises(TapeError, match="no computation history"):
            gm.backward(t(1.0))


def test_K2_releasing_twice_does_nothing():
    gm = og.GradManager().record()
    gm.release()
    gm.release()
    assert STATE.recorders == ()


def test_K3_gradients_are_added_up():
    x = t(1.0, 2.0)
    gm = og.GradManager().attach(x)
    for count in (1, 2, 3):
        with gm:
            gm.backward(x * x)
        assert x.grad is not None
        assert x.grad.tolist() == [2 * count, 4 * count]


def test_K3_dy_is_ones_by_default_and_lists_must_match():
    x = t(1.0, 2.0)
    gm = og.GradManager().attach(x)
    with gm:
        gm.backward([x * 2.0, x * x], [t(1.0, 0.0), t(1.0, 10.0)])
    assert x.grad is not None
    assert x.grad.tolist() == [4, 40]
    with gm, pytest.raises(InputError, match="2 outputs need as many gradients, not 1"):
        gm.backward([x, x * 2.0], [t(1.0, 1.0)])


def test_K3_without_a_target_nothing_happens_but_the_end_of_the_record():
    x = t(1.0)
    gm = og.GradManager().attach(x)
    with gm:
        kept = x * x
        gm.backward()
        assert STATE.recorders == ()
    assert x.grad is None
    assert kept is not None


def test_K3_futures_are_waited_for():
    with ThreadPoolExecutor(1) as pool:
        x = t(1.0)
        gm = og.GradManager().attach(x, lambda tensor, grad: pool.submit(lambda: grad * 5.0))
        gm.attach(x, lambda tensor, grad: grad + 1.0)
        with gm:
            gm.backward(x * 2.0)
    assert x.grad is not None
    assert x.grad.tolist() == [11]


def test_G12_of_several_failed_futures_the_first_is_raised_and_the_next_step_is_clean():
    futures: list[Future] = []
    failing = True

    def callback(tensor, grad):
        future: Future = Future()
        futures.append(future)
        if failing:
            future.set_exception(ValueError(f"number {len(futures)}"))
        else:
            future.set_result(grad)
        return future

    x, y = t(1.0), t(2.0)
    gm = og.GradManager().attach([x, y], callback)
    with gm, pytest.raises(ValueError, match="number 1"):
        gm.backward(x * y)
    failing = False
    with gm:
        gm.backward(x * y)
    assert x.grad is not None
    assert x.grad.tolist() == [2]


def test_K3_callbacks_after_the_walk_come_before_gradients_are_added():
    x = t(1.0)
    seen: list = []

    def watch(tensor, grad):
        seen.append("grad")
        return grad

    gm = og.GradManager().attach(x, watch)
    gm.after_backward(lambda: seen.append(x.grad))
    with gm:
        gm.backward(x * 1.0)
    assert seen == ["grad", None]
    assert x.grad is not None


def test_K3_a_record_ends_by_an_error_too():
    def fail(tensor, grad):
        raise ValueError("mine")

    x = t(1.0)
    gm = og.GradManager().attach(x, fail)
    gm.record()
    with pytest.raises(ValueError, match="mine"):
        gm.backward(x * x)
    assert STATE.recorders == ()
    gm.record()
    gm.release()


def test_K4_without_a_callback_gradients_go_to_the_tensor():
    x, y = t(2.0), t(3.0)
    with og.Grad() as grad:
        assert grad.wrt(x, y) is grad
        grad([x * y], [t(2.0)])
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([6], [4])


def test_K4_managers_side_by_side_do_not_record_each_other():
    x, y = t(2.0), t(3.0)
    first, second = og.GradManager().attach(x), og.GradManager().attach(y)
    with first | second:
        z = x * x * y
        first.backward(z)
        second.backward(z)
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([12], [4])


def test_K4_managers_inside_of_each_other_give_second_derivatives():
    x = t(2.0)
    outer, inner = og.GradManager().attach(x), og.GradManager().attach(x)
    with outer:
        with inner:
            inner.backward(x * x * x)
        first, x.grad = x.grad, None
        assert first is not None
        outer.backward(first)
    assert x.grad is not None
    assert (first.tolist(), x.grad.tolist()) == ([12], [12])


def test_K4_a_group_that_cannot_start_leaves_nothing_recording():
    first, second = og.GradManager(), og.GradManager()
    with second, pytest.raises(TapeError, match="already recording"):
        (first | second).__enter__()
    assert STATE.recorders == ()


LEAVES_INPUT = {
    "relu": og.op.Relu,
    "sigmoid": og.op.Sigmoid,
    "add": lambda x: x + 1.0,
    "add of another shape": lambda x: x + og.Tensor(np.ones((2, 1), np.float32)),
    "reshape": lambda x: x.reshape(-1),
    "slice": lambda x: x[0:1],
    "index": lambda x: x[:, 2],
    "unsqueeze": lambda x: og.op.Unsqueeze(x, [0]),
    "transpose": lambda x: x.T,
    "sum": lambda x: x.sum(axis=1),
    "mean": lambda x: x.mean(axis=1),
    "expand": lambda x: og.op.Expand(x, [4, 2, 3]),
    "concat": lambda x: og.op.Concat(x, x, axis=0),
    "cast": lambda x: x.astype("float64"),
    "gather": lambda x: og.op.Gather(x, [0, 0, 1]),
    "softmax": og.op.Softmax,
}


@pytest.mark.parametrize("name", LEAVES_INPUT)
def test_K5_an_operator_does_not_keep_its_input_alive(name):
    w = og.Tensor(np.ones((2, 3), np.float32))
    with og.Grad() as grad:
        grad.wrt(w)
        x = w * 2.0
        tensor, memory = weakref.ref(x), weakref.ref(x._payload)
        y = LEAVES_INPUT[name](x)
        del x
        assert (tensor(), memory()) == (None, None)
        grad(y)
    assert w.grad is not None
    assert w.grad.shape == (2, 3)


def test_a_tensor_that_is_set_or_written_to_passes_the_gradient_on():
    w = t(1.0, 2.0)
    x, y = t(0.0, 0.0), t(5.0, 5.0, 5.0)
    with og.Grad() as grad:
        grad.wrt(w)
        x.set(w * 2.0)
        y[0:2] = x * 3.0
        grad(y * t(1.0, 10.0, 100.0))
    assert w.grad is not None
    assert w.grad.tolist() == [6, 60]


def test_K5_what_the_gradient_needs_is_kept_until_the_walk_has_passed():
    w = og.Tensor(np.ones((2, 3), np.float32))
    with og.Grad() as grad:
        grad.wrt(w)
        x = w * 2.0
        memory = weakref.ref(x._payload)
        y = og.op.Sin(x)
        del x
        assert memory() is not None
        grad(y)
        assert memory() is None


class Square(og.Function):
    """y = x^2; keeps its input and its output."""

    def forward(self, x):
        self.x = x
        self.y = x * x
        return self.y

    def backward(self, dy):
        return dy * self.x * 2.0


def second_order(x, gm):
    got: list = []
    with og.Grad() as inner:
        inner.wrt(x, callback=got.append)
        inner(og.op.Sin(x) * x)
    gm.backward(got[0])


def wrong(x, gm):
    with pytest.raises(InputError):
        gm.backward(og.op.Tanh(x * x), t(1.0, 2.0, 3.0))


ENDINGS = {
    "backward": lambda x, gm: gm.backward(og.op.Tanh(x * x) + x[0:1]),
    "release": lambda x, gm: og.op.Tanh(x * x),
    "error": wrong,
    "second order": second_order,
    "function": lambda x, gm: gm.backward(Square()(x)),
    "function of second order": lambda x, gm: second_order(Square()(x), gm),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_K5_no_cycles_are_left(ending):
    x = t(1.0, 2.0)

    def work():
        gm = og.GradManager().attach(x)
        with gm:
            ENDINGS[ending](x, gm)
        x.grad = None

    for _ in range(2):
        work()
    gc.collect()
    gc.disable()
    try:
        work()
        found = [kind for kind in map(type, _garbage()) if kind.__module__.startswith("onnxgrad")]
    finally:
        gc.enable()
    assert found == []


def _garbage() -> list:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_no_grad_records_nothing_as_a_block_and_as_a_decorator():
    x = t(2.0)

    @og.no_grad()
    def square(value):
        return value * value

    with og.Grad() as grad:
        grad.wrt(x)
        with og.no_grad():
            with og.no_grad():
                inside = x * x
            assert not grad.is_attached_to(x * x)
        assert not grad.is_attached_to(inside)
        assert not grad.is_attached_to(square(x))
        assert grad.is_attached_to(x * x)


def test_a_tape_that_ends_inside_of_no_grad_stays_ended():
    x = t(2.0)
    gm = og.GradManager().attach(x)
    gm.record()
    y = x * x
    with og.no_grad():
        gm.backward(y)
    assert STATE.recorders == ()
    assert x.grad is not None
    assert x.grad.tolist() == [4]


def test_a_loop_of_steps_trains():
    rng = np.random.default_rng(0)
    inputs = og.Tensor(rng.standard_normal((64, 8)).astype(np.float32))
    targets = og.Tensor(np.sin(inputs.numpy().sum(axis=1, keepdims=True)))
    weights = [og.Tensor(rng.standard_normal(s).astype(np.float32) * 0.3) for s in ((8, 32), (32,), (32, 1))]
    gm = og.GradManager().attach(weights)
    losses = []
    for _ in range(60):
        with gm:
            error = og.op.Relu(inputs @ weights[0] + weights[1]) @ weights[2] - targets
            loss = (error * error).mean()
            gm.backward(loss)
        for weight in weights:
            assert weight.grad is not None
            weight.set(weight - 0.1 * weight.grad)
            weight.grad = None
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
