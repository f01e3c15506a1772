"""The builder: nodes with types at once, in the signature of the graph's opset."""

import ml_dtypes
import numpy as np
import onnx.checker
import onnx_ir as ir
import pytest

from onnxgrad.engine.errors import OpsetError, ShapeError
from onnxgrad.engine.ir.builder import Builder, describe, describe_value, rank
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from tests.engine.text_models import f32
from tests.grad.checks import run_in_onnxruntime

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64


def inputs(*shapes, dtype=FLOAT):
    """x0, x1, ... of these shapes."""
    return [ir.Value(name=f"x{i}", type=ir.TensorType(dtype), shape=ir.Shape(s)) for i, s in enumerate(shapes)]


def builder(values=(), opset=21, **options):
    """A builder on a new graph with these inputs."""
    return Builder(ir.Graph(list(values), [], nodes=[], opset_imports={"": opset}, name="g"), **options)


def finished(op, *outputs):
    """The model of a builder with these outputs, checked."""
    op.graph.outputs.extend(outputs)
    model = ir.Model(op.graph, ir_version=10)
    adopt_functions(model)
    verify(model)
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


TYPED = [
    (lambda op, x, z: op.Add(x, z), (["N", 3], [3]), "float32[N, 3]"),
    (lambda op, x, z: op.MatMul(x, z), (["N", 3], [3, 5]), "float32[N, 5]"),
    (lambda op, x, z: op.Greater(x, z), (["N", 3], ["N", 3]), "bool[N, 3]"),
    (lambda op, x, z: op.Concat(x, z, axis=1), (["N", 3], ["N", 2]), "float32[N, 5]"),
    (lambda op, x, z: op.Reshape(x, op.Shape(z)), (["N", 3], ["N", 3]), "float32[N, 3]"),
    (lambda op, x, z: op.ReduceSum(x, [1], keepdims=0), (["N", 3, "M"], [1]), "float32[N, M]"),
    (lambda op, x, z: op.Cast(x, to=ir.DataType.FLOAT16), (["N"], [1]), "float16[N]"),
    (lambda op, x, z: op.Shape(x), (["N", 3], [1]), "int64[2]"),
    (lambda op, x, z: op.Conv(x, z, strides=[2, 2]), (["N", 3, 9, 9], [4, 3, 3, 3]), "float32[N, 4, 4, 4]"),
    (lambda op, x, z: op.zeros_like(x), (["N", 3], [1]), "float32[N, 3]"),
]


@pytest.mark.parametrize(("build", "shapes", "expected"), TYPED)
def test_a_node_has_its_type_and_shape_at_once(build, shapes, expected):
    values = inputs(*shapes)
    result = build(builder(values), *values)
    assert describe_value(result).partition(": ")[2] == expected


def test_a_node_with_several_outputs_is_a_tuple():
    (x,) = inputs(["N", 7])
    parts = builder([x]).node("Split", x, [3, 4], outputs=2, axis=1)
    assert [str(part.shape) for part in parts] == ["[N,3]", "[N,4]"]


def test_literals_become_constants():
    (x,) = inputs(["N", 3])
    op = builder([x])
    y = op.Slice(op.Mul(op.Add(x, 1.0), 2.0), [0], [2], [1])
    proto = finished(op, y)
    assert run_in_onnxruntime(proto, {"x0": f32([[1, 2, 3]])})[y.name].tolist() == [[4, 6]]


@pytest.mark.parametrize(
    ("literal", "dtype", "shape"),
    [
        (3, "int64", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        (0.5, "float32", ()),
        (np.ones((2, 1)), "float64", (2, 1)),
    ],
)
def test_a_constant_has_the_type_of_its_literal(literal, dtype, shape):
    constant = builder().constant(literal)
    assert constant.const_value is not None
    array = constant.const_value.numpy()
    assert (array.dtype, array.shape) == (dtype, shape)


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16])
def test_a_float_takes_the_type_of_the_other_operand(dtype):
    (x,) = inputs([2], dtype=dtype)
    op = builder([x])
    y = op.Where(op.Greater(x, 0.0), x, 0.5)
    assert y.dtype == dtype
    assert op.constant_like(x, 0.5).dtype == dtype
    assert {node.outputs[0].dtype for node in op.graph if node.op_type == "Constant"} == {dtype}


def test_a_scalar_has_the_rank_of_an_operand_that_ends_in_one():
    x, z = inputs(["N", 4, 1, 1], ["N", 4])
    op = builder([x, z])
    op.Mul(x, 2.0)
    op.Mul(z, 2.0)
    assert [list(n.outputs[0].shape or ()) for n in op.graph if n.op_type == "Constant"] == [[1, 1, 1, 1], []]


