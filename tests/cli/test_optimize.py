"""onnxgrad optimize."""

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import onnxgrad as og
from onnxgrad.cli.main import app

MODEL = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N,3] x) => (float[N,3] y) { a = Identity(x) b = '
    "Cast<to=1>(a) y = Abs(b) }"
)


@pytest.fixture
def source(tmp_path: Path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def run(*arguments):
    return CliRunner().invoke(app, ["optimize", *map(str, arguments)])


def test_writes_a_smaller_model_and_shows_both(source):
    target = source.with_name("out.onnx")
    result = run(source, target, "--check", 2, "--input-shape", "x:5,?")
    assert result.exit_code == 0, result.output
    written = og.load(target)
    assert [node.op_type for node in written.graph] == ["Abs"]
    assert str(written.graph.inputs[0].shape) == "[5,3]"
    for words in ("before", "nodes", "remove_identity", "checked on 2 random inputs"):
        assert words in result.output


def test_json(source):
    result = run(source, source.with_name("out.onnx"), "--json", "--disable", "remove_cast")
    report = json.loads(result.output)
    assert report["before"]["nodes"] == 3
    assert report["after"]["operators"] == {"Abs": 1, "Cast": 1}
    assert report["optimization"]["disabled"] == ["remove_cast"]


def test_a_page_about_it(source):
    page = source.with_name("report.html")
    result = run(source, source.with_name("out.onnx"), "--report", page)
    assert result.exit_code == 0, result.output
    assert "remove_identity" in page.read_text()


def test_raises_the_opset(source):
    assert run(source, source.with_name("out.onnx"), "--opset", 20).exit_code == 0
    assert og.load(source.with_name("out.onnx")).opset_imports[""] == 20


def test_lists_the_passes():
    lines = run("--list-passes").output.splitlines()
    assert any(line.startswith("remove_identity ") and "Identity(x) -> x" in line for line in lines)
    assert json.loads(run("--list-passes", "--json").output)["remove_cast"].startswith("Cast(x) -> x")


def test_images_of_bytes(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4,4] x) => (float[N,3,4,4] y) { y = Abs(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    options = ("--fuse-preprocess", "x:nhwc", "--mean", "0.5,0.4,0.3", "--std", "0.2", "--check", 1)
    result = run(tmp_path / "in.onnx", tmp_path / "out.onnx", *options)
    assert result.exit_code == 0, result.output
    assert str(og.load(tmp_path / "out.onnx").graph.inputs[0]) == '%"x"<UINT8,[N,4,4,3]>'


ERRORS = [
    (("--mean", "1"), "are for --fuse-preprocess"),
    (("--fuse-preprocess", "NHWC", "--mean", "a"), "no list of numbers"),
    (("--layout", "nchw88"), "no meaning"),
    (("--weight-preprocess",), "no meaning"),
    (("--disable", "remove_casts"), "did you mean remove_cast"),
    (("--input-shape", "z:1,3"), "no input 'z'"),
    (("--input-shape", "x"), "is not a shape"),
    (("--input-shape", "x:1,,3"), "is not a shape"),
]


@pytest.mark.parametrize(("options", "message"), ERRORS)
def test_mistakes_are_explained(source, options, message):
    result = run(source, source.with_name("out.onnx"), *options)
    assert result.exit_code == 1
    assert message in result.output
    assert not source.with_name("out.onnx").exists()


def test_two_files_are_needed(source):
    result = run(source)
    assert result.exit_code == 1
    assert "Two files are needed" in result.output
