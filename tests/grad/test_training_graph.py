"""og.training_model: a training step that onnxruntime runs alone."""

import json
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnxruntime as ort
import pytest

from onnxgrad.engine.errors import OptionError, TrainingError
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.grad.losses import MSE, BCEWithLogits, CrossEntropy
from onnxgrad.grad.optimizers import SGD, AdamW
from onnxgrad.grad.parameters import parameters
from onnxgrad.grad.training_graph import training_model
from onnxgrad.importers import load
from onnxgrad.models.finetune.trainer import Trainer
from tests.engine.text_models import model_of

NET = """net (float[N, 2, 4, 4] x) => (float[N, 3] y)
<float[4, 2, 3, 3] w, float[4] scale, float[4] bias, float[4] mean, float[4] var, float[4, 3] v, float[3] b> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)  n = BatchNormalization(c, scale, bias, mean, var)  r = Relu(n)
  p = GlobalAveragePool(r)  f = Flatten(p)  y = Gemm(f, v, b) }"""


def with_random_weights(graph: str, opset: int = 17):
    """The model of a text whose declared values are initializers."""
    proto, rng = model_of(graph, opset, ir_version=9), np.random.default_rng(0)
    for info in proto.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        array = rng.uniform(0.2, 1, shape) if info.name in ("scale", "var") else rng.standard_normal(shape) / 2
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype("f4"), info.name))
    del proto.graph.value_info[:]
    return proto


def checked(*args, **options) -> onnx.ModelProto:
    """The training model, after every check that there is for one."""
    model = training_model(*args, **options)
    verify(model)
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def facts_of(proto: onnx.ModelProto) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(
        next(entry.value for entry in proto.metadata_props if entry.key == "onnxgrad.training")
    )
    return facts


def run_alone(proto: onnx.ModelProto, batches: list[dict[str, np.ndarray]]) -> list[float]:
    """The losses of a loop that knows nothing but onnxruntime, numpy and the names in the metadata."""
    facts = facts_of(proto)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [o.name for o in session.get_outputs()]
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    state = {facts["step"]: np.array(0, np.int64)}
    state.update({slot: np.zeros_like(weights[parameter]) for slot, parameter in facts["slots"].items()})
    losses = []
    for batch in batches:
        got = dict(zip(outputs, session.run(None, {**state, **batch}), strict=True))
        losses.append(float(got[facts["loss"]]))
        state = {name: got[after] for name, after in facts["state"].items()}
    return losses


OPTIMIZERS = [SGD(0.1, momentum=0.9, nesterov=True), AdamW(0.02)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
def test_onnxruntime_alone_makes_the_steps_of_the_trainer(optimizer, rng):
    model = with_random_weights(NET)
    x = rng.standard_normal((6, 8, 2, 4, 4)).astype("f4")
    y = rng.integers(0, 3, (6, 8))
    batches = [{"x": a, "label": b} for a, b in zip(x, y, strict=True)]
    losses = run_alone(checked(model, CrossEntropy(), optimizer), batches)
    trainer = Trainer(model, CrossEntropy(), optimizer, threads=1)
    assert losses == pytest.approx([trainer.train_step(a, b) for a, b in zip(x, y, strict=True)], rel=1e-5)
    assert losses[-1] != losses[0]


def test_the_metadata_names_every_input_and_output():
    proto = checked(with_random_weights(NET), CrossEntropy(), AdamW())
    facts = facts_of(proto)
    assert facts["parameters"] == ["w", "scale", "bias", "v", "b"]
    assert facts["statistics"] == ["mean", "var"]
    assert facts["slots"]["w.mean"] == facts["slots"]["w.variance"] == "w"
    assert facts["state"]["w"] == "w.next"
    named = {*facts["inputs"], *facts["labels"], facts["learning_rate"], *facts["state"]}
    assert named == {value.name for value in proto.graph.input}
    assert {facts["loss"], *facts["state"].values()} == {value.name for value in proto.graph.output}


def test_what_has_a_start_value_is_an_optional_input():
    proto = checked(with_random_weights(NET), CrossEntropy(), AdamW(0.5))
    optional = {t.name for t in proto.graph.initializer} & {v.name for v in proto.graph.input}
    assert optional == {"w", "scale", "bias", "v", "b", "mean", "var", "learning_rate"}
    rate = next(t for t in proto.graph.initializer if t.name == "learning_rate")
    assert onnx.numpy_helper.to_array(rate) == 0.5


PATTERNS = [
    ("*", ["w", "scale", "bias", "v", "b"]),
    ("b*", ["bias", "b"]),
    (["*", "!b*"], ["w", "scale", "v"]),
    (["*", "!*", "v"], ["v"]),
    (["v", "b"], ["v", "b"]),
]


@pytest.mark.parametrize(("trainable", "expected"), PATTERNS, ids=str)
def test_patterns_choose_what_is_trained(trainable, expected):
    proto = checked(with_random_weights(NET), CrossEntropy(), SGD(), trainable)
    facts = facts_of(proto)
    assert facts["parameters"] == expected
    assert set(facts["state"]) == {*expected, "mean", "var", "step"}


@pytest.mark.parametrize("trainable", ["nothing*", ["w", "q"], ["w", "!w"], []])
def test_patterns_that_leave_nothing_are_errors(trainable):
    with pytest.raises(OptionError):
        training_model(with_random_weights(NET), CrossEntropy(), SGD(), trainable)


def test_unused_weights_are_left_out():
    graph = """g (float[N, 2] x) => (float[N, 2] y, float[N, 3] z) <float[2, 2] w, float[2, 3] v> {
        y = MatMul(x, w) z = MatMul(x, v) }"""
    facts = facts_of(checked(with_random_weights(graph), {"y": MSE()}, SGD()))
    assert facts["parameters"] == ["w"]
    with pytest.raises(TrainingError, match="depends on none of the chosen parameters"):
        training_model(with_random_weights(graph), {"y": MSE()}, SGD(), "v")


def test_names_that_the_model_has_already_are_kept_apart():
    graph = """g (float[N, 2] label, float[N, 2] step) => (float[N, 2] loss) <float[2, 2] learning_rate> {
        s = Add(label, step) loss = MatMul(s, learning_rate) }"""
    proto = checked(with_random_weights(graph), MSE(), SGD())
    facts = facts_of(proto)
    assert facts["inputs"] == ["label", "step"] and facts["labels"] == ["label_1"]
    assert (facts["step"], facts["learning_rate"], facts["parameters"]) == (
        "step_1",
        "learning_rate_1",
        ["learning_rate"],
    )
    x = np.ones((1, 2), "f4")
    losses = run_alone(proto, [{"label": x, "step": x, "label_1": x}] * 2)
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("losses", "labels"),
    [
        (MSE(), ["label"]),
        ({"b": BCEWithLogits()}, ["label"]),
        ({"b": BCEWithLogits(), "a": (0.5, MSE())}, ["b.label", "a.label"]),
    ],
)
def test_labels_are_named_for_what_they_judge(losses, labels):
    graph = "g (float[N, 2] x) => (float[N, 2] a, float[N, 2] b) <float[2, 2] w> { a = MatMul(x, w) b = Neg(a) }"
    assert facts_of(checked(with_random_weights(graph), losses, SGD()))["labels"] == labels


