import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnxgrad.engine.ir.functions import add_function, functions_of
from onnxgrad.engine.ir.serialize import DIM_NAMES, detach_weights, serialize
from onnxgrad.engine.runtime.plan import SessionRegion
from onnxgrad.engine.runtime.session import create_session
from tests.engine.text_models import f32, model_of


def test_dimensions_are_spelled_as_in_the_file():
    model = ir.from_proto(model_of("g (float[s_0, any_1] x) => (float[s_0, any_1] y) { y = Relu(x) }"))
    model.graph.outputs[0].shape = ir.Shape([ir.SymbolicDim("s_0*2"), ir.SymbolicDim("any_1*2")])
    model.graph.meta[DIM_NAMES] = {"s_0": "a::b", "any_1": "?"}
    graph = serialize(model).graph
    assert [dim.dim_param for dim in graph.input[0].type.tensor_type.shape.dim] == ["a::b", "?"]
    doubled, unnamed = (dim.dim_param for dim in graph.output[0].type.tensor_type.shape.dim)
    assert "a::b" in doubled and "any_1" in unnamed
    assert str(model.graph.inputs[0].shape) == "[s_0,any_1]"


BRANCHES = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    t = Mul(x, w)
    y = If(c) <then_branch = a () => (float[2] z) <float[2] v = {5, 6}> { z = Add(x, v) },
               else_branch = b () => (float[2] u) { u = Neg(t) }> }"""


def test_functions_of_the_graph_are_written_with_the_model():
    model = ir.from_proto(model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }"))
    body = ir.from_proto(model_of("double (float[N] a) => (float[N] b) { b = Add(a, a) }").graph)
    function = add_function(functions_of(model.graph), "Double", body)
    function.opset_imports[""] = 21
    node = model.graph[0]
    model.graph.insert_after(node, ir.node("Double", [node.inputs[0]], domain="onnxgrad", outputs=[ir.Value(name="z")]))
    model.graph.outputs.append(model.graph[1].outputs[0])
    result = SessionRegion(create_session(model, "cpu")).run({"x": f32([-1, 2])})
    assert [np.asarray(value).tolist() for value in result] == [[0, 2], [-2, 4]]
    assert [function.name for function in serialize(model).functions] == ["Double"]


def test_detaching_weights_leaves_the_model_as_it_is(tmp_path):
    model = model_of(BRANCHES)
    for graph in (model.graph, model.graph.node[1].attribute[0].g):
        for tensor in graph.initializer:  # only raw data can be put into a file
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    loaded = ir.load(tmp_path / "m.onnx")
    copy, weights = detach_weights(loaded, 10**9)
    assert list(weights) == ["w"] and weights["w"] is loaded.graph.initializers["w"].const_value
    assert copy.graph.initializers["w"].const_value is not weights["w"]
    (inner,) = [graph for graph in copy.graph.subgraphs() if graph.initializers]
    assert not isinstance(inner.initializers["v"].const_value, ir.ExternalTensor)
    run = SessionRegion(create_session(loaded, "cpu")).run
    x = f32([1, 2])
    assert [np.asarray(run({"c": np.array(flag), "x": x})[0]).tolist() for flag in (True, False)] == [[6, 8], [-1, -4]]
