"""Dimension names of any spelling become symbols; what the file said is remembered."""

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnxgrad.engine.ir.serialize import DIM_NAMES
from onnxgrad.importers import load


def model(*shapes, inner=None):
    """A model with one float input and output for each shape."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    nodes = [helper.make_node("Abs", [f"x{i}"], [f"t{i}"]) for i in range(len(shapes))]
    nodes += [helper.make_node("Abs", [f"t{i}"], [f"y{i}"]) for i in range(len(shapes))]
    infos = [] if inner is None else [helper.make_tensor_value_info("t0", TensorProto.FLOAT, inner)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, value_info=infos))


def dims(value):
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


@pytest.mark.parametrize(
    "spelling",
    ["a::b_dim_0", "batch size", "input.1_dim_0", "2D", "größe", "batch-size", "x+unknown_word", "(", "N/0", "12"],
)
def test_a_spelling_becomes_one_symbol_and_is_remembered(spelling):
    loaded = load(model([spelling, 3], [spelling, 4]))
    (first, _), (second, _) = (dims(value) for value in loaded.graph.inputs)
    assert first == second == dims(loaded.graph.outputs[0])[0]
    assert first.isidentifier() and first.isascii()
    assert loaded.graph.meta[DIM_NAMES] == {first: spelling}
    assert str(ir.SymbolicDim(first) * 2) == f"2*{first}"


@pytest.mark.parametrize("spelling", ["?", "", "-1", -1, "None", "*", None])
def test_unknown_dimensions_are_all_different(spelling):
    loaded = load(model([spelling, spelling], [spelling]))
    names = [dim for value in (*loaded.graph.inputs, *loaded.graph.outputs) for dim in dims(value)]
    assert len(set(names)) == 6
    assert all(loaded.graph.meta[DIM_NAMES][name] == str(spelling or "") for name in names)


def test_legal_names_stay_and_expressions_of_them_too():
    loaded = load(model(["past", "new", "past + new", "unk__1", 5]))
    assert dims(loaded.graph.inputs[0]) == ["past", "new", "past + new", "unk__1", 5]
    assert loaded.graph.meta[DIM_NAMES] == {}
    assert ir.SymbolicDim("past + new").evaluate({"past": 2, "new": 3}) == 5


def test_different_spellings_get_different_symbols():
    loaded = load(model(["a b", "a-b", "a_b"]))
    assert len(set(dims(loaded.graph.inputs[0]))) == 3
    assert dims(loaded.graph.inputs[0])[2] == "a_b"


def test_unknown_dimensions_of_inner_values_are_left_to_inference():
    loaded = load(model(["N", 3], inner=["?", -1]))
    assert dims(loaded.graph[0].outputs[0]) == [None, None]


def test_the_checker_accepts_the_symbols():
    onnx.checker.check_model(ir.to_proto(load(model(["?", "a b", -1]))))
