"""engine.ir.conditions: what a condition will be, where constants and static shapes tell."""

import pytest
from onnx import parser

from onnxgrad.engine.ir.conditions import known_condition
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.importers import load

NODES = """
    zero = Constant <value = int64 {0}> () one = Constant <value = int64[1] {1}> ()
    two = Constant <value = int64 {2}> ()
    shape = Shape(x) size = Size(z) first = Gather(shape, zero) second = Gather(shape, one) rank = Size(shape)"""


def condition(nodes: str) -> bool | None:
    """The condition c of a model with x [N,3] and z [2,4]."""
    graph = f"g (float[N,3] x, float[2,4] z, bool b) => (bool c) {{ {NODES} {nodes} }}"
    model = load(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}'))
    infer_shapes(model)
    return known_condition(model.graph.outputs[0])


@pytest.mark.parametrize(
    ("nodes", "value"),
    [
        ("c = Equal(rank, two)", True),
        ("c = Less(second, two)", False),
        ("c = Equal(first, two)", None),
        ("eight = Constant <value = int64 {8}> () c = Equal(size, eight)", True),
        ("p = Equal(rank, two) c = Not(p)", False),
        ("p = Equal(rank, two) q = Less(second, two) c = Or(p, q)", True),
        ("p = Equal(rank, two) c = And(p, b)", None),
        ("s = Squeeze(second) c = Cast <to = 9> (s)", True),
        ("half = Constant <value = float {0.5}> () c = Cast <to = 9> (half)", None),
        ("far = Constant <value = int64 {7}> () v = Gather(shape, far) c = Equal(v, two)", None),
        ("c = Identity(b)", None),
    ],
)
def test_a_condition_is_known_where_constants_and_static_dimensions_tell(nodes, value):
    assert condition(nodes) is value


def test_an_if_has_the_shape_of_the_branch_that_is_taken():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[1,3] x) => (float[K] y) {
        zero = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] {1}> ()
        shape = Shape(x) dim = Gather(shape, zero) c = Equal(dim, one)
        z = If (c) <then_branch = t () => (float[A] p) { p = Squeeze(x, zero) },
                    else_branch = e () => (float[B,C] q) { q = Identity(x) }>
        y = Relu(z) }"""
    model = load(parser.parse_model(text))
    infer_shapes(model)
    node = next(node for node in model.graph if node.op_type == "If")
    assert node.outputs[0].shape is not None
    assert list(node.outputs[0].shape) == [3]
