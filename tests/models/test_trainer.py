"""Training small models end to end."""

import numpy as np
import numpy.typing as npt
import onnx
import onnx.checker
import onnxruntime as ort
import pytest

from onnxgrad.engine.errors import InputError, OptionError, ShapeError, TrainingError
from onnxgrad.exporters import to_proto
from onnxgrad.grad.losses import MSE, BCEWithLogits, CrossEntropy
from onnxgrad.grad.optimizers import SGD, AdamW
from onnxgrad.models.finetune.schedule import constant, cosine, linear
from onnxgrad.models.finetune.trainer import Trainer

MLP = """<ir_version: 9, opset_import: ["": 15]>
mlp (float[N, 4] x) => (float[N, 3] y)
<float[4, 8] w1, float[8] b1, float[8, 3] w2, float[3] b2>
{ h = MatMul(x, w1)  s = Add(h, b1)  r = Relu(s)  l = Gemm(r, w2, b2)  y = Softmax<axis = 1>(l) }"""

NORMED = """<ir_version: 9, opset_import: ["": 15]>
net (float[N, 2, 4, 4] x) => (float[N, 3] y)
<float[3, 2, 3, 3] w, float[3] scale, float[3] bias, float[3] mean, float[3] var, float ratio>
{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  n = BatchNormalization(c, scale, bias, mean, var)  r = Relu(n)
  d = Dropout(r, ratio)  p = GlobalAveragePool(d)  y = Flatten(p) }"""


def model_of(text: str, **weights: npt.ArrayLike) -> onnx.ModelProto:
    """The model of `text` whose initializers hold random numbers, or `weights`."""
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for info in list(proto.graph.value_info):
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        value = weights.get(info.name, rng.standard_normal(shape) * 0.5)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value, "f4"), info.name))
    del proto.graph.value_info[:]
    return proto


def blobs(rng, count=300):
    """Three clouds of points in four dimensions."""
    y = rng.integers(0, 3, count)
    return (rng.standard_normal((count, 4)) * 0.5 + np.eye(4)[y] * 2).astype("f4"), y


def trainer_of(text=MLP, loss=None, optimizer=None, trainable="*", **weights):
    return Trainer(model_of(text, **weights), loss or CrossEntropy(), optimizer or AdamW(0.02), trainable, threads=1)


def test_fit_learns_and_the_exported_file_agrees(rng, tmp_path):
    x, y = blobs(rng)
    trainer = trainer_of()
    before = trainer.evaluate((x, y))
    history = trainer.fit((x, y), epochs=5, batch_size=32, validation=(x, y), progress=False)
    after = trainer.evaluate((x, y))
    assert after["accuracy"] > 0.97 > before["accuracy"] and after["loss"] < 0.2 * before["loss"]
    assert len(history.losses) == 50 and history.epochs[-1].validation == pytest.approx(after)
    trainer.export(tmp_path / "tuned.onnx")
    onnx.checker.check_model(str(tmp_path / "tuned.onnx"), full_check=True)
    session = ort.InferenceSession(str(tmp_path / "tuned.onnx"), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], trainer.predict(x)["y"], atol=1e-6)


def test_loss_is_taken_before_the_softmax(rng):
    x, y = blobs(rng, 8)
    model = model_of(MLP)
    logits = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    want = -np.log(logits[np.arange(8), y]).mean()
    assert trainer_of().train_step(x, y) == pytest.approx(want, rel=1e-5)


def test_export_holds_the_nodes_opset_and_names_of_the_model(rng):
    model = model_of(NORMED, var=np.ones(3), ratio=np.array(0.3))
    trainer = Trainer(model, CrossEntropy(), SGD(0.1), threads=1)
    trainer.train_step(rng.standard_normal((6, 2, 4, 4)).astype("f4"), np.array([0, 1, 2, 0, 1, 2]))
    exported = to_proto(trainer.export())
    assert exported.opset_import[0].version == 15
    assert [node.op_type for node in exported.graph.node] == [node.op_type for node in model.graph.node]
    assert not any(a.name == "training_mode" and a.i for node in exported.graph.node for a in node.attribute)
    onnx.checker.check_model(exported, full_check=True)


