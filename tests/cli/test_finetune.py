"""onnxgrad finetune: a tiny model and tiny data, end to end."""

import json
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from PIL import Image
from typer.testing import CliRunner

from onnxgrad.cli.main import app
from tests.models.test_sources import TOKENIZER

MLP = """<ir_version: 9, opset_import: ["": 15]>
mlp (float[N, 4] x) => (float[N, 3] y) <float[4, 8] w1, float[8] b1, float[8, 3] w2, float[3] b2>
{ h = MatMul(x, w1)  s = Add(h, b1)  r = Relu(s)  y = Gemm(r, w2, b2) }"""

IMAGES = """<ir_version: 9, opset_import: ["": 15]>
net (float[N, 3, H, W] x) => (float[N, 4] y) <float[6, 3, 3, 3] w, float[6, 4] v>
{ c = Conv(x, w)  r = Relu(c)  p = GlobalAveragePool(r)  f = Flatten(p)  y = MatMul(f, v) }"""

TEXTS = """<ir_version: 9, opset_import: ["": 15]>
net (int64[N, T] input_ids, int64[N, T] attention_mask) => (float[N, 6] y) <float[5, 6] table>
{ e = Gather(table, input_ids)  m = Cast<to = 1>(attention_mask)  a = Constant<value = int64[1] {2}>()
  k = Unsqueeze(m, a)  w = Mul(e, k)  y = ReduceMean<axes = [1], keepdims = 0>(w) }"""


@pytest.fixture
def save(tmp_path):
    """Write the model of a text, with random weights, to in.onnx."""

    def save(text: str, **options: Any):
        proto, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
        for info in proto.graph.value_info:
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            proto.graph.initializer.append(
                onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), info.name)
            )
        del proto.graph.value_info[:]
        onnx.save(proto, tmp_path / "in.onnx", **options)
        return tmp_path / "in.onnx"

    return save


@pytest.fixture
def blobs(tmp_path, rng):
    """Three clouds of points, as .npz."""
    y = rng.integers(0, 3, 200)
    x = (rng.standard_normal((200, 4)) * 0.4 + np.eye(4)[y] * 2).astype("f4")
    np.savez(tmp_path / "d.npz", x=x, label=y)
    return tmp_path / "d.npz"


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["finetune", *map(str, arguments), "--threads", "1"])


def test_a_model_learns_from_arrays(save, blobs, tmp_path):
    out = tmp_path / "out.onnx"
    result = invoke(save(MLP), out, "--data", blobs, "--epochs", 8, "--lr", 0.1, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["after"]["accuracy"] > 0.9 and report["after"]["loss"] < report["before"]["loss"]
    assert len(report["losses"]) == 8 * 6 and report["output"] == str(out) and report["classes"] == []
    onnx.checker.check_model(str(out), full_check=True)
    assert [n.op_type for n in onnx.load(out).graph.node] == ["MatMul", "Add", "Relu", "Gemm"]


def test_the_result_is_a_table_without_json(save, blobs, tmp_path):
    result = invoke(save(MLP), tmp_path / "out.onnx", "--data", blobs, "--epochs", 1)
    assert result.exit_code == 0
    assert "held-out" in result.stdout and "accuracy" in result.stdout and "out.onnx" in result.stdout


def test_a_folder_of_images_gets_a_head_for_its_classes(save, tmp_path):
    for index in range(8):
        for name, color in (("red", (250, 10 * index, 0)), ("blue", (0, 10 * index, 250))):
            path = tmp_path / "photos" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 12), color).save(path)
    result = invoke(
        *(save(IMAGES), tmp_path / "out.onnx", "--data", tmp_path / "photos", "--head", "replace", "--size", "8,6"),
        *("--validation", tmp_path / "photos", "--epochs", 30, "--batch-size", 8, "--lr", 0.05),
        *("--plot", tmp_path / "loss.png", "--json"),
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["classes"] == ["blue", "red"] and report["after"]["accuracy"] == 1
    model = onnx.load(tmp_path / "out.onnx")
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim][1] == 2
    assert (tmp_path / "loss.png").stat().st_size > 1000


