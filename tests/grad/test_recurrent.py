"""Gradients of RNN, GRU and LSTM: what the table of cases does not say."""

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import onnxgrad as og
from tests.grad.cases.recurrent import CASES, GATES
from tests.grad.checks import build, evaluate, run_in_onnxruntime

T, N, D, H = 3, 2, 2, 2
IN_ONNXRUNTIME = [case for case in CASES if case.runs32]


def model_of(op_type: str, outputs: list[str], lens: bool = False, **attributes) -> tuple[onnx.ModelProto, dict]:
    """A model of one recurrent node and its feeds."""
    rng, rows = np.random.default_rng(0), GATES[op_type] * H
    shapes = {"x": (T, N, D), "w": (1, rows, D), "r": (1, rows, H)}
    feeds = {name: rng.uniform(-1, 1, shape).astype("f") for name, shape in shapes.items()}
    infos = [oh.make_tensor_value_info(name, 1, value.shape) for name, value in feeds.items()]
    names = ["x", "w", "r"]
    if lens:
        feeds["lens"], names = np.array([3, 1], np.int32), ["x", "w", "r", "", "lens"]
        infos.append(oh.make_tensor_value_info("lens", 6, (N,)))
    node = oh.make_node(op_type, names, outputs, hidden_size=H, **attributes)
    results = [oh.make_tensor_value_info(name, 1, None) for name in outputs if name]
    graph = oh.make_graph([node], "one", infos, results)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9), feeds


def gradients_of(model: onnx.ModelProto, feeds: dict, wrt: list[str]) -> tuple[dict, onnx.ModelProto]:
    """The outputs of the gradient model, and the model."""
    proto = og.to_proto(og.gradient_model(model, wrt=wrt))
    outputs = run_in_onnxruntime(model, feeds)
    seeds = {f"{name}.grad": np.ones_like(value) for name, value in outputs.items()}
    return run_in_onnxruntime(proto, {**feeds, **seeds}), proto


@pytest.mark.parametrize("case", IN_ONNXRUNTIME, ids=str)
def test_the_evaluator_of_the_checks_agrees_with_onnxruntime(case):
    model, feeds = build(case, np.float32, symbolic=True)
    got, want = evaluate(model, feeds), run_in_onnxruntime(model, feeds)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=2e-6)


@pytest.mark.parametrize("op_type", GATES)
def test_the_hidden_states_are_put_out_where_the_node_does_not(op_type):
    """sum(Y_h) depends on x in the same way whether or not Y is an output."""
    without, feeds = model_of(op_type, ["", "y_h"])
    grads, proto = gradients_of(without, feeds, ["x"])
    assert proto.graph.node[0].output[0] != ""
    beside, _ = model_of(op_type, ["y", "y_h"])
    seeds = {"y.grad": np.zeros((T, 1, N, H), "f"), "y_h.grad": np.ones((1, N, H), "f")}
    whole = run_in_onnxruntime(og.to_proto(og.gradient_model(beside, wrt=["x"])), {**feeds, **seeds})
    np.testing.assert_allclose(grads["x.grad"], whole["x.grad"], atol=1e-6)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_what_stands_behind_the_end_of_a_sequence_does_no_harm(op_type, direction):
    model, feeds = model_of(op_type, ["y"], lens=True, direction=direction)
    clean, _ = gradients_of(model, feeds, ["x", "w", "r"])
    feeds["x"][1:, 1] = np.nan
    dirty, _ = gradients_of(model, feeds, ["x", "w", "r"])
    for name in ("x.grad", "w.grad", "r.grad"):
        np.testing.assert_array_equal(dirty[name], clean[name])
    assert not clean["x.grad"][1:, 1].any()


@pytest.mark.parametrize("op_type", GATES)
def test_only_the_recurrence_runs_step_by_step(op_type):
    """The scan back has one product with R, or two where the reset gate comes first; the weights get theirs later."""
    model, feeds = model_of(op_type, ["y"])
    _, proto = gradients_of(model, feeds, ["x", "w", "r"])
    (function,) = proto.functions
    scans = [node for node in function.node if node.op_type == "Scan"]
    body = next(a.g for a in scans[-1].attribute if a.name == "body")
    products = [node.op_type for node in body.node if node.op_type in ("Gemm", "MatMul")]
    assert len(products) == (2 if op_type == "GRU" else 1)
    assert len(body.node) <= 10
    outside = [node.op_type for node in function.node if node.op_type in ("Gemm", "MatMul")]
    assert len(outside) <= 9


def test_what_nobody_asks_for_is_not_computed():
    model, feeds = model_of("LSTM", ["y"])
    _, all_of_it = gradients_of(model, feeds, ["x", "w", "r"])
    _, data_only = gradients_of(model, feeds, ["x"])
    count = {id(p): sum(n.op_type in ("Gemm", "MatMul") for n in p.functions[0].node) for p in (all_of_it, data_only)}
    assert count[id(data_only)] == count[id(all_of_it)] - 2


def test_an_unknown_activation_is_refused_by_name():
    model, _ = model_of("RNN", ["y"], activations=["Swoosh"])
    with pytest.raises(og.errors.GradientError, match="'Swoosh' has no gradient"):
        og.gradient_model(model, wrt=["x"])
