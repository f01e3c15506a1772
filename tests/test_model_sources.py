"""Every function that wants a model takes a path, bytes, a ModelProto or an `onnx_ir.Model`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import onnxgrad as og

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul(x, w) }"""
FORMS: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "text": str,
    "bytes": lambda path: path.read_bytes(),
    "proto": onnx.load,
    "model": og.load,
}
FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "load": og.load,
    "to_proto": og.to_proto,
    "summary": og.summary,
    "optimize_for_inference": og.optimize_for_inference,
    "compile": og.compile,
    "quantize": og.quantize,
    "gradient_model": og.gradient_model,
    "jvp_model": og.jvp_model,
    "Graph.from_model": og.Graph.from_model,
    "models.add_head": lambda source: og.models.add_head(source, classes=5),
    "models.replace_head": lambda source: og.models.replace_head(source, classes=5),
    "training_model": lambda source: og.training_model(source, loss=og.losses.MSE(), optimizer=og.optimizers.SGD(0.1)),
    "Trainer": lambda source: og.Trainer(source, og.losses.MSE(), og.optimizers.SGD(0.1)),
}


@pytest.fixture
def path(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_model_may_come_in_any_form(path, name, form):
    assert FUNCTIONS[name](FORMS[form](path)) is not None


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_a_model_can_be_saved(path, tmp_path, form):
    og.save(FORMS[form](path), tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx").graph.node[0].op_type == "MatMul"
