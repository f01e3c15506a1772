"""replace_head and add_head: a new last layer on a model that somebody else made."""

import numpy as np
import onnx
import onnx.checker
import pytest

from onnxgrad.engine.errors import ModelError, OptionError
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.importers import load
from onnxgrad.models import add_head, head_of, replace_head
from tests.engine.text_models import model_of
from tests.grad.checks import run_in_onnxruntime

HEADS = {
    "Gemm": ("y = Gemm(h, w, b)", "float[8, 3] w, float[3] b"),
    "Gemm, transposed": ("y = Gemm<transB = 1>(h, w, b)", "float[3, 8] w, float[3] b"),
    "Gemm without bias": ("y = Gemm(h, w)", "float[8, 3] w"),
    "MatMul": ("y = MatMul(h, w)", "float[8, 3] w"),
    "MatMul, Add, Softmax": ("m = MatMul(h, w) a = Add(m, b) y = Softmax(a)", "float[8, 3] w, float[3] b"),
    "Add the other way": ("m = MatMul(h, w) a = Add(b, m) y = Sigmoid(a)", "float[8, 3] w, float[3] b"),
    "Transpose of the weight": ("t = Transpose(w) m = MatMul(h, t) y = Add(m, b)", "float[3, 8] w, float[3] b"),
    "Dropout and Identity after": ("m = Gemm(h, w, b) d = Dropout(m) y = Identity(d)", "float[8, 3] w, float[3] b"),
}


def model(nodes: str, weights: str, outputs: str = "float[N, 3] y", given: str = "float[N, 4] x"):
    """A hidden layer of 8 features, then `nodes`."""
    text = f"g ({given}) => ({outputs}) <float[4, 8] hidden, {weights}> {{ f = MatMul(x, hidden) h = Relu(f) {nodes} }}"
    proto, rng = model_of(text, 17, ir_version=9), np.random.default_rng(0)
    for info in proto.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), info.name))
    del proto.graph.value_info[:]
    return proto


def checked(result) -> onnx.ModelProto:
    verify(result)
    proto = to_proto(result)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    normal: np.ndarray = e / e.sum(axis=1, keepdims=True)
    return normal


AFTER = {"MatMul, Add, Softmax": softmax, "Add the other way": lambda x: 1 / (1 + np.exp(-x))}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_replaced_and_what_follows_it_stays(name, rng):
    proto = model(*HEADS[name])
    result = replace_head(proto, classes=5)
    new = checked(result)
    assert [v.name for v in new.graph.output] == ["y"]
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in new.graph.initializer}
    assert set(weights) >= {"hidden"} and not {"w", "b"} & set(weights), "the old weights are gone"
    head = head_of(result)
    assert head is not None and head.output == "y"
    weight, bias = (weights[parameter] for parameter in head.parameters)
    assert weight.shape == (8, 5) and bias.shape == (5,)
    assert 0.5 / np.sqrt(8) < np.abs(weight).max() <= 1 / np.sqrt(8)
    x = rng.standard_normal((6, 4)).astype("f4")
    logits = np.maximum(x @ weights["hidden"], 0) @ weight + bias
    got = run_in_onnxruntime(new, {"x": x})["y"]
    assert np.allclose(got, AFTER.get(name, lambda v: v)(logits), atol=1e-5)


def test_the_output_declares_the_new_number_of_classes():
    result = replace_head(model(*HEADS["MatMul, Add, Softmax"]), classes=7)
    assert result.graph.outputs[0].shape is not None and list(result.graph.outputs[0].shape)[1] == 7


def test_what_was_replaced_is_said(caplog):
    with caplog.at_level("INFO", "onnxgrad"):
        result = replace_head(model(*HEADS["Gemm"]), classes=7)
    assert "Gemm(h: float32[N, 8], w: float32[8, 3]" in str(head_of(result))
    assert "made 3 logits for output 'y'; it now makes 7" in caplog.text


