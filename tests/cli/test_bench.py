import json

import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

from onnxgrad.cli.main import app

ADD = "g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { s = Add(x, z) y = Sin(s) }"


@pytest.fixture
def path(tmp_path):
    onnx.save(parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {ADD}'), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_bench_gives_both_times_and_their_ratio(path):
    result = invoke("bench", path, "--seconds", 0.1, "--threads", 1, "--provider", "cpu", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["calls"] >= 3 and found["ratio"] > 0
    assert {"mean", "min", "p50", "p90", "p99"} == set(found["raw"]) == set(found["ours"])


def test_bench_writes_a_table(path):
    result = invoke("bench", path, "--seconds", 0.05, "--input", "x:2,3", "--provider", "cpu")
    assert result.exit_code == 0, result.output
    assert "onnxruntime" in result.stdout and "ratio" in result.stdout


def test_run_shows_the_profile(path):
    result = invoke("run", path, "--profile")
    assert result.exit_code == 0, result.output
    assert "Sin" in result.stdout and "share" in result.stdout
    found = json.loads(invoke("run", path, "--profile", "--json").stdout)["profile"]
    assert {node["op_type"] for node in found["nodes"]} == {"Add", "Sin"}
