"""Graphs in files and operations on networks: rows P6, P7, P8."""

import numpy as np
import onnx
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError, OptionError
from tests.engine.text_models import f32, floats

X = floats(2, 3) / 2


@pytest.fixture
def file(tmp_path):
    """relu(x @ w + b) and its sum, in a file; parameters w and b."""
    graph = og.Graph()
    x = graph.input("x", shape=(2, 3))
    w, b = og.SharedTensor(floats(3, 4) / 5, name="w"), og.SharedTensor(f32([1, -1, 0, 2]), name="b")
    y = og.op.Relu(x @ graph.param(w) + graph.param(b))
    path = tmp_path / "net.onnx"
    og.save_graph(path, {"y": y, "total": y.sum()}, metadata={"author": "me"})
    return path


def expected(x=X):
    return np.maximum(x @ (floats(3, 4) / 5) + f32([1, -1, 0, 2]), 0)


def run(path, *inputs):
    onnx.checker.check_model(str(path))
    return og.compile(path, providers="cpu")(*inputs)


def test_P8_a_graph_is_written_as_a_model_that_runs(file):
    found = run(file, X)
    np.testing.assert_allclose(found["y"], expected(), rtol=1e-5)
    assert list(found) == ["y", "total"]


def test_P8_what_was_written_is_told(tmp_path):
    graph = og.Graph()
    x, w = graph.input("x", shape=(2,)), og.SharedTensor(f32([1, 2]), name="w")
    told = og.save_graph(tmp_path / "m.onnx", {"y": x * graph.param(w)})
    assert (told.nodes, told.parameter_bytes, told.inputs, told.outputs, told.parameters) == (
        1,
        8,
        ("x",),
        ("y",),
        ("w",),
    )
    assert told.bytes == (tmp_path / "m.onnx").stat().st_size
    assert len(told.checksum) == 64


def test_P8_one_variable_under_two_names_is_refused(tmp_path):
    x = og.Graph().input("x", shape=(2,))
    y = x * 2
    with pytest.raises(GraphError, match="given twice"):
        og.save_graph(tmp_path / "m.onnx", {"a": y, "b": y})
    with pytest.raises(GraphError, match="given twice"):
        og.save_graph(tmp_path / "m.onnx", [y, y])


def test_P8_an_unknown_format_is_refused(tmp_path):
    x = og.Graph().input("x", shape=(2,))
    with pytest.raises(OptionError, match="no format 'mgb'"):
        og.save_graph(tmp_path / "m.onnx", [x * 2], format="mgb")
    assert issubclass(OptionError, ValueError)


@pytest.mark.parametrize(
    ("keep", "outputs", "inner"), [(0, {"output_0"}, False), (1, {"Exp"}, False), (2, {"Exp"}, True)]
)
def test_P8_names_of_variables_are_kept_as_asked(tmp_path, keep, outputs, inner):
    x = og.Graph().input("x", shape=(2,))
    og.save_graph(tmp_path / "m.onnx", [og.op.Exp(og.op.Sin(x))], keep_var_name=keep)
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert {value.name for value in graph.output} == outputs
    assert ("Sin" in {name for node in graph.node for name in node.output}) is inner
    np.testing.assert_allclose(next(iter(run(tmp_path / "m.onnx", f32([1, 2])).values())), np.exp(np.sin([1, 2])), 1e-5)


@pytest.mark.parametrize(("keep", "name"), [(True, "w"), (False, "p0")])
def test_P8_names_of_parameters_are_kept_as_asked(tmp_path, keep, name):
    graph = og.Graph()
    y = graph.input("x", shape=(2,)) * graph.param(og.SharedTensor(f32([1, 2]), name="w"))
    assert og.save_graph(tmp_path / "m.onnx", [y], keep_param_name=keep).parameters == (name,)


def test_P8_priorities_are_kept_where_asked(tmp_path):
    graph = og.Graph()
    with graph.priority(7):
        y = og.op.Exp(graph.input("x", shape=(2,)))
    for keep, number in ((True, 7), (False, 0)):
        og.save_graph(tmp_path / "m.onnx", [y], keep_priority=keep)
        owner = og.load_graph(tmp_path / "m.onnx").outputs[0].owner
        assert owner is not None
        assert owner.priority == number


def test_P8_a_loaded_graph_has_parameters_that_can_be_trained(file):
    loaded = og.load_graph(file)
    assert list(loaded.by_name) == ["y", "total"]
    assert loaded.outputs == list(loaded.by_name.values())
    w = og.SharedTensor.from_var(og.tools.find_vars_by_name(loaded.graph, ["w"])[0])
    grad = og.gradients(loaded.by_name["total"], w)
    assert grad is not None
    np.testing.assert_allclose(grad.eval(x=X), X.T @ (expected() > 0), rtol=1e-5)


def test_P8_a_loader_may_change_the_tensors(file):
    import onnx_ir as ir

    def zeros(name, tensor):
        return ir.tensor(np.zeros_like(tensor.numpy())) if name == "w" else tensor

    loaded = og.load_graph(file, tensor_value_loader=zeros)
    np.testing.assert_allclose(loaded.by_name["y"].eval(x=X), np.maximum(np.tile(f32([1, -1, 0, 2]), (2, 1)), 0))


def test_P8_gradients_can_be_written(tmp_path):
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    grad = og.gradients((x * x * x).sum(), x)
    assert grad is not None
    og.save_graph(tmp_path / "g.onnx", {"dx": grad})
    assert run(tmp_path / "g.onnx", f32([1, 2, 3]))["dx"].tolist() == [3, 12, 27]


