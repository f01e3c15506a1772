"""onnxgrad inspect."""

import json

import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from onnxgrad.cli.main import app
from onnxgrad.exporters.report import summary
from onnxgrad.importers.onnx import load

MODEL = """<ir_version: 9, opset_import: ["" : 18]>
agraph (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
    h = MatMul (x, w)
    y = Relu (h)
}
"""


@pytest.fixture
def path(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def test_the_text_shows_operators_parameters_work_inputs_and_outputs(path):
    result = invoke(path)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for fact in (
        "MatMul 1",
        "Relu 1",
        "total 2",
        "parameters 8",
        "MACs 8",
        "input x: float",
        "output y: float",
        "[N, 4]",
    ):
        assert fact in words


def test_the_json_holds_the_whole_summary(path):
    report = json.loads(invoke(path, "--json").stdout)
    assert report == json.loads(json.dumps(summary(load(path)).to_dict()))
    assert (report["operators"], report["parameter_count"], report["macs"]) == ({"MatMul": 1, "Relu": 1}, 8, 8)


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04 a zip"])
def test_a_file_that_is_no_model_is_a_clear_error(tmp_path, content):
    (tmp_path / "broken.onnx").write_bytes(content)
    result = invoke(tmp_path / "broken.onnx")
    assert result.exit_code == 1
    assert "broken.onnx" in result.stderr and "Traceback" not in result.stderr and result.stdout == ""


def test_the_graph_is_written_for_graphviz(path):
    result = invoke(path, "--dot", path.with_suffix(".dot"))
    assert result.exit_code == 0, result.output
    assert 'label="MatMul"' in path.with_suffix(".dot").read_text()


def test_a_file_that_cannot_be_written_is_explained(path):
    result = invoke(path, "--dot", path.parent / "nowhere" / "graph.dot")
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_the_parameters_that_patterns_choose_from_are_listed(path):
    assert invoke(path, "--parameters").stdout == "w: float32[4, 2]\n"
    assert json.loads(invoke(path, "--parameters", "--json").stdout) == ["w"]
