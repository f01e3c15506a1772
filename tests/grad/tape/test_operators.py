"""Every operator that has a gradient rule, on tensors: the tape against the gradient of the whole graph."""

from functools import partial

import numpy as np
import onnx
import pytest

import onnxgrad as og
from onnxgrad.engine.graph.operand import apply
from onnxgrad.engine.graph.signature import OPSET, operators
from onnxgrad.grad.tape.tensor import as_tensors
from tests.grad.checks import Case, build, gradient_model_of, run_gradient, run_in_onnxruntime, seeds_of
from tests.grad.test_rules import CASES

LATER = {"GroupNormalization-18(num_groups=2)", "DFT-19-(2, 3, 4, 2)-2-None-{'inverse': 1}"}
"""Cases of older opsets, whose inputs or attributes have another meaning today."""


def is_one_call(case: Case) -> bool:
    known = bool(case.op_domain) or case.op_type in operators()
    bodies = any(isinstance(value, onnx.GraphProto) for value in case.attributes.values())
    return known and not (case.nodes or bodies) and case.runs32 and case.opset <= OPSET and str(case) not in LATER


ALL = [case for case in CASES if is_one_call(case)]
ONE_EACH = list({(case.op_domain, case.op_type): case for case in ALL}.values())


def run(case: Case, order: int) -> tuple[dict[str, og.Tensor], dict[str, np.ndarray]]:
    """The gradients on the tape, of that order, and those of the graph."""
    model, feeds = build(case, np.float32, symbolic=False)
    wrt = list(feeds)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    leaves = {name: og.Tensor(value) for name, value in feeds.items()}
    names = [None if spec is None else f"x{i}" for i, spec in enumerate(case.inputs)]
    inputs = [None if name is None else leaves.get(name, constants.get(name)) for name in names]
    seeds = seeds_of(model, run_in_onnxruntime(model, feeds))
    rng = np.random.default_rng(5)
    again = {f"{name}.grad": rng.standard_normal(feeds[name].shape).astype(np.float32) for name in wrt}
    grads: list[dict[str, og.Tensor]] = [{}, {}]
    with og.Grad() as outer, og.Grad() as inner:
        for name, leaf in leaves.items():
            inner.wrt(leaf, callback=partial(grads[0].__setitem__, name))
            if order == 2:
                outer.wrt(leaf, callback=partial(grads[1].__setitem__, name))
        standard = case.op_domain in ("", "ai.onnx.ml")
        outputs = as_tensors(
            apply(case.op_type, inputs, dict(case.attributes), case.outputs, case.op_domain, standard=standard)
        )
        seeded = range(case.outputs) if case.seeded is None else case.seeded
        pairs = [(outputs[k], seeds[f"y{k}.grad"]) for k in seeded if f"y{k}.grad" in seeds]
        inner([y for y, _ in pairs], [og.Tensor(dy) for _, dy in pairs])
        if order == 2:
            found = list(grads[0].items())
            outer([grad for _, grad in found], [og.Tensor(again[f"{name}.grad"]) for name, _ in found])
    if order == 1:
        return grads[0], run_gradient(model, feeds, wrt, run_in_onnxruntime)
    second = gradient_model_of(gradient_model_of(model, wrt), wrt, of=list(again))
    given = {**feeds, **seeds, **{f"{name}.seed": value for name, value in again.items()}}
    return grads[1], run_in_onnxruntime(second, given)


def check(case: Case, order: int, tolerance: float) -> None:
    got, wanted = run(case, order)
    for name in [f"x{i}" for i in range(len(case.inputs))]:
        if f"{name}.grad" not in wanted:
            continue
        want = wanted[f"{name}.grad"]
        grad = got[name].numpy() if name in got else np.zeros_like(want)
        bound = tolerance * max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(grad, want, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize("case", ONE_EACH, ids=str)
def test_an_operator_has_the_gradient_of_its_graph(case):
    check(case, order=1, tolerance=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=str)
def test_every_case_has_the_gradient_of_its_graph(case):
    check(case, order=1, tolerance=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ALL if case.second], ids=str)
def test_every_case_has_the_second_derivative_of_its_graph(case):
    check(case, order=2, tolerance=3e-3)


def test_nearly_all_cases_are_single_calls():
    assert len(ALL) > 650
    assert len(ONE_EACH) > 150