def test_inputs_left_out_are_empty_and_none_attributes_are_dropped():
    x, top = inputs(["N"], [])
    op = builder([x, top])
    clip = op.Clip(x, None, top).producer()
    assert clip is not None and clip.inputs[1] is None and len(clip.inputs) == 3
    bare = op.Clip(x, None, None).producer()
    assert bare is not None and list(bare.inputs) == [x]
    shape = op.Shape(x, start=None, end=1).producer()
    assert shape is not None and list(shape.attributes) == ["end"]


OLD = [
    (17, lambda op, x: op.ReduceMean(x, [1], keepdims=0), "ReduceMean", 1, {"axes": [1], "keepdims": 0}),
    (18, lambda op, x: op.ReduceMean(x, [1], keepdims=0), "ReduceMean", 2, {"keepdims": 0}),
    (11, lambda op, x: op.ReduceSum(x, [0], noop_with_empty_axes=1), "ReduceSum", 1, {"axes": [0]}),
    (13, lambda op, x: op.ReduceSum(x, [0]), "ReduceSum", 2, {}),
    (11, lambda op, x: op.Unsqueeze(x, [0]), "Unsqueeze", 1, {"axes": [0]}),
    (11, lambda op, x: op.node("Split", x, [1, 2], outputs=2, axis=1)[0], "Split", 1, {"axis": 1, "split": [1, 2]}),
    (17, lambda op, x: op.node("Split", x, outputs=3, axis=1, num_outputs=3)[0], "Split", 1, {"axis": 1}),
    (9, lambda op, x: op.Slice(x, [0], [1], [1]), "Slice", 1, {"starts": [0], "ends": [1], "axes": [1]}),
    (10, lambda op, x: op.Slice(x, [0], [1], [1]), "Slice", 4, {}),
    (9, lambda op, x: op.node("TopK", x, [2], outputs=2)[0], "TopK", 1, {"k": 2}),
    (10, lambda op, x: op.Clip(x, 0.0, 1.0), "Clip", 1, {"min": 0.0, "max": 1.0}),
]


@pytest.mark.parametrize(("opset", "build", "op_type", "count", "attributes"), OLD)
def test_a_call_becomes_what_the_opset_wants(opset, build, op_type, count, attributes):
    (x,) = inputs(["N", 3])
    op = builder([x], opset)
    result = build(op, x)
    node = next(node for node in op.graph if node.op_type == op_type)
    spelled = {
        name: value.value if not isinstance(value.value, tuple) else list(value.value)
        for name, value in node.attributes.items()
    }
    assert len(node.inputs) == count and spelled == attributes
    assert result.dtype == FLOAT and result.shape is not None


def test_axes_that_are_not_constant_need_a_newer_opset():
    (x,) = inputs(["N", 3])
    axes = ir.Value(name="axes", type=ir.TensorType(INT64), shape=ir.Shape([1]))
    with pytest.raises(OpsetError, match=r"'axes' as an attribute before opset 18(.|\n)*raise the model's opset to 18"):
        builder([x, axes], 17).ReduceMean(x, axes)


def test_operands_that_do_not_fit_are_an_error_that_shows_them():
    x, z = inputs(["N", 3], [4, 5])
    with pytest.raises(ShapeError, match=r"operands of MatMul(.|\n)*x0: float32\[N, 3\], x1: float32\[4, 5\]"):
        builder([x, z]).MatMul(x, z)


def test_with_sharing_equal_nodes_are_one():
    (x,) = inputs(["N", 3])
    op = builder([x], share=True)
    assert op.Exp(x) is op.Exp(x)
    assert op.ReduceSum(x, [1], keepdims=0) is op.ReduceSum(x, [1], keepdims=0)
    assert op.ReduceSum(x, [1], keepdims=0) is not op.ReduceSum(x, [1], keepdims=1)
    assert op.RandomNormalLike(x) is not op.RandomNormalLike(x)
    plain = builder(inputs([3]))
    assert plain.Exp(plain.graph.inputs[0]) is not plain.Exp(plain.graph.inputs[0])


def test_equal_constants_are_one_and_minus_zero_is_not_zero():
    op = builder()
    assert op.constant(1.5) is op.constant(1.5)
    assert op.constant(0.0) is not op.constant(-0.0)
    assert op.constant(1) is not op.constant(True)
    assert op.constant(np.zeros(2, "f4")) is not op.constant(np.zeros((2, 1), "f4"))


