"""Table J of docs/semantics.md, from J19 on: custom functions, closures, tapes inside of tapes, and threads."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, InputError, TapeError
from onnxgrad.grad.tape.operators import CustomBackward
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.tape import Entry, Slot, innermost_tape, ones_like
from tests.grad.tape.test_tape import entries
from tests.grad.tape.watch import t


class Scaled(og.Function):
    """y = 2 x, with a gradient that says 10."""

    def forward(self, x):
        return x * 2.0

    def backward(self, dy):
        return dy * 10.0


def test_J19_a_custom_function_is_an_entry_without_operator(tape, seen):
    x = t(1.0)
    tape.attach(x, seen.of("x"))
    y = Scaled()(x)
    assert [entry.name for entry in entries(tape)] == ["Scaled"]
    tape.backward_closure([y])([t(1.0)])
    assert seen["x"] == [10]


def test_J19_untracked_inputs_have_no_destination_and_all_outputs_are_tracked(tape):
    class Both(og.Function):
        def forward(self, x, y):
            return x + y, x

        def backward(self, *dys):
            return dys

    x = t(1.0)
    tape.attach(x)
    found = Both()(x, t(2.0))
    (entry,) = entries(tape)
    assert [slot is not None for slot in entry.dests] == [True, False]
    assert all(tape.slot_of(value) is not None for value in found)
    assert found[1] is not x
    assert tape.slot_of(found[1]) is not tape.slot_of(x)


def test_J20_arguments_of_a_function_are_tensors_and_it_is_called_once():
    with pytest.raises(TypeError, match="a float where a Tensor is wanted"):
        Scaled()(1.0)  # type: ignore[arg-type]
    once = Scaled()
    once(t(1.0))
    with pytest.raises(TapeError, match="Scaled is called twice"):
        once(t(1.0))


def test_J20_without_a_tracked_argument_only_forward_runs():
    assert Scaled()(t(1.0)).tolist() == [2]  # type: ignore[union-attr]


def test_J20_forward_is_not_recorded(tape):
    class Watching(Scaled):
        def forward(self, x):
            found.append(tape.slot_of(og.op.Exp(x)))
            return x * 2.0

    found: list = []
    tape.attach(x := t(1.0))
    kept = Watching()(x)
    assert found == [None]
    assert [entry.name for entry in entries(tape)] == ["Watching"]
    assert kept is not None


def test_J20_none_stops_and_outputs_without_gradient_are_told(seen):
    got = []

    class Halves(og.Function):
        def forward(self, x, y):
            return x * 1.0, y * 1.0

        def backward(self, *dys):
            got.append([dy is None for dy in dys])
            return dys[0], None

    x, y = t(1.0), t(2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x")).wrt(y, callback=seen.of("y"))
        first, _ = Halves()(x, y)
        grad(first)
    assert (got, seen.order) == ([[False, True]], ["x"])


def test_J20_a_wrong_number_of_gradients_is_an_error():
    class Wrong(Scaled):
        def backward(self, dy):
            return dy, dy

    x = t(1.0)
    with og.Grad() as grad, pytest.raises(GradientError, match="returns 2 gradients for 1 inputs"):
        grad.wrt(x)
        grad(Wrong()(x))


def test_J20_a_function_is_differentiated_again_as_its_backward_is_written(seen):
    class Sigmoid(og.Function):
        def forward(self, x):
            self.y = 1.0 / (1.0 + og.op.Exp(-x))
            return self.y

        def backward(self, dy):
            return dy * self.y * (1.0 - self.y)

    x = t(0.3, -1.0)
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, callback=seen.of("second"))
        inner.wrt(x, callback=seen.of("first"))
        inner(Sigmoid()(x))
        outer(seen.values["first"])
    s = 1 / (1 + np.exp(-x.numpy()))
    np.testing.assert_allclose(seen["first"], s * (1 - s))
    np.testing.assert_allclose(seen["second"], s * (1 - s) * (1 - 2 * s))


def test_J21_a_closure_turns_gradients_into_callbacks(seen):
    x = t(2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        closure = grad.backward_closure(x * x)
        assert seen.order == []
        closure([t(3.0)])
    assert seen["x"] == [12]


def test_J22_recording_ends_when_the_closure_is_made_and_it_is_called_once():
    x = t(2.0)
    with og.Grad() as grad:
        grad.wrt(x)
        closure = grad.backward_closure([x * x, t(1.0)])
        assert not grad.is_attached_to(x)
        assert not grad.is_attached_to(og.op.Exp(x))
        with pytest.raises(InputError, match="2 values need as many gradients, not 1"):
            closure([t(1.0)])
        closure([t(1.0), t(5.0)])  # that of a value that is not tracked is ignored
        with pytest.raises(TapeError, match="called twice"):
            closure([t(1.0), t(1.0)])
    assert x.grad is not None
    assert x.grad.tolist() == [4]


def test_J23_a_detached_tensor_is_not_tracked(tape):
    x = t(1.0)
    tape.attach(x)
    y = og.op.Exp(x)
    assert tape.slot_of(y.detach()) is None
    assert tape.slot_of(og.op.Exp(y.detach())) is None
    assert y.detach().tolist() == y.tolist()


def test_J24_the_innermost_tape_that_tracks_a_value_is_found():
    x, y = t(1.0), t(2.0)
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, y)
        inner.wrt(y)
        assert innermost_tape([x]) is outer._tape
        assert innermost_tape([x, y]) is inner._tape
        assert innermost_tape([t(1.0)]) is None


def test_J25_the_identity_is_the_same_tracked_value(tape):
    x = t(1.0)
    tape.attach(x)
    y = og.op.Identity(x)
    assert tape.slot_of(y) is tape.slot_of(x)
    assert entries(tape) == []


def test_J26_when_a_tape_is_left_nothing_is_tracked_any_more(tape):
    x = t(1.0)
    tape.attach(x)
    y = og.op.Exp(x)
    (entry,) = entries(tape)
    tape.release()
    assert (tape.slot_of(x), tape.slot_of(y)) == (None, None)
    assert (entry.backward, entry.dests) == (None, ())
    assert tape not in STATE.recorders
    tape.release()


def test_J27_suppressing_is_counted():
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x)
        grad.suppress()
        grad.suppress()
        grad.resume()
        assert not grad.is_attached_to(og.op.Exp(x))
        grad.resume()
        assert grad.is_attached_to(og.op.Exp(x))
        with pytest.raises(TapeError, match="resume without suppress"):
            grad.resume()


def test_J27_of_a_group_the_others_record_nothing_while_one_goes_back(seen):
    x = t(2.0)
    for grouped in (True, False):
        if grouped:
            og.Grad.begin_group()
        with og.Grad() as first, og.Grad() as second:
            og.Grad.end_group()
            first.wrt(x)
            second.wrt(x, callback=seen.of("second"))
            y = x * x
            second(y)
            assert first.is_attached_to(seen.values["second"]) is not grouped


def test_J28_the_way_back_is_differentiated_by_tapes_outside(seen):
    x = t(0.5)
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, callback=seen.of("second"))
        inner.wrt(x, callback=seen.of("first"))
        inner(og.op.Cos(x))
        outer(seen.values["first"])
    np.testing.assert_allclose(seen["first"], -np.sin(0.5))
    np.testing.assert_allclose(seen["second"], -np.cos(0.5))


def test_J28_the_way_back_of_an_outer_tape_is_not_recorded_by_inner_ones(seen):
    x = t(0.5)
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, callback=seen.of("outer"))
        inner.wrt(x)
        outer(og.op.Sin(x))
        assert not inner.is_attached_to(seen.values["outer"])
    np.testing.assert_allclose(seen["outer"], np.cos(0.5))


def test_J29_a_leaf_that_does_not_contribute_gets_nothing(seen):
    x, y = t(1.0), t(2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x")).wrt(y)
        grad(og.op.Exp(x))
    assert seen.order == ["x"]
    assert y.grad is None


def test_Q14_a_leaf_that_is_differentiated_itself_gets_its_own_gradient(seen):
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        grad(x, t(7.0))
    assert seen["x"] == [7]


def test_Q15_what_runs_after_the_closure_was_made_does_not_count(seen):
    x = t(3.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        y = x * x
        closure = grad.backward_closure(y)
        z = y * x
        closure([t(1.0)])
    assert (seen["x"], z.tolist()) == ([6], [27])


def test_a_long_chain_is_walked_and_freed_without_recursion(tape, seen):
    x = y = t(1.0)
    tape.attach(x, seen.of("x"))
    for _ in range(3000):
        y = og.op.Neg(y)
    assert len(entries(tape)) == 3000
    closure = tape.backward_closure([y])
    del y
    closure([t(1.0)])
    assert seen["x"] == [1]


def test_a_long_chain_that_is_dropped_is_freed_without_recursion(tape):
    slot = Slot(None)
    for _ in range(50000):
        slot = Slot(Entry("Neg", CustomBackward(lambda dys: dys, (True,), (True,)), (slot,)))
    del slot


def test_ones_have_the_dtype_and_the_shape_of_the_value():
    got = ones_like(og.Tensor(np.zeros((2, 3), np.float16)))
    assert (str(got.dtype), got.shape, got.numpy().sum()) == ("float16", (2, 3), 6)


def test_threads_record_apart(seen):
    from concurrent.futures import ThreadPoolExecutor

    def work(number):
        x = t(float(number))
        with og.Grad() as grad:
            grad.wrt(x)
            for _ in range(20):
                y = x * x + og.op.Exp(x)
            grad(y)
        assert x.grad is not None
        return x.grad.numpy()[0] - (2 * number + np.exp(number))

    with ThreadPoolExecutor(4) as pool:
        assert np.allclose(list(pool.map(work, range(8))), 0)