def test_running_statistics_follow_the_batches(rng):
    x = (rng.standard_normal((16, 2, 4, 4)) * 3 + 5).astype("f4")
    trainer = trainer_of(NORMED, MSE(), SGD(0.0), mean=np.zeros(3), var=np.ones(3), ratio=np.float32(0))
    w = trainer.weights()["w"]
    session = ort.InferenceSession(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 15]> g (float[N,2,4,4] x, float[3,2,3,3] w) => (float[N,3,4,4] c)'
            "{ c = Conv<pads = [1, 1, 1, 1]>(x, w) }"
        ).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    c = session.run(None, {"x": x, "w": w})[0]
    trainer.train_step(x, np.zeros((16, 3), "f4"))
    after = trainer.weights()
    assert np.allclose(after["mean"], 0.1 * c.mean((0, 2, 3)), rtol=1e-4)
    assert np.allclose(after["var"], 0.9 + 0.1 * c.var((0, 2, 3)), rtol=1e-4)


def test_dropout_acts_in_steps_and_not_in_evaluation(rng):
    x, y = rng.standard_normal((32, 2, 4, 4)).astype("f4"), np.zeros((32, 3), "f4")
    trainer = trainer_of(NORMED, MSE(), SGD(0.0), "w", mean=np.zeros(3), var=np.ones(3), ratio=np.float32(0.5))
    assert trainer.train_step(x, y) != trainer.train_step(x, y)
    assert trainer.evaluate((x, y)) == trainer.evaluate((x, y))


def test_trainable_patterns_choose_parameters():
    assert trainer_of(trainable=["*", "!*1"]).parameters == ("w2", "b2")
    assert trainer_of(trainable="w*").parameters == ("w1", "w2")
    with pytest.raises(OptionError, match=r"matches no parameter(.|\n)*did you mean 'w1'"):
        trainer_of(trainable=["w1", "w_1"])
    with pytest.raises(OptionError, match="nothing is left"):
        trainer_of(trainable=["w1", "!w1"])


def test_frozen_parameters_stay(rng):
    x, y = blobs(rng, 16)
    trainer = trainer_of(trainable="w2")
    trainer.train_step(x, y)
    old = {t.name: onnx.numpy_helper.to_array(t) for t in model_of(MLP).graph.initializer}
    new = {name: v.const_value.numpy() for name, v in trainer.export().graph.initializers.items()}
    assert [name for name in old if not np.array_equal(old[name], new[name])] == ["w2"]


def test_a_checkpoint_goes_on_where_the_run_was(rng, tmp_path):
    x, y = blobs(rng, 64)
    one, other = trainer_of(), trainer_of()
    for _ in range(3):
        one.train_step(x, y)
    one.save(tmp_path / "run.safetensors")
    other.load(tmp_path / "run.safetensors")
    assert other.steps == 3
    assert [one.train_step(x, y) for _ in range(3)] == [other.train_step(x, y) for _ in range(3)]


def test_damaged_and_foreign_checkpoints_are_errors(tmp_path):
    path = tmp_path / "run.safetensors"
    trainer = trainer_of()
    with pytest.raises(TrainingError, match="there is no checkpoint"):
        trainer.load(path)
    trainer.save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(TrainingError, match="damaged"):
        trainer.load(path)
    trainer_of(trainable="w1").save(path)
    with pytest.raises(TrainingError, match="another model, optimizer or choice"):
        trainer.load(path)
    with pytest.raises(TrainingError, match="folder of the checkpoint"):
        trainer.save(tmp_path / "none" / "run.safetensors")


def test_a_loss_that_is_not_finite_is_an_error_and_changes_nothing(rng):
    x, y = blobs(rng, 8)
    trainer = trainer_of()
    before = trainer.weights()
    x[3, 2] = np.nan
    with pytest.raises(TrainingError, match="the loss is nan at step 1"):
        trainer.train_step(x, y)
    assert all(np.array_equal(before[name], value) for name, value in trainer.weights().items())
    assert trainer.steps == 0


def test_labels_and_inputs_that_do_not_fit_are_errors(rng):
    x, y = blobs(rng, 8)
    trainer = trainer_of()
    with pytest.raises(ShapeError, match="label 3 is out of range"):
        trainer.train_step(x, np.full(8, 3))
    with pytest.raises(InputError, match="whole numbers"):
        trainer.train_step(x, y.astype("f4"))
    with pytest.raises(InputError, match="same number of examples"):
        trainer.fit((x, y[:5]), progress=False)
    with pytest.raises(InputError, match="1 input or label arrays for 2"):
        trainer.train_step(x)


def test_several_losses_add_up(rng):
    text = """<ir_version: 9, opset_import: ["": 15]>
    two (float[N, 4] x) => (float[N, 3] a, float[N, 2] b) <float[4, 3] v, float[4, 2] w>
    { a = MatMul(x, v)  b = MatMul(x, w) }"""
    x, y = blobs(rng, 8)
    t = rng.integers(0, 2, (8, 2)).astype("f4")
    one = trainer_of(text, {"a": CrossEntropy()}, trainable="v").train_step(x, y)
    two = trainer_of(text, {"b": BCEWithLogits()}, trainable="w").train_step(x, t)
    both = trainer_of(text, {"a": (0.4, CrossEntropy()), "b": (0.6, BCEWithLogits())})
    assert both.label_names == ("a.label", "b.label")
    assert both.train_step(x, y, t) == pytest.approx(0.4 * one + 0.6 * two, rel=1e-5)


