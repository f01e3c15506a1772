"""Function bodies: those of the model, those of the standard, and calls put in line."""

import numpy as np
import onnx.checker
import onnx_ir as ir
import pytest
from onnx import parser

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.ir.functions import inline_call, link_functions, schema_function
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.names import Names
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.importers import load
from tests.engine.text_models import f32, model_of
from tests.grad.checks import run_in_onnxruntime


def inline_all(proto) -> ir.Model:
    """The model without calls: of its own functions, and of operators that the standard defines by others."""
    model = load(proto)
    link_functions(model)
    infer_shapes(model)
    names = Names(model.graph)
    pending = list(model.graph)
    while pending:
        node = pending.pop()
        function = model.functions.get(node.op_identifier()) or schema_function(node, model.opset_imports[""])
        if function is not None:
            pending.extend(inline_call(node, function, names)[0])
            infer_shapes(model)
    model.functions.clear()
    verify(model)
    return model


SCHEMA = [
    ("y = Gelu(x)", 20),
    ("y = Gelu<approximate = 'tanh'>(x)", 20),
    ("y = HardSwish(x)", 14),
    ("y = Mish(x)", 18),
    ("y = LayerNormalization(x, s)", 17),
    ("y = LayerNormalization<axis = 0, epsilon = 0.1>(x, x)", 17),
    ("y = Softmax(x)", 13),
    ("y = Softmax<axis = 0>(x)", 13),
    ("y = LogSoftmax<axis = 0>(x)", 13),
    ("y = Clip(x, s0)", 13),
    ("y = ThresholdedRelu<alpha = 0.5>(x)", 18),
    ("y = ReduceLogSum<keepdims = 1>(x)", 18),
    ("y = MeanVarianceNormalization<axes = [0]>(x)", 18),
    ("y = GroupNormalization<num_groups = 1>(x, s, s)", 21),
    ("y = Softplus(x)", 18),
    ("y, z = SoftmaxCrossEntropyLoss(x, t)", 13),
]


@pytest.mark.parametrize(("node", "opset"), SCHEMA, ids=[case[0] for case in SCHEMA])
def test_a_body_of_the_standard_computes_the_same(node, opset):
    node = node.replace("'tanh'", '"tanh"')
    outputs = "float[A, B] y, float[A, B] z" if "z =" in node else "float[A, B] y"
    if "Loss" in node:
        outputs = "float y, float[A, B] z"
    constants = "float[3] s = {1, 2, 3}, float s0 = {0.5}, int64[2] t = {0, 2}"
    proto = model_of(f"g (float[2, 3] x) => ({outputs}) <{constants}> {{ {node} }}", opset)
    model = inline_all(proto)
    assert proto.graph.node[0].op_type not in {n.op_type for n in model.graph}
    x = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype("f4")}
    want, got = run_in_onnxruntime(proto, x), run_in_onnxruntime(to_proto(model), x)
    for name, value in want.items():
        assert np.allclose(got[name], value, rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("op_type", ["Add", "Conv", "NoSuchOperator"])
def test_an_operator_without_body_has_none(op_type):
    assert schema_function(ir.node(op_type, []), 21) is None


def test_an_operator_is_no_function_before_the_opset_that_made_it_one():
    (node,) = load(model_of("g (float[2] x) => (float[2] y) { y = Softmax(x) }", 11)).graph
    assert schema_function(node, 11) is None


def test_a_body_that_depends_on_types_needs_them():
    node = ir.node("Clip", [ir.Value(name="x"), ir.Value(name="low")])
    with pytest.raises(ModelError, match="type of 'x' is not known"):
        schema_function(node, 13)


NESTED = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[N] x) => (float[N] y) { a = my.Outer<factor = 3.0>(x) y = my.Outer<factor = 2.0>(a) }
<domain: "my", opset_import: ["": 21, "my": 1]>
Outer<factor>(p) => (q) { r = my.Scale<by: float = @factor>(p) q = Neg(r) }
<domain: "my", opset_import: ["": 21]>
Scale<by>(p) => (q) { f = Constant<value_float: float = @by>() q = Mul(p, f) }"""


def test_nested_functions_and_their_attributes_are_put_in_line():
    model = inline_all(parser.parse_model(NESTED))
    assert {node.domain for node in model.graph} == {""}
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert run_in_onnxruntime(proto, {"x": f32([1, 2])})["y"].tolist() == [6, 12]


def test_names_after_inlining_are_unique_and_tell_the_call():
    model = inline_all(parser.parse_model(NESTED))
    names = [value.name for node in model.graph for value in node.outputs]
    assert len(set(names)) == len(names)
    assert {"a", "y"} <= set(names), "outputs of the calls keep their names"


ODD = [
    ("an input given back", "F (p) => (p)", "y = my.F(x)", [[1, 2]]),
    ("an output twice", "F (p) => (q, q) { q = Neg(p) }", "y, z = my.F(x)", [[-1, -2], [-1, -2]]),
    ("fewer outputs asked for", "F (p) => (q, r) { q = Neg(p) r = Abs(p) }", "y = my.F(x)", [[-1, -2]]),
    ("an argument twice", "F (p, o) => (q) { q = Sub(p, o) }", "y = my.F(x, x)", [[0, 0]]),
    ("an optional input left out", "F (p, o, m) => (q) { q = Clip(p, o, m) }", "y = my.F(x, , one)", [[1, 1]]),
]


@pytest.mark.parametrize(("function", "call", "expected"), [c[1:] for c in ODD], ids=[c[0] for c in ODD])
def test_odd_calls_are_put_in_line(function, call, expected):
    outputs = "float[N] y, float[N] z" if call.startswith("y, z") else "float[N] y"
    body = function if "{" in function else f"{function} {{ unused = Neg(p) }}"
    text = f"""<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N] x) => ({outputs}) <float one = {{1}}> {{ {call} }}
    <domain: "my", opset_import: ["": 21]> {body}"""
    model = inline_all(parser.parse_model(text))
    got = run_in_onnxruntime(to_proto(model), {"x": f32([1, 2])})
    assert [value.tolist() for value in got.values()] == expected


def test_giving_back_an_input_that_is_left_out_is_an_error():
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N] x) => (float[N] y) { y = my.F(x) }
    <domain: "my", opset_import: ["": 21]> F (p, o) => (o) { unused = Neg(p) }"""
    with pytest.raises(ModelError, match="gives an input back that the call leaves out"):
        inline_all(parser.parse_model(text))


def test_bodies_with_sub_graphs_are_renamed_all_the_way_down():
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N] x, bool c) => (float[N] y) { a = my.F(x, c) y = my.F(a, c) }
    <domain: "my", opset_import: ["": 21]> F (p, c) => (q) { q = If(c) <
        then_branch = t () => (u) { v = Mul(p, p) u = Neg(v) }, else_branch = e () => (u) { u = Exp(p) }> }"""
    proto = to_proto(inline_all(parser.parse_model(text)))
    onnx.checker.check_model(proto)
    got = run_in_onnxruntime(proto, {"x": f32([2]), "c": np.array(True)})
    assert got["y"].tolist() == [-16]
