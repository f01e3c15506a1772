"""Models at the limits: what is too deep, too large or contradictory is refused, with the place, and quickly."""

import gc
import time

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import ModelError, OnnxGradError
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.nesting import MAX_DEPTH
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.ir.verify import verify
from onnxgrad.importers.onnx import load
from tests.engine.text_models import f32, model_of
from tests.timing import processor_seconds


def nested(depth):
    """y = x, inside `depth` branches."""
    model = model_of("g (bool c, float[2] x) => (float[2] y) { }", opset=18)
    graph = model.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", name=f"if{level}", input=["c"], output=["y" if level == 0 else f"y{level}"])
        other = node.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g
        other.node.add(op_type="Neg", input=["x"], output=[f"e{level}"])
        other.output.append(helper.make_tensor_value_info(f"e{level}", 1, [2]))
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.output.append(helper.make_tensor_value_info(f"y{level + 1}", 1, [2]))
    graph.node.add(op_type="Relu", input=["x"], output=[f"y{depth}" if depth else "y"])
    return model


def nested_in_memory(depth):
    """The same nesting as an ir.Model, which no reader has checked."""
    inner = ir.node("Relu", [ir.Value(name="x")], name="deepest")
    for level in range(depth):
        body = ir.Graph([], [inner.outputs[0]], nodes=[inner], name=f"g{level}")
        inner = ir.node("If", [ir.Value(name="c")], attributes={"then_branch": body}, name=f"if{level}")
    graph = ir.Graph([], list(inner.outputs), nodes=[inner], opset_imports={"": 18}, name="g")
    graph.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    return ir.Model(graph, ir_version=10)


def test_the_deepest_file_loads_and_runs():
    model = load(nested(MAX_DEPTH).SerializeToString())
    verify(model)
    infer_shapes(model)
    run = compile(model, providers="cpu", threads=1)
    np.testing.assert_array_equal(run(c=True, x=f32([-1, 2]))["y"], [0, 2])


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 2000])
@pytest.mark.parametrize("source", ["proto", "bytes"])
def test_deeper_nesting_is_refused(depth, source):
    model = nested(depth)
    with pytest.raises(ModelError, match=f"more than {MAX_DEPTH} deep"):
        load(model if source == "proto" else model.SerializeToString())


@pytest.mark.parametrize("step", [verify, infer_shapes, clone, serialize, compile])
def test_deep_models_in_memory_are_refused_by_every_walk(step):
    with pytest.raises(ModelError, match="nested more than"):
        step(nested_in_memory(2000))


def test_types_nested_without_end_are_refused():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    kind = model.graph.value_info.add(name="x").type
    for _ in range(3000):
        kind = kind.sequence_type.elem_type
    kind.tensor_type.elem_type = 1
    with pytest.raises(OnnxGradError, match="nested"):
        load(model)


def test_a_long_chain_takes_time_that_grows_with_its_length_only():
    def seconds(length):
        data = chain(length).SerializeToString()
        return processor_seconds(lambda: prepare(data))

    def prepare(data):
        model = load(data)
        verify(model)
        infer_shapes(model)

    seconds(100)
    assert seconds(8000) < 8 * seconds(2000)


@pytest.mark.slow
def test_a_chain_of_a_million_nodes_is_loaded_checked_and_inferred():
    start = time.process_time()
    model = load(chain(1_000_000).SerializeToString())
    verify(model)
    infer_shapes(model)
    assert model.graph.outputs[0].shape == ir.Shape(["N", 4])
    assert time.process_time() - start < 180


def chain(length):
    graph = onnx.GraphProto(name="chain")
    graph.input.append(helper.make_tensor_value_info("v0", 1, ["N", 4]))
    graph.output.append(helper.make_tensor_value_info(f"v{length}", 1, ["N", 4]))
    for index in range(length):
        graph.node.add(op_type="Relu" if index % 2 else "Neg", input=[f"v{index}"], output=[f"v{index + 1}"])
    return onnx.ModelProto(ir_version=8, graph=graph, opset_import=[helper.make_opsetid("", 18)])


