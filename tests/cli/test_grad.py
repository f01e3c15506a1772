"""onnxgrad grad."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import onnxgrad as og
from onnxgrad.cli.main import app

MODEL = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w>
{ y = MatMul(x, w) }"""


@pytest.fixture
def source(tmp_path):
    proto = onnx.parser.parse_model(MODEL)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(6, dtype="f4").reshape(3, 2), "w"))
    del proto.graph.value_info[:]
    onnx.save(proto, tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def run(*arguments):
    return CliRunner().invoke(app, ["grad", *map(str, arguments)])


def test_writes_the_gradient_of_inputs_and_weights(source, rng):
    target = source.with_name("gradient.onnx")
    result = run(source, target, "--wrt", "x", "--wrt", "w")
    assert result.exit_code == 0, result.output
    assert "input   y.grad: float32[N, 2]" in result.output and "output  w.grad: float32[3, 2]" in result.output
    x, dy = rng.standard_normal((4, 3)).astype("f4"), rng.standard_normal((4, 2)).astype("f4")
    found = og.compile(target)(**{"x": x, "y.grad": dy})
    np.testing.assert_allclose(found["w.grad"], x.T @ dy, rtol=1e-5)


def test_writes_the_derivative_along_tangents(source):
    target = source.with_name("tangents.onnx")
    assert run(source, target, "--forward").exit_code == 0
    ones = np.ones((1, 3), "f4")
    assert og.compile(target)(**{"x": ones, "x.tangent": ones})["y.tangent"].tolist() == [[6, 9]]


def test_an_unknown_name_is_an_error_with_a_suggestion(source):
    result = run(source, source.with_name("none.onnx"), "--wrt", "ww")
    assert result.exit_code == 1 and "did you mean 'w'" in result.output
    assert not source.with_name("none.onnx").exists()


def test_json_tells_what_was_written(source):
    target = source.with_name("gradient.onnx")
    report = json.loads(run(source, target, "--json").output)
    assert (report["output"], report["inputs"], report["outputs"]) == (str(target), ["x", "y.grad"], ["y", "x.grad"])
