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
OTHER_INPUT = HEADER + "g (float[N,3] z) => (float[N,3] y) { y = Abs(z) }"
BATCH_MEAN = HEADER + "g (float[N,3] x) => (float[M,3] y) { a = Abs(x) y = ReduceMean<axes = [0]>(a) }"
RANDOM = HEADER + "g (float[N,3] x) => (float[N,3] y) { r = RandomUniformLike(x) y = Add(r, x) }"
ONE_ROW = HEADER + "g (float[N,3] x) => (float[1,3] y) { s = Constant<value_ints = [1,3]>() y = Reshape(x, s) }"
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
    assert report["same"] is False
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


def list_of_one(middle: float) -> str:
    """A sequence of one long tensor, whose text leaves the middle out."""
    return HEADER + (
        "g (float[1] x) => (seq(float[2001]) y) { n = Constant<value_ints = [1000]>() "
        f"z = Expand(x, n) c = Constant<value_float = {middle}>() i = Constant<value_ints = [1]>() "
        "m = Reshape(c, i) all = Concat<axis = 0>(z, m, z) y = SequenceConstruct(all) }"
    )


def test_sequences_are_compared_element_by_element(save):
    files = [save(list_of_one(number), f"{number}.onnx") for number in (1.0, 1.000001, 2.0)]
    assert run(files[0], files[1]).exit_code == 0
    assert run(files[0], files[2]).exit_code == 1


def test_open_dims_are_larger_than_one_where_the_model_takes_that(save):
    result = run(save(ABS, "a.onnx"), save(BATCH_MEAN, "b.onnx"), "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["outputs"]["y"]["type"] == "float32[2, 3] became float32[1, 3]"


def test_a_model_for_one_row_is_run_on_one_row(save):
    assert run(save(ONE_ROW, "a.onnx")).exit_code == 0


def test_models_with_random_outputs_are_refused(save):
    path = save(RANDOM, "a.onnx")
    result = run(path, path)
    assert result.exit_code == 1
    assert "differ from run to run" in result.output


def test_models_with_other_inputs_are_told_apart(save):
    result = run(save(ABS, "a.onnx"), save(OTHER_INPUT, "b.onnx"))
    assert result.exit_code == 1
    assert "The models have other inputs.\n  at: x against z" in result.output
