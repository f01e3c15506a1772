"""Models in int8, and what they are calibrated and measured with."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.models.calibration import read_calls
from onnxgrad.models.quantize import measure_errors, quantize

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "int8.py"


def mlp(rng, overridable=False):
    proto = onnx.parser.parse_model(
        HEAD + "g (float[N,16] x) => (float[N,8] y) { h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }"
    )
    for name, shape in (("w", (16, 32)), ("v", (32, 8))):
        array = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    if overridable:
        proto.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, (16, 32)))
    proto.producer_name = "somebody"
    proto.metadata_props.add(key="author", value="me")
    return og.load(proto)


def calls(rng, count=4):
    return [{"x": rng.standard_normal((5, 16)).astype(np.float32)} for _ in range(count)]


def operators(model):
    return {node.op_type for node in model.graph.all_nodes()}


@pytest.mark.parametrize(("static", "expected"), [(False, "MatMulInteger"), (True, "QuantizeLinear")])
def test_int8_models_are_near_the_original(rng, static, expected):
    model, data = mlp(rng), calls(rng)
    result = quantize(model, data if static else None)
    assert expected in operators(result)
    (error,) = measure_errors(model, result, data)
    assert error.output == "y"
    assert 0 < error.relative < 0.05
    assert error.cosine > 0.998
    assert error.same is not None
    assert error.same > 0.8


def test_the_model_and_what_its_file_says_stay(rng):
    model = mlp(rng)
    result = quantize(model)
    assert operators(model) == {"MatMul", "Relu"}
    assert result.producer_name == "somebody"
    assert dict(result.metadata_props) == {"author": "me"}
    assert [value.name for value in (*result.graph.inputs, *result.graph.outputs)] == ["x", "y"]


@pytest.mark.parametrize("static", [False, True])
def test_a_weight_that_callers_may_override_is_no_constant(rng, static):
    data = calls(rng)
    model = mlp(rng, overridable=True)
    result = quantize(model, data if static else None)
    other = {**data[0], "w": rng.standard_normal((16, 32)).astype(np.float32)}
    (error,) = measure_errors(model, result, [other])
    assert error.relative < 0.05


def test_nodes_and_operators_can_be_left_out(rng):
    model = mlp(rng)
    first = model.graph[0].name
    left = [node.op_type for node in quantize(model, exclude=[first]).graph]
    assert left.count("MatMul") == left.count("MatMulInteger") == 1
    with pytest.raises(OptionError, match="Nothing in the model"):
        quantize(model, operators=["Conv"])


def test_branches_are_quantized(rng):
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[N,4] x, bool c) => (float[N,4] y) {
        y = If (c) <then_branch = t () => (float[N,4] a) { a = MatMul(x, w) },
                    else_branch = e () => (float[N,4] b) { b = Neg(x) }>
        }"""
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), "w"))
    model = og.load(proto)
    result = quantize(model)
    assert "MatMulInteger" in operators(result)
    x = rng.standard_normal((3, 4)).astype(np.float32)
    errors = [measure_errors(model, result, [{"x": x, "c": np.array(c)}])[0] for c in (True, False)]
    assert errors[0].relative < 0.05
    assert errors[1].relative == 0


def test_convolutions_are_dynamic_only_when_asked_for(rng):
    proto = onnx.parser.parse_model(HEAD + "g (float[N,3,8,8] x) => (float[N,4,6,6] y) { y = Conv(x, w) }")
    weight = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    with pytest.raises(OptionError, match="Nothing in the model"):
        quantize(og.load(proto))
    assert "ConvInteger" in operators(quantize(og.load(proto), operators=["Conv"]))
    data = [{"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}]
    assert {"Conv", "DequantizeLinear"} <= operators(quantize(og.load(proto), data))


MISTAKES = [
    (lambda m: quantize(m, []), InputError, "no data"),
    (lambda m: quantize(m, exclude=["nothing"]), InputError, "no node 'nothing'"),
    (lambda m: quantize(m, operators=["Sinh"]), OptionError, "'Sinh'"),
]


@pytest.mark.parametrize(("call", "kind", "words"), MISTAKES, ids=lambda item: item if isinstance(item, str) else "")
def test_mistakes_are_explained(rng, call, kind, words):
    with pytest.raises(kind, match=words):
        call(mlp(rng))


def test_errors_are_zero_for_the_same_model(rng):
    model = mlp(rng)
    (error,) = measure_errors(model, model, calls(rng))
    assert (error.largest, error.relative, error.same) == (0, 0, 1)
    assert error.cosine == pytest.approx(1)


@pytest.mark.parametrize(
    ("length", "batch", "limit", "sizes"), [(10, 4, 100, [4, 4]), (10, 4, 4, [4]), (3, 4, 100, [3]), (6, 2, 5, [2, 2])]
)
def test_arrays_are_cut_into_calls(rng, tmp_path, length, batch, limit, sizes):
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((length, 16)).astype(np.float32))
    found = read_calls(tmp_path / "data.npz", mlp(rng), batch, limit)
    assert [len(call["x"]) for call in found] == sizes


def test_arrays_of_different_length_are_one_call_and_scalars_go_to_all(rng, tmp_path):
    model = og.load(onnx.parser.parse_model(HEAD + "g (float[N] a, float[M] b, float s) => (float y) { y = Sum(s) }"))
    np.savez(tmp_path / "one.npz", a=np.ones(4, np.float32), b=np.ones(3, np.float32), s=np.float32(2))
    assert len(read_calls(tmp_path / "one.npz", model, 2)) == 1
    np.savez(tmp_path / "two.npz", a=np.ones(4, np.float32), b=np.ones(4, np.float32), s=np.float32(2))
    found = read_calls(tmp_path / "two.npz", model, 2)
    assert [call["s"].shape for call in found] == [(), ()]


def test_a_batch_that_the_model_fixes_is_kept(rng, tmp_path):
    model = og.load(onnx.parser.parse_model(HEAD + "g (float[3,2] x) => (float[3,2] y) { y = Neg(x) }"))
    np.savez(tmp_path / "data.npz", x=np.ones((7, 2), np.float32))
    assert [len(call["x"]) for call in read_calls(tmp_path / "data.npz", model)] == [3, 3]


def test_images_are_read_at_any_depth(tmp_path):
    from PIL import Image

    (tmp_path / "cats").mkdir()
    for name, level in (("a.png", 255), ("cats/b.png", 0)):
        Image.new("RGB", (9, 5), (level,) * 3).save(tmp_path / name)
    model = og.load(onnx.parser.parse_model(HEAD + "g (float[N,3,4,6] x) => (float[N,3,4,6] y) { y = Neg(x) }"))
    (call,) = read_calls(tmp_path, model, mean=[0.5, 0.5, 0.5], std=[0.25])
    assert call["x"].shape == (2, 3, 4, 6)
    assert np.unique(call["x"]).tolist() == [-2, 2]
    with pytest.raises(InputError, match="known height"):
        open_model = onnx.parser.parse_model(HEAD + "g (float[N,3,H,6] x) => (float[N,3,H,6] y) { y = Neg(x) }")
        read_calls(tmp_path, og.load(open_model))


@pytest.mark.slow
def test_sentence_embeddings_in_int8_are_near_and_faster():
    spec = importlib.util.spec_from_file_location("int8_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.measure(sentences=100, seconds=10)
    assert found.cosine >= 0.98
    assert found.speedup >= 1.5