def test_the_collector_is_as_it_was_after_loading():
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(ModelError):
                load(b"no model")
            load(chain(2))
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


def test_a_long_cycle_is_named_by_a_few_of_its_nodes():
    model = chain(3000)
    model.graph.node[0].input[0] = "v3000"
    with pytest.raises(ModelError, match=r"(?s)has a cycle.*Neg.* 2992 more") as caught:
        load(model)
    assert len(str(caught.value)) < 2000


def huge_initializer(model):
    model.graph.initializer.add(name="w", data_type=1, dims=[10**6, 10**6], raw_data=b"1234")


def huge_typed(model):
    model.graph.initializer.add(name="w", data_type=1, dims=[10**12], float_data=[1.0])


def huge_constant(model):
    node = model.graph.node.add(op_type="Constant", output=["w"])
    tensor = onnx.TensorProto(data_type=1, dims=[10**12], raw_data=b"")
    node.attribute.append(helper.make_attribute("value", tensor))


def huge_sparse(model):
    sparse = model.graph.sparse_initializer.add(dims=[10**12])
    sparse.values.CopyFrom(helper.make_tensor("w", 1, [1], [1.0]))
    sparse.indices.CopyFrom(helper.make_tensor("i", 7, [1], [5]))


def overflowing(model):
    model.graph.initializer.add(name="w", data_type=1, dims=[2**62, 4], raw_data=b"")


def twice(model):
    model.graph.node.add(op_type="Neg", input=["x"], output=["y"])


def undefined(model):
    model.graph.node.add(op_type="Neg", input=["nowhere"], output=["w"])


def self_cycle(model):
    model.graph.node.add(op_type="Neg", name="w_maker", input=["w"], output=["w"])


def wrong_type(model):
    model.graph.initializer.add(name="w", data_type=99, dims=[1], raw_data=b"1234")


def no_name(model):
    model.graph.initializer.add(data_type=1, dims=[1], raw_data=b"1234")


DAMAGE = {
    huge_initializer: "'w'",
    huge_typed: "'w'",
    huge_constant: "'w'",
    huge_sparse: "'w'",
    overflowing: "'w'",
    twice: "'y'",
    undefined: "'nowhere'",
    self_cycle: "w_maker",
    wrong_type: "'w'",
    no_name: "no name",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_refused_with_its_place(damage):
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    damage(model)
    with pytest.raises(ModelError, match=DAMAGE[damage]):
        load(model.SerializeToString())


def test_every_truncation_of_a_file_is_an_error_of_ours_or_a_model():
    data = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Relu(a) }")
    data = data.SerializeToString()
    refused = 0
    for length in range(len(data)):
        try:
            load(data[:length])
        except OnnxGradError:
            refused += 1
    assert refused > len(data) * 0.8


def test_elements_that_no_machine_holds_fail_when_the_model_runs():
    run = compile(model_of("g (int64[1] n) => (float[M] y) { y = ConstantOfShape(n) }"), providers="cpu", threads=1)
    with pytest.raises(OnnxGradError):
        run([10**15])
    assert run([3])["y"].tolist() == [0, 0, 0]


def test_attributes_of_the_wrong_type_are_refused_with_their_node():
    model = model_of("g (float[2] x) => (float[2] y) { y = Softmax <axis = 0> (x) }")
    attribute = model.graph.node[0].attribute[0]
    attribute.type = onnx.AttributeProto.FLOAT
    with pytest.raises(ModelError, match=r"(?s)'axis' of ai.onnx::Softmax.*is FLOAT.*defines INT"):
        load(model)


@pytest.mark.parametrize("old", [b"node_out", b"input_x", b"N_AXIS"])
def test_names_that_are_no_text_are_refused(old):
    model = model_of("g (float[N_AXIS] input_x) => (float[N_AXIS] y) { node_out = Neg(input_x) y = Relu(node_out) }")
    data = model.SerializeToString().replace(old, b"\xff" * len(old))
    with pytest.raises(ModelError, match="not UTF-8"):
        load(data)