def test_a_table_of_texts_trains_an_encoder_with_a_new_head(save, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tmp_path / "t.tsv").write_text("grain\tcorn corn up\nenergy\toil up\n" * 10)
    result = invoke(
        *(save(TEXTS), tmp_path / "out.onnx", "--data", tmp_path / "t.tsv", "--head", "add", "--validation", 0.2),
        *("--tokenizer", tmp_path / "tokenizer.json", "--tokens", 4, "--epochs", 40, "--lr", 0.05, "--json"),
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["classes"] == ["energy", "grain"] and report["after"]["accuracy"] == 1


def test_a_checkpoint_is_written_and_taken_up_again(save, blobs, tmp_path):
    model, state = save(MLP), tmp_path / "run.safetensors"
    arguments = [tmp_path / "out.onnx", "--data", blobs, "--checkpoint", state, "--lr", 0.02, "--json"]
    first = json.loads(invoke(model, *arguments).stdout)
    second = json.loads(invoke(model, *arguments).stdout)
    assert second["before"] == pytest.approx(first["after"])


@pytest.mark.parametrize(
    ("option", "choices"),
    [("--optimizer", ["adamw", "sgd", "momentum"]), ("--schedule", ["constant", "linear", "cosine"])],
)
def test_every_choice_that_is_offered_works(save, blobs, tmp_path, option, choices):
    losses = set()
    for choice in choices:
        result = invoke(save(MLP), tmp_path / "out.onnx", "--data", blobs, option, choice, "--epochs", 2, "--json")
        assert result.exit_code == 0, result.output
        losses.add(json.loads(result.stdout)["losses"][-1])
    assert len(losses) == len(choices)


@pytest.mark.parametrize("loss", ["mse", "l1", "bce"])
def test_losses_take_labels_like_the_output(save, tmp_path, rng, loss):
    np.savez(tmp_path / "d.npz", x=rng.standard_normal((40, 4)).astype("f4"), y=rng.random((40, 3)))
    result = invoke(save(MLP), tmp_path / "out.onnx", "--data", tmp_path / "d.npz", "--loss", loss, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["after"]["loss"] < report["before"]["loss"]


def test_a_model_without_parameters_is_told_so(save, blobs, tmp_path):
    plain = '<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }'
    assert "the model has no parameter to train" in invoke(save(plain), tmp_path / "o.onnx", "--data", blobs).stderr


def test_without_validation_nothing_is_held_out(save, blobs, tmp_path):
    report = json.loads(invoke(save(MLP), tmp_path / "o.onnx", "--data", blobs, "--validation", 0, "--json").stdout)
    assert report["before"] == report["after"] == {} and len(report["losses"]) == 3 * 7


def broken(tmp_path, save, blobs, how):
    """Arguments that cannot work, each in its own way."""
    model, options = save(MLP), []
    if how == "missing array":
        np.savez(tmp_path / "d.npz", x=np.zeros((4, 4), "f4"))
    elif how == "label out of range":
        np.savez(tmp_path / "d.npz", x=np.zeros((4, 4), "f4"), label=np.array([0, 1, 2, 3]))
    elif how == "damaged data":
        (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 no more")
    elif how == "damaged model":
        model.write_bytes(model.read_bytes()[:-40])
    elif how == "missing external data":
        model = save(MLP, save_as_external_data=True, location="weights.bin", size_threshold=0)
        (tmp_path / "weights.bin").unlink()
    elif how == "not finite":
        np.savez(tmp_path / "d.npz", x=np.full((40, 4), np.nan, "f4"), label=np.zeros(40, int))
        options = ["--validation", "0"]
    else:
        options = how.split()
    return [model, tmp_path / "out.onnx", "--data", blobs, *options]


BROKEN = [
    ("missing array", "holds no array for 'label'"),
    ("label out of range", "label 3 is out of range"),
    ("damaged data", "cannot be read as .npz"),
    ("damaged model", "in.onnx"),
    ("missing external data", "weights.bin"),
    ("not finite", "the loss is nan at step 1"),
    ("--trainable q*", "'q*' matches no parameter"),
    ("--optimizer adam", "there is no optimizer 'adam'"),
    ("--schedule step", "there is no schedule 'step'"),
    ("--validation 1.5", "a share from 0 to 1"),
    ("--validation none.npz", "none.npz"),
    ("--size 8", "must be 2 whole numbers"),
    ("--size 8,8", "whose first input is an image"),
    ("--lr -1", "learning_rate must be at least 0"),
    ("--head replace --head-output q", "no output 'q'"),
    ("--plot none/loss.png", "does not exist.\n  at: none/loss.png"),
    ("--plot .", "The path is a folder.\n  at: .\n"),
    ("--plot /dev/null", "is no file"),
    ("--checkpoint none/run.safetensors", "does not exist.\n  at: none/run.safetensors"),
]


@pytest.mark.parametrize(("how", "message"), BROKEN, ids=[case[0] for case in BROKEN])
def test_what_cannot_work_is_one_clear_error(save, blobs, tmp_path, how, message):
    result = invoke(*broken(tmp_path, save, blobs, how))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ") or "\nerror: " in result.stderr
    assert message in result.stderr and "Traceback" not in result.output
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [("d.csv", "no data that is understood"), ("t.tsv", "texts need a tokenizer"), ("folder", "no image [N, C, H, W]")],
)
def test_data_of_another_kind_is_an_error(save, tmp_path, name, message):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    else:
        path.write_text("a\tb\n")
    result = invoke(save(MLP), tmp_path / "out.onnx", "--data", path)
    assert result.exit_code == 1 and message in result.stderr


def test_images_of_open_size_need_one(save, tmp_path):
    (tmp_path / "photos").mkdir()
    result = invoke(save(IMAGES), tmp_path / "out.onnx", "--data", tmp_path / "photos")
    assert result.exit_code == 1 and "--size HEIGHT,WIDTH" in result.stderr