def test_a_seed_fixes_the_new_weights():
    first, same, other = (
        to_proto(replace_head(model(*HEADS["Gemm"]), 5, seed=s)).SerializeToString() for s in (1, 1, 2)
    )
    assert first == same != other


def test_the_argument_is_not_changed():
    given = load(model(*HEADS["Gemm"]))
    before = to_proto(given).SerializeToString(deterministic=True)
    replace_head(given, 5)
    add_head(given, 5)
    assert to_proto(given).SerializeToString(deterministic=True) == before


def test_an_output_can_be_chosen():
    two = model("a = MatMul(h, v) y = MatMul(h, w)", "float[8, 3] w, float[8, 2] v", "float[N, 2] a, float[N, 3] y")
    new = checked(replace_head(two, 5, output="y"))
    got = run_in_onnxruntime(new, {"x": np.ones((1, 4), "f4")})
    assert got["a"].shape == (1, 2) and got["y"].shape == (1, 5)


def test_logits_that_are_an_output_themselves_change_too():
    both = model("l = Gemm(h, w, b) y = Softmax(l)", HEADS["Gemm"][1], "float[N, 3] l, float[N, 3] y")
    new = checked(replace_head(both, 5, output="y"))
    got = run_in_onnxruntime(new, {"x": np.ones((2, 4), "f4")})
    assert got["l"].shape == got["y"].shape == (2, 5)
    assert np.allclose(softmax(got["l"]), got["y"], atol=1e-6)


def test_a_head_over_tokens_keeps_its_axes():
    proto = model(
        "m = MatMul(h, w) y = Add(m, b)", HEADS["MatMul, Add, Softmax"][1], "float[N, T, 3] y", "float[N, T, 4] x"
    )
    got = run_in_onnxruntime(checked(replace_head(proto, 5)), {"x": np.ones((2, 7, 4), "f4")})
    assert got["y"].shape == (2, 7, 5)


NO_HEAD = [
    ("an activation", "y = Relu(h)", "float[8, 3] w", "float[N, 8] y"),
    ("a residual", "m = MatMul(h, w) y = Add(m, h)", "float[8, 8] w", "float[N, 8] y"),
    ("a computed matrix", "t = Transpose(h) y = MatMul(h, t)", "float[8, 3] w", "float[N, N] y"),
]


@pytest.mark.parametrize("case", NO_HEAD, ids=[case[0] for case in NO_HEAD])
def test_where_there_is_no_head_the_error_names_what_is_there(case):
    with pytest.raises(ModelError, match=r"no last layer is found behind the output 'y'(.|\n)*add_head"):
        replace_head(model(*case[1:]), 5)


def test_impossible_requests_are_errors():
    proto = model(*HEADS["Gemm"])
    with pytest.raises(OptionError, match="at least one class, not 0"):
        replace_head(proto, 0)
    with pytest.raises(OptionError, match=r"no output 'q'(.|\n)*y"):
        replace_head(proto, 5, output="q")


def test_a_head_is_added_on_features(rng):
    proto = model("r = Neg(h)", "float[1] w", "float[N, 8] h, float[N, 8] r")
    result = add_head(proto, classes=5, output="h")
    new = checked(result)
    assert [v.name for v in new.graph.output] == ["logits"]
    assert "Neg" not in {node.op_type for node in new.graph.node}, "what only served other outputs is gone"
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in new.graph.initializer}
    x = rng.standard_normal((3, 4)).astype("f4")
    want = np.maximum(x @ weights["hidden"], 0) @ weights["head.weight"] + weights["head.bias"]
    assert np.allclose(run_in_onnxruntime(new, {"x": x})["logits"], want, atol=1e-5)
    assert "a linear layer 8 -> 5 on the output 'h'" in str(head_of(result))


def test_features_must_be_a_matrix_of_known_width():
    proto = model("y = Unsqueeze(h, a)", "float[1] w", "float[N, 1, 8] y", "float[N, 4] x, int64[1] a")
    with pytest.raises(ModelError, match=r"features of shape \[N, D\](.|\n)*y: float32\["):
        add_head(proto, 5)
