"""onnxgrad optimize: other inputs and outputs, another precision."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import onnxgrad as og
from onnxgrad.cli.main import app

MODEL = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3] x, float z, float[3] v) => (float[1,3] y, float[1,3] w) '
    "{ a = Mul(x, z) b = Add(a, v) y = Abs(b) w = Neg(b) }"
)


@pytest.fixture
def source(tmp_path: Path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def run(source, *arguments):
    target = source.with_name("out.onnx")
    result = CliRunner().invoke(app, ["optimize", str(source), str(target), *map(str, arguments)])
    return result, target


def test_inputs_and_outputs_change_before_the_model_is_optimized(source):
    np.save(source.with_name("v.npy"), np.ones(3, np.float32))
    result, target = run(
        source,
        *("--batch", "N", "--constant", "z=2", "--constant", f"v={source.with_name('v.npy')}", "--check", 1),
        *("--add-output", "b", "--remove-output", "w", "--rename", "x=image"),
    )
    assert result.exit_code == 0, result.output
    model = og.load(target)
    assert [value.name for value in model.graph.inputs] == ["image"]
    assert [value.name for value in model.graph.outputs] == ["y", "b"]
    found = og.compile(model)(image=np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(found["b"], np.full((2, 3), 3, np.float32))


def test_the_error_of_a_lower_precision_is_shown(source):
    result, target = run(source, "--precision", "f16_io_comp", "--check", 1, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)["optimization"]
    assert report["hits"]["lower_precision"] == 4
    assert set(report["errors"]) == {"y", "w"} and report["errors"]["y"] < 1e-2
    assert str(og.load(target).graph.inputs[0].dtype) == "FLOAT"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--constant", "z", "NAME=VALUE"),
        ("--constant", "z=two", "no number"),
        ("--constant", "z=missing.npy", "cannot be read"),
        ("--rename", "q=r", "no input or output 'q'"),
        ("--precision", "half", "no precision 'half'"),
    ],
)
def test_what_cannot_be_is_an_error(source, option, value, text):
    result, target = run(source, option, value)
    assert result.exit_code != 0
    assert text in result.output or text in str(result.exception)
    assert not target.exists()