def test_names_are_fresh_and_tell_the_scope():
    (x,) = inputs(["N"])
    op = builder([x])
    op.scope = "fc.grad"
    first, second = op.Neg(x), op.Neg(x)
    assert (first.name, second.name) == ("fc.grad.Neg", "fc.grad.Neg_1")
    node = first.producer()
    assert node is not None and node.name == "fc.grad.Neg"


def test_a_builder_in_front_of_a_node_writes_there():
    (x,) = inputs(["N"])
    op = builder([x])
    last = op.Neg(x).producer()
    early = Builder(op.graph, before=last).Exp(x)
    assert [node.op_type for node in op.graph] == ["Exp", "Neg"] and early.shape == ["N"]


def half(op, x):
    return op.Mul(x, 0.5)


def test_a_call_makes_a_function_and_equal_bodies_are_stored_once():
    x, z = inputs(["N", 3], ["M", 3])
    op = builder([x, z])
    (a,), (b,) = op.call("Half", half, x), op.call("Half", half, z)
    (c,) = op.call("Half", lambda inner, v: inner.Div(v, 2.0), x)
    assert [str(v.shape) for v in (a, b, c)] == ["[N,3]", "[M,3]", "[N,3]"]
    assert [node.op_type for node in op.graph] == ["Half", "Half", "Half_2"]
    proto = finished(op, a, b, c)
    assert [f.name for f in proto.functions] == ["Half", "Half_2"]
    got = run_in_onnxruntime(proto, {"x0": f32([[2, 4, 6]]), "x1": f32([[8, 8, 8]])})
    assert [v.tolist() for v in got.values()] == [[[1, 2, 3]], [[4, 4, 4]], [[1, 2, 3]]]


def test_a_call_leaves_out_inputs_and_gives_several_outputs():
    (x,) = inputs(["N"])
    op = builder([x])

    def body(inner, v, bias):
        assert bias is None and v.shape == ["N"]
        return inner.Neg(v), inner.Shape(v)

    y, n = op.call("Pair", body, x, None)
    assert (y.dtype, n.dtype, n.shape) == (FLOAT, INT64, [1])
    assert len(finished(op, y, n).functions[0].input) == 1


def test_functions_may_call_functions():
    (x,) = inputs(["N"])
    op = builder([x])
    (y,) = op.call("Quarter", lambda inner, v: inner.call("Half", half, inner.call("Half", half, v)[0]), x)
    proto = finished(op, y)
    assert sorted(f.name for f in proto.functions) == ["Half", "Quarter"]
    assert run_in_onnxruntime(proto, {"x0": f32([8])})[y.name].tolist() == [2]


def test_a_builder_of_a_sub_graph_sees_the_values_around_it():
    x, c = inputs(["N"], [])
    c.type = ir.TensorType(ir.DataType.BOOL)
    op = builder([x, c])
    bodies = []
    for name in ("Neg", "Exp"):
        inner = Builder(ir.Graph([], [], nodes=[], name=name), parent=op)
        inner.graph.outputs.append(inner.node(name, x)[0])
        bodies.append(inner.graph)
    y = op.If(c, then_branch=bodies[0], else_branch=bodies[1])
    got = run_in_onnxruntime(finished(op, y), {"x0": f32([2]), "x1": np.array(True)})
    assert got[y.name].tolist() == [-2]


def test_the_shape_of_a_static_value_is_a_constant():
    x, z = inputs([2, 3], ["N", 3])
    op = builder([x, z])
    assert op.shape_of(x).const_value is not None
    node = op.shape_of(z).producer()
    assert node is not None and node.op_type == "Shape"


def test_bfloat16_constants_hold_bfloat16():
    (x,) = inputs([2], dtype=ir.DataType.BFLOAT16)
    constant = builder([x]).constant_like(x, 1.5).const_value
    assert constant is not None and constant.numpy().dtype == ml_dtypes.bfloat16


def test_a_node_is_described_with_its_operands():
    x, z = inputs(["N", 3], [3])
    node = builder([x, z]).Add(x, z).producer()
    assert node is not None
    assert describe(node) == "node 'Add': Add = Add(x0: float32[N, 3], x1: float32[3])"


def test_an_unknown_attribute_of_the_builder_is_an_attribute_error():
    with pytest.raises(AttributeError):
        builder().add  # noqa: B018


def test_a_rank_that_is_not_known_names_the_operator_that_gives_it():
    (x,) = inputs((2, 2))
    y = ir.Node("my.ops", "Foo", [x], num_outputs=1, name="foo_1").outputs[0]
    with pytest.raises(ShapeError, match=r"at: node 'foo_1'(.|\n)*onnx_shape_inference"):
        rank(y)
