"""onnxgrad quantize."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import onnxgrad as og
from onnxgrad.cli.main import app


@pytest.fixture
def folder(tmp_path, rng):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N,64] x) => (float[N,64] y) { y = MatMul(x, w) }'
    )
    weight = rng.standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "in.onnx")
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((16, 64)).astype(np.float32))
    return tmp_path


def run(folder, *arguments):
    files = [folder / "in.onnx", folder / "out.onnx"]
    return CliRunner().invoke(app, ["quantize", *map(str, (*files, *arguments))])


def test_dynamic_shows_the_error_on_random_inputs(folder):
    result = run(folder)
    assert result.exit_code == 0, result.output
    assert "measured on random inputs" in result.output
    assert "MatMulInteger" in {node.op_type for node in og.load(folder / "out.onnx").graph}


def test_static_calibrates_on_data(folder):
    result = run(folder, "--static", "--data", folder / "data.npz", "--json")
    report = json.loads(result.output)
    assert report["errors"][0]["output"] == "y"
    assert 0 < report["errors"][0]["relative"] < 0.05
    assert report["bytes"]["after"] < report["bytes"]["before"]
    assert "DequantizeLinear" in {node.op_type for node in og.load(folder / "out.onnx").graph}


def test_a_larger_error_than_allowed_fails_and_writes_nothing(folder):
    result = run(folder, "--max-error", "1e-9")
    assert result.exit_code == 1
    assert not (folder / "out.onnx").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--static",), "needs --data"), (("--mean", "a"), "no list of numbers"), (("--data", "no.npz"), "no.npz")],
)
def test_mistakes_are_explained(folder, options, words):
    result = run(folder, *options)
    assert result.exit_code == 1
    assert words in result.output
