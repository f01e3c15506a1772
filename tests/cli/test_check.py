"""onnxgrad check: validity of a file, and agreement of two."""

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from onnxgrad.cli.main import app

HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
ABS = HEADER + "g (float[N,3] x) => (float[N,3] y) { y = Abs(x) }"
MAX = HEADER + "g (float[N,3] x) => (float[N,3] y) { n = Neg(x) y = Max(x, n) }"
RELU = HEADER + "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"
OTHER_NAME = HEADER + "g (float[N,3] x) => (float[N,3] z) { z = Abs(x) }"
LIST = HEADER + "g (float[N,3] x) => (seq(float[N,3]) y) { y = SequenceConstruct(x, x) }"


@pytest.fixture
def save(tmp_path: Path):
    def save(text: str, name: str) -> Path:
        onnx.save(onnx.parser.parse_model(text), tmp_path / name)
        return tmp_path / name

    return save


def run(*arguments: object):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_a_valid_file_runs(save):
    result = run(save(ABS, "a.onnx"), "--input", "x:2,3")
    assert result.exit_code == 0, result.output
    assert "is valid, and ran on 3 inputs" in result.output


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"\x08\x08damaged")
    assert run(path).exit_code == 1


def test_two_files_that_agree(save):
    result = run(save(ABS, "a.onnx"), save(MAX, "b.onnx"), "--input", "x:4,3")
    assert result.exit_code == 0, result.output
    assert "same" in result.output


@pytest.mark.parametrize("other", [RELU, OTHER_NAME], ids=["values", "names"])
def test_two_files_that_differ(save, other):
    assert run(save(ABS, "a.onnx"), save(other, "b.onnx"), "--input", "x:4,3").exit_code == 1


def test_json(save):
    result = run(save(ABS, "a.onnx"), save(RELU, "b.onnx"), "--input", "x:4,3", "--json")
    report = json.loads(result.output)
    assert report["outputs"]["y"]["same"] is False
    assert report["outputs"]["y"]["error"] > 0.1


def test_a_tolerance(save):
    scaled = (
        HEADER + "g (float[N,3] x) => (float[N,3] y) { c = Constant<value=float {1.01}>() a = Abs(x) y = Mul(a, c) }"
    )
    files = save(ABS, "a.onnx"), save(scaled, "b.onnx")
    assert run(*files, "-i", "x:4,3").exit_code == 1
    assert run(*files, "-i", "x:4,3", "--tolerance", 0.02).exit_code == 0


def test_sequences_are_compared(save):
    assert run(save(LIST, "a.onnx"), save(LIST, "b.onnx"), "-i", "x:1,3").exit_code == 0
