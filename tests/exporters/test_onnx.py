"""exporters.onnx: what is saved is what was loaded, and a file is whole or not there."""

import os

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxgrad.engine.errors import OptionError
from onnxgrad.exporters import onnx as exporter
from onnxgrad.exporters import save, to_proto
from onnxgrad.importers import load

A = np.arange(1200, dtype=np.float32).reshape(2, 600)
B = np.arange(600, dtype=np.float32)


def model_proto():
    """y = x * B + A[0], with a weight large enough for a data file in the graph, one in a node and a small one."""
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(B)),
                helper.make_node("Gather", ["a", "zero"], ["row"]),
                helper.make_node("Mul", ["x", "b"], ["t"]),
                helper.make_node("Add", ["t", "row"], ["y"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch size", 600])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["?", 600])],
            [numpy_helper.from_array(A, "a"), numpy_helper.from_array(np.array(0), "zero")],
        ),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 20)],
    )


def check(path_or_bytes):
    """The model is valid and gives the right answer in plain onnxruntime."""
    if not isinstance(path_or_bytes, bytes):
        onnx.checker.check_model(path_or_bytes)
        path_or_bytes = str(path_or_bytes)
    session = onnxruntime.InferenceSession(path_or_bytes, providers=["CPUExecutionProvider"])
    x = np.ones((3, 600), np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x * B + A[0])


def test_a_proto_holds_everything_and_spells_dimensions_as_they_were():
    proto = to_proto(load(model_proto()))
    check(proto.SerializeToString())
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch size"
    assert proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "?"


@pytest.mark.parametrize("option", ["auto", False, True, "weights.bin"])
def test_a_saved_file_runs_and_loads_again(option, tmp_path):
    model = load(model_proto())
    before = to_proto(model).SerializeToString()
    path = tmp_path / "m.onnx"
    save(model, path, external_data=option)
    check(path)
    data = {"auto": set(), False: set(), True: {"m.onnx.data"}, "weights.bin": {"weights.bin"}}[option]
    assert set(os.listdir(tmp_path)) == {"m.onnx"} | data
    assert to_proto(load(path)).SerializeToString() == before
    assert not isinstance(model.graph.initializers["a"].const_value, ir.ExternalTensor)


def test_large_models_go_out_as_external_data(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "_LIMIT", 4000)
    monkeypatch.setattr(exporter, "_ROOM", 100)
    model = load(model_proto())
    save(model, tmp_path / "m.onnx")
    check(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size == A.nbytes
    with pytest.raises(OptionError, match="one file"):
        save(model, tmp_path / "n.onnx", external_data=False)
    with pytest.raises(OptionError, match="proto"):
        to_proto(model)


@pytest.mark.parametrize("option", ["auto", False, True, "other.bin"])
def test_a_lazily_loaded_model_can_be_saved_over_its_own_files(option, tmp_path):
    path = tmp_path / "m.onnx"
    save(load(model_proto()), path, external_data=True)
    model, shared = load(path), load(path)
    shared.graph.initializers["a"].const_value = model.graph.initializers["a"].const_value
    new = ir.Value(name="new", const_value=ir.Tensor(np.zeros(5000, np.float32), name="new"))
    old = [new, *model.graph.initializers.values()]
    model.graph.initializers.clear()
    for value in old:  # in this order the offsets are not those of the old file
        model.graph.initializers.add(value)
    save(model, path, external_data=option)
    check(path)
    for other in (model, shared):
        check(to_proto(other).SerializeToString())


def test_the_old_file_stays_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    save(load(model_proto()), path, external_data=True)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    changed = load(model_proto())
    changed.graph.initializers["a"].const_value = ir.Tensor(A + 1, name="a")

    def disk_full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    for option in (True, False):
        with pytest.raises(OptionError, match="No space left"):
            save(changed, path, external_data=option)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


@pytest.mark.parametrize("name", ["../w.bin", "/tmp/w.bin", "a/b", "", "..", "m.onnx", "a\\b"])
def test_the_data_file_must_lie_next_to_the_model(name, tmp_path):
    with pytest.raises(OptionError, match="external_data"):
        save(load(model_proto()), tmp_path / "m.onnx", external_data=name)


def test_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(OptionError, match="folder of the file does not exist"):
        save(load(model_proto()), tmp_path / "absent" / "m.onnx")
    with pytest.raises(OptionError, match="is a folder"):
        save(load(model_proto()), tmp_path)


def test_external_tensors_in_nodes_are_embedded(tmp_path):
    proto = model_proto()
    tensor = proto.graph.node[0].attribute[0].t
    (tmp_path / "b.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="b.bin")
    onnx.save(proto, tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    check(to_proto(model).SerializeToString())
    assert isinstance(model.graph[0].attributes["value"].value, ir.ExternalTensor)
    (tmp_path / "other").mkdir()
    save(model, tmp_path / "other" / "n.onnx", external_data=True)
    check(tmp_path / "other" / "n.onnx")


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    with pytest.raises(OptionError, match="is no file"):
        save(load(model_proto()), pipe)
    assert pipe.is_fifo()
