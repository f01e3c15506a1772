"""Fusions that only onnxruntime runs: asked for, they apply and mark the model; otherwise nothing happens."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import onnxgrad as og
from onnxgrad.cli.main import app
from tests.engine.passes.checks import model_of, operators
from tests.engine.passes.special import run_as_written

TEXT = """g (float[1,3,8,8] x, float[1,4,6,6] z) => (float[1,4,6,6] y, float[1,4,6,6] s)
    { a = Conv(x, w) b = Add(a, z) y = Relu(b) c = Conv(x, v) s = Sigmoid(c) }"""
OPTIONS = {
    "none": ({}, ["Add", "Conv", "Conv", "Relu", "Sigmoid"]),
    "activation": ({"fuse_conv_bias_nonlinearity": True}, ["Add", "Conv", "FusedConv", "Relu"]),
    "addend": ({"fuse_conv_bias_with_z": True}, ["Conv", "FusedConv", "Sigmoid"]),
    "both": ({"fuse_conv_bias_nonlinearity": True, "fuse_conv_bias_with_z": True}, ["FusedConv", "FusedConv"]),
}


def network():
    rng = np.random.default_rng(0)
    return model_of(TEXT, **{name: rng.standard_normal((4, 3, 3, 3)).astype(np.float32) for name in "wv"})


@pytest.mark.parametrize("name", OPTIONS)
def test_only_what_is_asked_for_is_fused(name):
    options, expected = OPTIONS[name]
    nonlinearity, with_z = (f"fuse_conv_bias_{kind}" in options for kind in ("nonlinearity", "with_z"))
    result = og.optimize_for_inference(
        network(), check=1, fuse_conv_bias_nonlinearity=nonlinearity, fuse_conv_bias_with_z=with_z
    )
    assert operators(result) == expected
    assert result.metadata_props.get("onnxgrad.runs_only_on") == ("onnxruntime" if options else None)
    assert set(options) == {hit for hit in og.optimization_report(result).hits if hit.startswith("fuse_conv_bias")}


def test_a_model_without_convolutions_stays_portable():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    result = og.optimize_for_inference(model, fuse_conv_bias_nonlinearity=True, fuse_conv_bias_with_z=True)
    assert "onnxgrad.runs_only_on" not in result.metadata_props
    assert "com.microsoft" not in result.opset_imports


def test_values_stay():
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(s).astype(np.float32) for name, s in (("x", (1, 3, 8, 8)), ("z", (1, 4, 6, 6)))}
    model = network()
    result = og.optimize_for_inference(model, fuse_conv_bias_nonlinearity=True, fuse_conv_bias_with_z=True)
    for want, got in zip(run_as_written(model, **feeds), run_as_written(result, **feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_command_takes_both_options(tmp_path):
    og.save(network(), tmp_path / "in.onnx")
    files = [str(tmp_path / name) for name in ("in.onnx", "out.onnx")]
    flags = ["--fuse-conv-bias-nonlinearity", "--fuse-conv-bias-with-z", "--json"]
    result = CliRunner().invoke(app, ["optimize", *files, *flags])
    assert json.loads(result.output)["after"]["operators"] == {"com.microsoft::FusedConv": 2}, result.output
    assert og.load(files[1]).metadata_props["onnxgrad.runs_only_on"] == "onnxruntime"