def test_P8_updates_are_not_written(tmp_path):
    graph = og.Graph()
    shared, x = og.SharedTensor(f32([1, 2]), name="w"), graph.input("x", shape=(2,))
    updated = og.add_update(graph.param(shared), x)
    told = og.save_graph(tmp_path / "m.onnx", {"new": updated})
    assert told.outputs == ("new",)
    assert run(tmp_path / "m.onnx", f32([1, 1]))["new"].tolist() == [2, 3]


def test_P6_a_compiled_file_refuses_names_and_numbers_that_are_wrong(file):
    function = og.compile(file, providers="cpu")
    with pytest.raises(InputError):
        function(X, X)
    with pytest.raises(InputError, match="no input 'z'"):
        function(z=X)
    assert list(og.compile(file, outputs=["total"], providers="cpu")(x=X)) == ["total"]


def test_P7_outputs_are_added_and_removed(file, tmp_path):
    network = og.Network.load(file)
    network.add_output(inner=network.get_node_by_type("MatMul").outputs[0])
    network.remove_output("total")
    network.dump(tmp_path / "out.onnx")
    found = run(tmp_path / "out.onnx", X)
    assert list(found) == ["y", "inner"]
    np.testing.assert_allclose(found["inner"], X @ (floats(3, 4) / 5), rtol=1e-5)


def test_P7_an_output_that_is_none_warns_when_removed(file):
    network = og.Network.load(file)
    with pytest.warns(UserWarning, match="'nothing' is no output"):
        network.remove_output("nothing")


def test_P7_a_name_is_given_once(file):
    network = og.Network.load(file)
    with pytest.raises(GraphError, match="an output 'y' already"):
        network.add_output(y=network.inputs[0])


def test_P7_variables_and_nodes_are_replaced(file, tmp_path):
    network = og.Network.load(file)
    b = next(var for var in network.params if var.name == "b")
    network.replace_vars({b: network.make_const(f32([0, 0, 0, 0]))})
    relu = network.get_node_by_type("Relu")
    network.replace_nodes({relu: og.op.Neg(relu.inputs[0]).owner})  # type: ignore[dict-item, arg-type]
    network.dump(tmp_path / "out.onnx")
    np.testing.assert_allclose(run(tmp_path / "out.onnx", X)["y"], -(X @ (floats(3, 4) / 5)), rtol=1e-5)
    assert [var.name for var in network.params] == ["w"]


def test_P7_batches_are_resized(file, tmp_path):
    network = og.Network.load(file)
    network.reset_batch_size(5)
    network.dump(tmp_path / "out.onnx")
    x = floats(5, 3)
    np.testing.assert_allclose(run(tmp_path / "out.onnx", x)["y"], expected(x), rtol=1e-5)
    assert [(var.name, var.shape) for var in network.inputs] == [("x", (5, 3))]


def test_P7_batches_of_some_inputs_stay(file):
    network = og.Network.load(file)
    network.reset_batch_size(5, blacklist=network.inputs)
    assert network.inputs[0].shape == (2, 3)


def test_P7_inputs_are_made(file):
    network = og.Network.load(file)
    network.replace_vars({network.inputs[0]: network.make_input("image", shape=("N", 3)) * 2})
    assert [var.name for var in network.inputs] == ["image"]
    np.testing.assert_allclose(network.outputs["y"].eval(image=X / 2), expected(), rtol=1e-5)


def test_P7_nodes_are_found_by_name_and_type(file):
    network = og.Network.load(file)
    node = network.get_node_by_type("MatMul")
    assert network.get_node_by_name(node.name) == node
    assert network.get_nodes_by_type("Conv") == []
    assert network.get_var_by_name("x") == network.inputs[0]
    assert network.get_var_by_name("y") == network.outputs["y"]
    with pytest.raises(GraphError, match="one node is wanted, 0"):
        network.get_node_by_type("Conv")
    with pytest.raises(GraphError, match="no variable 'q'"):
        network.get_var_by_name("q")


def test_P7_filters_narrow_down(file):
    network = og.Network.load(file)
    x = network.inputs[0]
    assert [node.op_type for node in network.nodes_filter.has_input(x)] == ["MatMul"]
    assert len(network.nodes_filter.not_type("MatMul").name("Re").where(lambda node: True)) == 2
    assert len(network.all_nodes) >= len(network.nodes_filter)


def test_P7_nodes_are_renamed(file, tmp_path):
    network = og.Network.load(file)
    network.modify_node_names("net.")
    network.dump(tmp_path / "out.onnx")
    assert all(node.name.startswith("net.") for node in onnx.load(tmp_path / "out.onnx").graph.node)


def test_P7_nodes_that_no_output_needs_may_be_counted(file):
    network = og.Network.load(file)
    network.add_dep_nodes(og.op.Cos(network.inputs[0]))
    assert network.get_node_by_type("Cos").op_type == "Cos"


def test_P7_metadata_is_kept(file, tmp_path):
    network = og.Network.load(file)
    assert network.metadata == {"author": "me"}
    network.metadata["version"] = "2"
    network.dump(tmp_path / "out.onnx")
    assert og.Network.load(tmp_path / "out.onnx").metadata == {"author": "me", "version": "2"}


def test_P7_a_network_is_optimized(file):
    network = og.Network.load(file)
    network.optimize_for_inference()
    assert "Gemm" in [node.op_type for node in network.nodes_filter]
    np.testing.assert_allclose(network.outputs["y"].eval(x=X), expected(), rtol=1e-5)


def test_P7_a_network_without_outputs_is_not_written(file, tmp_path):
    network = og.Network.load(file)
    network.remove_output("y", "total")
    with pytest.raises(GraphError, match="without outputs"):
        network.dump(tmp_path / "out.onnx")
