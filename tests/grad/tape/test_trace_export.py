"""Traced functions as ONNX files."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad import nn


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        self.fc1, self.norm, self.fc2 = nn.Linear(5, 8), nn.BatchNorm(8), nn.Linear(8, 3)

    def __call__(self, x):
        return self.fc2(nn.relu(self.norm(self.fc1(x))))


def run_file(path, *arrays):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((port.name for port in session.get_inputs()), arrays, strict=True)))


def names(path):
    model = onnx.load(path)
    graph = model.graph
    return [v.name for v in graph.input], [v.name for v in graph.output], {v.name for v in graph.initializer}


def test_an_exported_function_runs_in_onnxruntime_with_the_same_results(tmp_path):
    net = Net().eval()
    traced = og.trace(net)
    x = floats(4, 5)
    traced.export(tmp_path / "net.onnx", x)
    onnx.checker.check_model(tmp_path / "net.onnx", full_check=True)
    np.testing.assert_allclose(run_file(tmp_path / "net.onnx", x)[0], traced(x).numpy(), rtol=1e-5)


def test_parameters_are_initializers_with_the_names_of_the_module(tmp_path):
    net = Net().eval()
    og.trace(net).export(tmp_path / "net.onnx", og.Tensor(floats(4, 5)))
    inputs, outputs, initializers = names(tmp_path / "net.onnx")
    assert (inputs, outputs) == (["x"], ["output"])
    assert initializers == set(net.state_dict())


def test_parameters_have_their_present_values(tmp_path):
    net = Net().eval()
    traced = og.trace(net)
    x = floats(4, 5)
    traced(x)
    for parameter in net.parameters():
        parameter.set(parameter * 0.5)
    traced.export(tmp_path / "net.onnx", x)
    np.testing.assert_allclose(run_file(tmp_path / "net.onnx", x)[0], net(og.Tensor(x)).numpy(), rtol=1e-5)


def test_inputs_and_outputs_can_be_named(tmp_path):
    traced = og.trace(lambda a, b: {"sum": a["x"] + b, "product": a["x"] * b})
    path = tmp_path / "f.onnx"
    traced.export(path, {"x": floats(2)}, floats(2, seed=1), input_names=["left", "right"], output_names=["s", "p"])
    assert names(path)[:2] == (["left", "right"], ["s", "p"])
    total, product = run_file(path, floats(2), floats(2, seed=1))
    np.testing.assert_allclose(total, floats(2) + floats(2, seed=1))
    np.testing.assert_allclose(product, floats(2) * floats(2, seed=1))


def test_inputs_are_called_after_the_way_to_them(tmp_path):
    traced = og.trace(lambda batch, scale: (batch["x"] * scale, batch["parts"][1] * scale))
    traced.export(tmp_path / "f.onnx", {"x": floats(2), "parts": [floats(2), floats(2)]}, np.float32(2))
    inputs, outputs, _ = names(tmp_path / "f.onnx")
    assert inputs == ["batch.x", "batch.parts.0", "batch.parts.1", "scale"]
    assert outputs == ["output0", "output1"]


@pytest.mark.parametrize("inputs, outputs", [(["a", "b"], None), (None, ["a", "b"])])
def test_a_wrong_number_of_names_is_an_error(inputs, outputs, tmp_path):
    traced = og.trace(lambda x: x + 1)
    with pytest.raises(og.errors.OptionError, match="2 names are given for 1"):
        traced.export(tmp_path / "f.onnx", floats(2), input_names=inputs, output_names=outputs)


def test_equal_names_are_an_error(tmp_path):
    with pytest.raises(og.errors.OptionError, match="must differ"):
        og.trace(lambda x, y: x + y).export(tmp_path / "f.onnx", floats(2), floats(2), input_names=["a", "a"])


def test_a_dynamic_axis_has_its_name_in_the_file(tmp_path):
    net = Net().eval()
    og.trace(net, dynamic={"x": {0: "batch"}}).export(tmp_path / "net.onnx", floats(4, 5))
    dims = onnx.load(tmp_path / "net.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 5]
    for count in (1, 7):
        found = run_file(tmp_path / "net.onnx", floats(count, 5))[0]
        np.testing.assert_allclose(found, net(og.Tensor(floats(count, 5))).numpy(), rtol=1e-4, atol=1e-6)


def test_what_the_function_sets_is_not_part_of_the_file(tmp_path):
    net = Net()
    before = net.state_dict()
    og.trace(net).export(tmp_path / "net.onnx", floats(4, 5))
    assert names(tmp_path / "net.onnx")[1] == ["output"]
    assert all(np.array_equal(array, before[name]) for name, array in net.state_dict().items())


def test_gradients_can_be_exported(tmp_path):
    weight = og.Tensor(floats(3))

    def gradient(x):
        found: list[og.Tensor] = []
        with og.Grad() as grad:
            grad.wrt(x, callback=found.append)
            grad(og.op.Tanh(x * weight).sum())
        return found[0]

    og.trace(gradient).export(tmp_path / "g.onnx", floats(3, seed=1))
    (found,) = run_file(tmp_path / "g.onnx", floats(3, seed=1))
    want = (1 - np.tanh(floats(3, seed=1) * floats(3)) ** 2) * floats(3)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("opset", [18, 21, 26])
def test_a_function_is_exported_in_the_opset_that_is_asked_for(opset, tmp_path):
    net = Net().eval()
    og.trace(net).export(tmp_path / "net.onnx", floats(4, 5), opset=opset)
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [entry.version for entry in model.opset_import] == [opset]
    assert model.ir_version == {18: 8, 21: 10, 26: 13}[opset]
    want = net(og.Tensor(floats(4, 5))).numpy()
    np.testing.assert_allclose(run_file(tmp_path / "net.onnx", floats(4, 5))[0], want, rtol=1e-5, atol=1e-6)


OLD: dict[str, tuple[Callable[[og.Tensor], og.Tensor], int, str]] = {
    "an operator": (nn.gelu, 18, "opset 18 has no Gelu"),
    "an attribute": (nn.GroupNorm(1, 2), 18, "has no attribute 'stash_type'"),
    "an opset": (lambda x: x + 1, 17, "cannot be exported in opset 17"),
    "a new opset": (lambda x: x + 1, 99, "cannot be exported in opset 99"),
}


@pytest.mark.parametrize("name", OLD)
def test_what_an_opset_does_not_have_is_an_error(name, tmp_path):
    function, opset, message = OLD[name]
    with pytest.raises(og.errors.OpsetError, match=message):
        og.trace(function).export(tmp_path / "f.onnx", floats(1, 2, 3), opset=opset)
    assert not list(tmp_path.iterdir())


def test_a_function_without_a_tensor_cannot_be_exported(tmp_path):
    with pytest.raises(og.errors.OptionError, match="returns no tensor"):
        og.trace(lambda x: 3).export(tmp_path / "f.onnx", floats(2))
