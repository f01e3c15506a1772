"""Table J of docs/semantics.md, up to J18: what the tape records, and the walk back through it."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientError, GradientRuleMissing, InputError, TapeError
from onnxgrad.engine.graph.operand import Call
from onnxgrad.grad.registry import RULES
from onnxgrad.grad.tape import operators
from onnxgrad.grad.tape.kernels import LeastRecent
from onnxgrad.grad.tape.operators import CACHE, CustomBackward, find_backward, lookup_grad_rule, register_grad_rule
from tests.grad.tape.watch import t


def entries(tape):
    return [entry for weak in tape._entries if (entry := weak()) is not None]


def test_J1_graphs_that_do_not_exist_are_remembered_too(monkeypatch, tape):
    monkeypatch.setattr(CACHE, "graphs", LeastRecent(100))
    x = t(1.5)
    tape.attach(x)
    for _ in range(3):
        og.op.Floor(x)
    assert len(CACHE.graphs) == 1


def test_J2_what_is_kept_is_answers_then_inputs_then_outputs(tape):
    x = t(1.0, 2.0)
    call = Call("Div", (x, t(2.0, 2.0)), {})
    y = x / t(2.0, 2.0)
    backward = find_backward(call, [y], [True, True], tape.level)
    assert isinstance(backward, operators._GraphBackward)
    assert [value.tolist() for value in backward._saved if isinstance(value, og.Tensor)] == [[2, 2], [0.5, 1]]
    assert backward._zeros is None


def test_J3_an_operator_whose_outputs_have_no_gradient_is_not_called(seen):
    x = t(3.0, 1.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        first, second = og.op.Split(x, num_outputs=2)
        grad([], [])
    assert seen.order == []
    assert first.item() + second.item() == 4


def test_J3_gradients_that_are_missing_are_zeros(seen):
    x = t(3.0, 1.0, 2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        _, second = og.op.Split(x, [1, 2])
        grad(second, t(5.0, 7.0))
    assert seen["x"] == [0, 5, 7]


def rule_that_returns(grads, **flags):
    def rule(call, outputs, requires):
        return CustomBackward(
            grads, flags.get("has", (True,) * len(call.inputs)), flags.get("reads", (True,) * len(outputs))
        )

    return rule


def test_J4_a_custom_rule_gets_missing_gradients_as_none_and_may_give_none(monkeypatch, seen):
    got = []

    def backward(dys):
        got.append([dy is None for dy in dys])
        return (None,)

    monkeypatch.setitem(operators._GRAD_RULES, ("", "Split"), rule_that_returns(backward, has=(True,)))
    x = t(3.0, 1.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        _, second = og.op.Split(x, num_outputs=2)
        grad(second)
    assert got == [[True, False]]
    assert seen.order == []


def test_J4_marks_say_which_inputs_have_a_gradient_and_which_outputs_are_tracked(monkeypatch, seen):
    rule = rule_that_returns(lambda dys: (dys[0],), has=(False, True), reads=(True,))
    monkeypatch.setitem(operators._GRAD_RULES, ("", "Mul"), rule)
    x, y = t(2.0), t(3.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x")).wrt(y, callback=seen.of("y"))
        grad(x * y)
    assert (seen.order, seen["y"]) == (["y"], [1])


def test_Q26_a_rule_that_gives_too_many_gradients_is_an_error(monkeypatch):
    monkeypatch.setitem(operators._GRAD_RULES, ("", "Exp"), rule_that_returns(lambda dys: (dys[0], dys[0])))
    x = t(2.0)
    with og.Grad() as grad, pytest.raises(GradientError, match="a rule gives 2 gradients for 1 inputs"):
        grad.wrt(x)
        grad(og.op.Exp(x))


def test_J5_the_first_rule_of_an_operator_stays(monkeypatch):
    monkeypatch.setattr(operators, "_GRAD_RULES", {})
    first, second = rule_that_returns(None), rule_that_returns(None)
    assert lookup_grad_rule("Odd") is None
    assert register_grad_rule("Odd", first)
    assert not register_grad_rule("Odd", second)
    assert lookup_grad_rule("Odd") is first


def test_J5_a_rule_that_declines_leaves_it_to_the_graph(monkeypatch, seen):
    asked = []
    monkeypatch.setitem(operators._GRAD_RULES, ("", "Exp"), lambda *given: asked.append(given))
    x = t(0.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        grad(og.op.Exp(x))
    assert (len(asked), seen["x"]) == (1, [1])


def test_J5_a_gradient_registered_for_graphs_holds_for_tensors_too(monkeypatch, seen):
    monkeypatch.setitem(RULES, ("", "Sub"), list(RULES["", "Sub"]))

    @og.register_gradient("Sub", broadcasts=True)
    def rule(op, node, dy):
        return op.Mul(dy, 10.0), op.Mul(dy, 20.0)

    x, y = t(1.0), t(2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x")).wrt(y, callback=seen.of("y"))
        grad(x - y)
    assert (seen["x"], seen["y"]) == ([10], [20])


def test_J5_a_gradient_that_is_registered_later_takes_the_place_of_what_was_made(monkeypatch, seen):
    monkeypatch.setitem(RULES, ("", "Exp"), list(RULES["", "Exp"]))
    x = t(0.0)

    def gradient():
        with og.Grad() as grad:
            grad.wrt(x, callback=seen.of("x"))
            grad(og.op.Exp(x))
        return seen["x"]

    assert gradient() == [1]
    og.register_gradient("Exp")(lambda op, node, dy: (op.Mul(dy, 7.0),))
    assert gradient() == [7]


RULED = {
    "Add": lambda x: x + t(1.0, 2.0, 3.0, 4.0),
    "Sub": lambda x: t(1.0, 2.0, 3.0, 4.0) - x,
    "Reshape": lambda x: x.reshape(2, 2),
    "Unsqueeze": lambda x: og.op.Unsqueeze(x, [0]),
    "Squeeze": lambda x: og.op.Squeeze(og.op.Unsqueeze(x, [0])),
    "Flatten": lambda x: og.op.Flatten(x, axis=0),
    "Transpose": lambda x: x.reshape(2, 2).T,
    "Transpose-3": lambda x: x.reshape(1, 2, 2).transpose(1, 2, 0),
    "Cast": lambda x: x.astype("float32"),
    "ReduceSum": lambda x: x.reshape(2, 2).sum(axis=1),
    "ReduceSum-kept": lambda x: x.reshape(2, 2).sum(axis=0, keepdims=True),
    "ReduceSum-all": lambda x: x.sum(),
}


@pytest.mark.parametrize("name", RULED)
def test_J5_rules_for_tensors_agree_with_the_graphs(name, monkeypatch, seen):
    def gradient(label):
        x = t(1.0, 2.0, 3.0, 4.0)
        with og.Grad() as grad:
            grad.wrt(x, callback=seen.of(label))
            y = RULED[name](x)
            grad(y, og.Tensor(np.arange(1, y.numpy().size + 1, dtype=y.dtype).reshape(y.shape)))
        return seen[label]

    by_rule = gradient("rule")
    monkeypatch.setattr(operators, "_GRAD_RULES", {})
    assert by_rule == gradient("graph")


def test_J6_slots_and_entries_can_be_read(tape):
    x = t(1.0)
    tape.attach(x)
    y = og.op.Exp(x)
    (entry,) = entries(tape)
    assert repr(entry) == "<Exp: 1 outputs, gradients of 1 inputs>"
    assert repr(tape.slot_of(x)) == "<leaf, 0 uses to go, without gradient>"
    assert repr(tape.slot_of(y)) == "<value, 0 uses to go, without gradient>"


def test_J7_the_walk_goes_backwards_adds_up_and_frees_as_it_goes(tape, seen):
    x = t(2.0)
    tape.attach(x, seen.of("x"))
    y = x * x
    z = y + y
    recorded = entries(tape)
    closure = tape.backward_closure([z])
    left = []
    backward, recorded[0].backward = recorded[0].backward, None
    assert backward is not None

    class Counting:
        input_has_grad, reads_output_grad = backward.input_has_grad, backward.reads_output_grad

        def run(self, dys):
            left.append(sum(entry.backward is not None for entry in recorded))
            return backward.run(dys)

    recorded[0].backward = Counting()
    closure([t(1.0)])
    assert seen["x"] == [8]
    assert left == [0]  # the later operator is forgotten already
    assert entries(tape) == []


def test_J7_an_entry_that_was_walked_through_is_an_invalid_backward(tape):
    x = t(2.0)
    tape.attach(x)
    y = og.op.Exp(x)
    (entry,) = entries(tape)
    closure = tape.backward_closure([y])
    entry.clear()
    with pytest.raises(TapeError, match="invalid backward"):
        closure([t(1.0)])


def test_J8_a_callback_comes_when_the_last_use_is_behind(seen):
    a, b, c = t(1.0), t(2.0), t(3.0)
    with og.Grad() as grad:
        for name, value in (("a", a), ("b", b), ("c", c)):
            grad.wrt(value, callback=seen.of(name))
        first = a * b  # the earliest use of a and b
        second = first * c
        grad(second * a)
    assert seen.order == ["c", "b", "a"] or seen.order == ["c", "a", "b"]
    assert (seen["a"], seen["b"], seen["c"]) == ([12], [3], [2])


def test_J8_a_value_used_twice_by_one_operator_has_one_callback(seen):
    x = t(3.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        grad(x * x)
    assert (seen.order, seen["x"]) == (["x"], [6])


def test_J8_uses_whose_results_are_gone_are_not_waited_for(seen):
    x = t(3.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        y = x * x
        og.op.Exp(x)  # the result is dropped
        grad(y)
    assert seen.order == ["x"]


@pytest.mark.parametrize("value", ["leaf", "computed"])
def test_J9_attaching_what_is_tracked_is_an_error(value):
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x)
        with pytest.raises(GradientError, match="tracked already"):
            grad.wrt(x if value == "leaf" else og.op.Exp(x))


def test_J9_only_floats_are_attached():
    with og.Grad() as grad, pytest.raises(GradientError, match="only tensors of floats"):
        grad.wrt(og.Tensor([1, 2]))


def test_Q17_a_refused_callback_is_stored_nowhere(seen):
    x = t(1.0, 2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        first, second = og.op.Split(x, num_outputs=2)
        with pytest.raises(GradientError, match="tracked already"):
            grad.wrt(second, callback=seen.of("second"))
        grad([first, second])
    assert seen.order == ["x"]


def test_J10_operators_whose_results_are_gone_are_dropped(tape):
    x = t(1.0)
    tape.attach(x)
    kept = og.op.Exp(og.op.Exp(x))
    og.op.Sin(x)  # of which the input is kept
    og.op.Sigmoid(x)  # of which the output is kept
    assert [entry.name for entry in entries(tape)] == ["Exp", "Exp"]
    assert kept is not None


def test_J10_a_tape_is_frozen_once(tape):
    tape.backward_closure([])
    with pytest.raises(TapeError, match="no computation history"):
        tape.backward_closure([])


def test_J11_a_suppressed_tape_sees_nothing(tape):
    x = t(1.0)
    tape.attach(x)
    tape.suppress()
    assert tape.slot_of(og.op.Exp(x)) is None
    assert tape.slot_of(og.op.Identity(x)) is None
    tape.resume()
    assert tape.slot_of(og.op.Exp(x)) is not None


def test_J12_operators_without_a_tracked_input_are_not_recorded(tape):
    tape.attach(t(1.0))
    assert tape.slot_of(og.op.Exp(t(1.0))) is None
    assert entries(tape) == []


@pytest.fixture
def without_erf(monkeypatch):
    monkeypatch.setattr(CACHE, "graphs", LeastRecent(10))
    monkeypatch.setitem(RULES, ("", "Erf"), [])


def test_J13_an_operator_without_a_rule_may_run_beside(without_erf, seen):
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        beside = og.op.Erf(x)
        grad(x * x)
    assert seen["x"] == [2]
    assert beside is not None


def test_J13_a_gradient_that_is_to_go_through_it_is_an_error(without_erf):
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x)
        y = og.op.Erf(x)
        with pytest.raises(GradientRuleMissing, match=r"no gradient rule for ai\.onnx::Erf"):
            grad(y)


def test_J14_outputs_whose_gradient_is_not_read_are_not_tracked(tape):
    x = t(1.0, 3.0, 2.0)
    tape.attach(x)
    values, indices = og.op.TopK(x, [2])
    assert tape.slot_of(values) is not None
    assert tape.slot_of(indices) is None
    assert tape.slot_of(x > 1.0) is None


def test_J15_inputs_without_gradient_have_no_destination(tape):
    x, y = t(1.0, 2.0), t(3.0, 4.0)
    tape.attach(x)
    kept = x * y
    (entry,) = entries(tape)
    assert [slot is not None for slot in entry.dests] == [True, False]
    assert kept is not None


def test_J16_each_tape_has_tracked_values_of_its_own(seen):
    x, y = t(2.0), t(3.0)
    with og.Grad() as outer, og.Grad() as inner:
        outer.wrt(x, callback=seen.of("outer"))
        inner.wrt(y, callback=seen.of("inner"))
        z = x * y
        assert (outer.is_attached_to(y), inner.is_attached_to(x)) == (False, False)
        assert (outer.is_attached_to(z), inner.is_attached_to(z)) == (True, True)
        inner(z)
        outer(seen.values["inner"])
    assert (seen["inner"], seen["outer"]) == ([2], [1])


def test_J17_values_and_gradients_must_fit():
    x = t(1.0, 2.0)
    for dys in ([t(1.0, 1.0)] * 2, [t(1.0)], [og.Tensor([1.0, 1.0])]):
        with og.Grad() as grad:
            grad.wrt(x)
            y = og.op.Exp(x)
            with pytest.raises(InputError):
                grad(y, dys)


def test_J17_a_value_listed_twice_counts_twice(seen):
    x = t(2.0)
    with og.Grad() as grad:
        grad.wrt(x, callback=seen.of("x"))
        y = x * x
        grad([y, y], [t(1.0), t(10.0)])
    assert seen["x"] == [44]


def test_J18_attached_and_computed_values_are_told_from_others():
    x = t(1.0)
    with og.Grad() as grad:
        grad.wrt(x)
        assert grad.is_attached_to(x)
        assert grad.is_attached_to(og.op.Exp(x))
        assert not grad.is_attached_to(t(1.0))
    assert not grad.is_attached_to(x)