@pytest.mark.parametrize(("losses", "message"), [({}, "no loss was given"), ({"q": MSE()}, "no output 'q'")])
def test_losses_that_judge_nothing_are_errors(losses, message):
    graph = "g (float[N, 2] x) => (float[N, 2] a) <float[2, 2] w> { a = MatMul(x, w) }"
    with pytest.raises(OptionError, match=message):
        training_model(with_random_weights(graph), losses, SGD())


def test_the_model_is_not_changed():
    model = load(with_random_weights(NET))
    before = to_proto(model).SerializeToString(deterministic=True)
    training_model(model, CrossEntropy(), AdamW())
    assert to_proto(model).SerializeToString(deterministic=True) == before


def test_weights_of_old_files_that_are_inputs_too_are_parameters():
    proto = with_random_weights("g (float[N, 2] x, float[2, 2] w) => (float[N, 2] y) { y = MatMul(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(2, dtype="f4"), "w"))
    facts = facts_of(checked(proto, MSE(), SGD()))
    assert facts["inputs"] == ["x"] and facts["parameters"] == ["w"]


HELD = [
    ("y = MatMul(x, w)", True),
    ("y = MatMul(w, x)", True),
    ("t = Transpose(w) y = MatMul(x, t)", True),
    ("y = Add(x, w)", True),
    ("y = PRelu(x, w)", True),
    ("q = Cast<to = 10>(w) d = Cast<to = 1>(q) y = MatMul(x, d)", True),
    ("y = Pow(x, w)", False),
    ("y = Max(x, w)", False),
    ("y = Where(c, x, w)", False),
]


@pytest.mark.parametrize(("nodes", "counts"), HELD)
def test_a_tensor_in_the_place_of_a_weight_is_a_parameter(nodes, counts):
    graph = f"g (float[2, 2] x, bool c) => (float[2, 2] y) <float[2, 2] w> {{ {nodes} }}"
    found = [value.name for value in parameters(load(with_random_weights(graph)).graph)]
    assert found == (["w"] if counts else [])


def test_a_scalar_in_arithmetic_is_a_constant_unless_it_is_named():
    graph = "g (float[N, 2] x) => (float[N, 2] y) <float half, float[2, 2] w> { m = MatMul(x, w) y = Mul(m, half) }"
    assert facts_of(checked(with_random_weights(graph), MSE(), SGD()))["parameters"] == ["w"]
    assert facts_of(checked(with_random_weights(graph), MSE(), SGD(), ["half"]))["parameters"] == ["half"]