TWO = """<ir_version: 9, opset_import: ["": 15]>
    two (float[N, 4] x) => (float[N, 3] a, float[N, 2] b) <float[4, 3] v, float[4, 2] w>
    { a = MatMul(x, v)  m = MatMul(x, w)  b = Sigmoid(m) }"""


def test_accuracy_is_that_of_the_output_that_the_loss_judges(rng):
    x, _ = blobs(rng, 40)
    trainer = trainer_of(TWO, {"b": BCEWithLogits()}, trainable="w")
    labels = (trainer.predict(x)["b"] > 0.5).astype("f4")
    assert 0 < labels.mean() < 1 and trainer.evaluate((x, labels), batch_size=16)["accuracy"] == 1
    assert trainer.evaluate((x, 1 - labels), batch_size=16)["accuracy"] == 0


def test_labels_that_are_ignored_do_not_count_for_accuracy(rng):
    x, _ = blobs(rng, 40)
    trainer = trainer_of(loss=CrossEntropy(ignore_index=-1))
    right = trainer.predict(x)["y"].argmax(1)
    labels = np.where(np.arange(40) < 30, -1, right)
    labels[39] = (right[39] + 1) % 3
    assert trainer.evaluate((x, labels), batch_size=16)["accuracy"] == pytest.approx(0.9)


def test_a_checkpoint_of_another_shape_changes_nothing(rng, tmp_path):
    wide = trainer_of(
        MLP.replace("float[4, 8] w1, float[8] b1, float[8, 3]", "float[4, 9] w1, float[9] b1, float[9, 3]")
    )
    wide.save(tmp_path / "wide.safetensors")
    trainer = trainer_of()
    before = trainer.weights()
    with pytest.raises(TrainingError, match="does not fit the model"):
        trainer.load(tmp_path / "wide.safetensors")
    assert all(np.array_equal(before[name], value) for name, value in trainer.weights().items())


def test_weights_in_constant_nodes_are_parameters(rng):
    text = """<ir_version: 9, opset_import: ["": 15]>
    g (float[N, 2] x) => (float[N, 2] y) { w = Constant<value = float[2, 2] {1., 2., 3., 4.}>()
      half = Constant<value_float = 0.5>()  m = MatMul(x, w)  y = Mul(m, half) }"""
    trainer = trainer_of(text, MSE(), SGD(0.1))
    assert trainer.parameters == ("w",)
    trainer.train_step(np.ones((4, 2), "f4"), np.zeros((4, 2), "f4"))
    exported = trainer.export()
    assert [node.op_type for node in exported.graph] == ["Constant", "Constant", "MatMul", "Mul"]
    assert not np.allclose(exported.graph[0].attributes["value"].as_tensor().numpy(), [[1, 2], [3, 4]])


def test_equal_parameters_that_an_exporter_wrote_once_are_trained_apart(rng):
    text = """<ir_version: 9, opset_import: ["": 15]>
    g (float[N, 2] x) => (float[N, 2] y) <float[2] a, float[2, 2] w>
    { b = Identity(a)  s = Mul(x, a)  m = MatMul(s, w)  y = Mul(m, b) }"""
    trainer = trainer_of(text, MSE(), SGD(0.1), a=np.ones(2))
    assert trainer.parameters == ("a", "w", "b")
    x = rng.standard_normal((4, 2)).astype("f4")
    trainer.train_step(x, np.zeros((4, 2), "f4"))
    assert not np.allclose(trainer.weights()["a"], trainer.weights()["b"])
    exported = to_proto(trainer.export()).SerializeToString()
    session = ort.InferenceSession(exported, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], trainer.predict(x)["y"], atol=1e-6)


def test_schedules_rise_and_fall():
    assert [constant(2)(s, 10) for s in (0, 1, 2, 9)] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert [linear(end=0.5)(s, 10) for s in (0, 5, 10)] == pytest.approx([1, 0.75, 0.5])
    assert [cosine()(s, 10) for s in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    assert cosine(warmup=0.2)(0, 10) == pytest.approx(1 / 3)


def test_history_is_drawn(rng, tmp_path):
    x, y = blobs(rng, 64)
    history = trainer_of().fit((x, y), epochs=2, validation=(x, y), progress=False)
    history.plot(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
