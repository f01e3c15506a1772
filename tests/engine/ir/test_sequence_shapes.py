"""engine.ir.sequence_shapes and operand_ranks: ranks where types alone, or the operand alone, do not tell them."""

import pytest
from onnx import parser

from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.importers import load

ABC = "float[2,3] a, float[2,3] b, float[4,3] c, int64 i"


def shape_of(nodes: str, name: str = "y", inputs: str = ABC) -> list[int | str] | None:
    """The inferred shape of a value; generated symbols are spelled "?"."""
    model = load(
        parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => (float y) {{ {nodes} }}')
    )
    model.graph.outputs[0].shape = None
    infer_shapes(model)
    value = next(v for node in model.graph for v in node.outputs if v.name == name)
    return None if value.shape is None else [d if isinstance(d, int) else "?" for d in value.shape]


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ("s = SequenceConstruct(a, b) y = SequenceAt(s, i)", [2, 3]),
        ("s = SequenceConstruct(a, c) y = SequenceAt(s, i)", ["?", 3]),
        ("s = SequenceConstruct(a, b) t = SequenceInsert(s, c) y = SequenceAt(t, i)", ["?", 3]),
        ("s = SequenceConstruct(a, b) t = SequenceErase(s) y = SequenceAt(t, i)", [2, 3]),
        ("e = SequenceEmpty() s = SequenceInsert(e, a) y = SequenceAt(s, i)", [2, 3]),
        ("s = SequenceConstruct(a, b) y = ConcatFromSequence <axis = 1> (s)", [2, "?"]),
        ("s = SequenceConstruct(a, b) y = ConcatFromSequence <axis = -1, new_axis = 1> (s)", [2, 3, "?"]),
        ("s = SplitToSequence <axis = 1> (a) y = SequenceAt(s, i)", [2, 1]),
        ("s = SplitToSequence <axis = 0, keepdims = 0> (a) y = SequenceAt(s, i)", [3]),
        ("s = SplitToSequence <axis = 0> (a, i) y = SequenceAt(s, i)", ["?", 3]),
    ],
)
def test_a_sequence_knows_what_its_items_have_in_common(nodes, shape):
    assert shape_of(nodes) == shape


def test_two_items_of_a_sequence_do_not_share_a_symbol():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N] x, float[M] z, int64 i) => (float[K] y) {
        s = SequenceConstruct(x, z) a = SequenceAt(s, i) b = SequenceAt(s, i) y = Concat <axis = 0> (a, b) }"""
    model = load(parser.parse_model(text))
    infer_shapes(model)
    _, first, second, _ = (node.outputs[0] for node in model.graph)
    assert first.shape is not None and second.shape is not None
    assert first.shape[0] != second.shape[0]


UNRANKED = "z = Reshape(x, s)"


@pytest.mark.parametrize(
    ("nodes", "name", "shape"),
    [
        (f"{UNRANKED} r = Relu(z) y = Conv(r, w)", "z", ["?", "?", "?"]),
        (f"{UNRANKED} r = Relu(z) y = Conv(r, w)", "y", ["?", 4, "?"]),
        (f"{UNRANKED} y = LSTM <hidden_size = 1> (z, w, w)", "z", ["?", "?", "?"]),
        (f"{UNRANKED} v = Reshape(x, s) y = Gemm(z, v)", "v", ["?", "?"]),
        (f"{UNRANKED} y = Add(z, w)", "z", None),
    ],
)
def test_an_operator_tells_the_rank_that_it_demands(nodes, name, shape):
    assert shape_of(nodes, name, "float[N] x, int64[K] s, float[4,2,1] w") == shape
