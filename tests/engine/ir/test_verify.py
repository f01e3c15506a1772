"""engine.ir.verify: each invariant, broken once."""

import glob
import os
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from onnxgrad.engine.errors import VerificationError
from onnxgrad.engine.ir.verify import verify
from onnxgrad.importers import load

MODEL = """
<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
g (bool c, float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}> {
  a = Add(x, w)
  b = Neg(a)
  r = If(c) <then_branch = t () => (float[N, 2] p) { p = Neg(b) }, else_branch = e () => (float[N, 2] q) { q = Abs(a) }>
  y = own.twice(r)
}
<domain: "own", opset_import: ["" : 20]> twice (s) => (u) { v = Abs(s) u = Add(v, v) }
"""


def model():
    return load(parser.parse_model(MODEL))


def node(graph: ir.Graph, op_type: str) -> ir.Node:
    return next(node for node in graph if node.op_type == op_type)


def branch(graph: ir.Graph) -> ir.Graph:
    return node(graph, "If").attributes["then_branch"].as_graph()


def test_a_sound_model_passes():
    verify(model())


def use_before_definition(graph):
    first, second = graph[0], graph[1]
    graph.remove(first)
    graph.insert_after(second, first)


def use_of_another_branch(graph):
    inner = node(graph, "If").attributes["else_branch"].as_graph()[0].outputs[0]
    branch(graph)[0].replace_input_with(0, inner)


def use_of_a_foreign_value(graph):
    graph[0].replace_input_with(1, ir.Value(name="foreign"))


def dangling_use(graph):
    ir.node("Abs", [graph.inputs[1]])


def same_value_name(graph):
    graph[1].outputs[0].name = graph[0].outputs[0].name


def hidden_name(graph):
    branch(graph)[0].outputs[0].name = "x"


def same_node_name(graph):
    branch(graph)[0].name = graph[0].name


def output_from_outside(graph):
    branch(graph).outputs[0] = graph[1].outputs[0]


def output_of_nothing(graph):
    graph.outputs[0] = ir.Value(name="nothing", type=ir.TensorType(ir.DataType.FLOAT))


def untyped_output(graph):
    graph.outputs[0].type = None


def untyped_input(graph):
    graph.inputs[0].type = None


def domain_not_imported(graph):
    del graph.opset_imports["own"]


def missing_function(graph):
    graph.opset_imports["onnxgrad"] = 1
    graph[0].domain = "onnxgrad"


def wrong_initializer_shape(graph):
    graph.initializers["w"].const_value = ir.Tensor(np.zeros((3, 2), np.float32), name="w")


def wrong_initializer_dtype(graph):
    graph.initializers["w"].const_value = ir.Tensor(np.zeros(2, np.float64), name="w")


def empty_initializer(graph):
    graph.initializers["w"].const_value = None


def nameless_value(graph):
    graph[1].outputs[0].name = None


BROKEN: dict[Callable[[ir.Graph], None], str] = {
    use_before_definition: "used where it is not defined",
    use_of_another_branch: "used where it is not defined",
    use_of_a_foreign_value: "'foreign'",
    dangling_use: "not in the model",
    same_value_name: "Two values have the same name",
    hidden_name: "Two values have the same name",
    same_node_name: "Two nodes have the same name",
    output_from_outside: "not produced in its graph",
    output_of_nothing: "not produced in its graph",
    untyped_output: "no type",
    untyped_input: "no type",
    domain_not_imported: "not imported",
    missing_function: "function that does not exist",
    wrong_initializer_shape: "another shape",
    wrong_initializer_dtype: "another dtype",
    empty_initializer: "no tensor",
    nameless_value: "no name",
}


@pytest.mark.parametrize("damage", BROKEN, ids=lambda damage: damage.__name__)
def test_a_broken_invariant_is_found(damage):
    broken = model()
    damage(broken.graph)
    with pytest.raises(VerificationError, match=BROKEN[damage]):
        verify(broken)


def test_function_bodies_are_checked():
    broken = model()
    body = broken.functions["own", "twice", ""].graph
    body[1].replace_input_with(0, ir.Value(name="foreign"))
    with pytest.raises(VerificationError, match="not defined"):
        verify(broken)


def test_an_output_left_out_needs_no_name():
    unused = model()
    unused.graph[1].outputs[0].name = "b"
    split = ir.Node("", "Split", [unused.graph.inputs[1]], num_outputs=2, name="split")
    split.outputs[0].name, split.outputs[1].name = "", "half"
    unused.graph.append(split)
    verify(unused)


LIGHT = glob.glob(os.path.dirname(onnx.__file__) + "/backend/test/data/light/*.onnx")


@pytest.mark.parametrize("path", LIGHT, ids=os.path.basename)
def test_loaded_models_are_sound(path):
    verify(load(path))
