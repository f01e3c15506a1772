"""Tables H and I of docs/semantics.md: the gradient of one operator as a graph that reads no more than it needs."""

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GradientRuleMissing, InputError
from onnxgrad.engine.graph.operand import Call
from onnxgrad.grad.registry import RULES
from onnxgrad.grad.tape import operators
from onnxgrad.grad.tape.backward_graph import BackwardGraph, Operator, ShapeQuery, make_backward_graph
from onnxgrad.grad.tape.kernels import LeastRecent
from onnxgrad.grad.tape.one_node import COMPOSITE, Spec
from onnxgrad.grad.tape.operators import CACHE, backward_graph_of
from onnxgrad.grad.tape.tensor import run_call

F, I, B = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL  # noqa: E741
M = Spec(F, (None, None))
V = Spec(F, (None,))


def make(op_type, inputs, outputs, requires=None, has_grad=None, domain="", **attributes) -> BackwardGraph | None:
    operator = Operator(op_type, domain, attributes, tuple(inputs), tuple(outputs))
    return make_backward_graph(operator, requires or [True] * len(inputs), has_grad)


def made(*arguments, **named) -> BackwardGraph:
    graph = make(*arguments, **named)
    assert graph is not None
    return graph


def nodes(graph: BackwardGraph) -> list[str]:
    return [] if graph.body is None else [n.op_type for n in graph.body.graph if n.op_type != "Constant"]


def ints(*numbers) -> Spec:
    return Spec(I, (len(numbers),), np.array(numbers, np.int64))


def test_G22_a_backward_graph_has_a_body_a_save_mask_and_marks_of_inputs():
    graph = made("Mul", [M, M], [M], requires=[True, False])
    assert graph.input_has_grad == (True, False)
    assert len(graph.save) == 2 + 2 * 1


def test_G24_constants_are_part_of_the_body():
    graph = made("ReduceSum", [M, ints(1)], [V], keepdims=0)
    assert graph.body is not None
    constants = [
        n.attributes["value"].as_tensor().numpy().tolist() for n in graph.body.graph if n.op_type == "Constant"
    ]
    assert constants == [[1]]
    assert graph.save == (False, False, False, True)


def test_G26_graphs_are_kept_by_type_rank_and_marks_and_not_by_shape(monkeypatch):
    monkeypatch.setattr(CACHE, "graphs", LeastRecent(100))

    def count(shape, requires, dtype=np.float32):
        x = og.Tensor(np.ones(shape, dtype))
        call = Call("MatMul", (x, x), {})
        backward_graph_of(call, run_call(call), requires)
        return len(CACHE.graphs)

    assert [count((n, n), [True, True]) for n in (2, 3, 7)] == [1, 1, 1]
    assert count((2, 2), [True, False]) == 2
    assert count((2, 2), [True, True], np.float64) == 3
    assert count((2, 2, 2), [True, True]) == 4


def test_H1_masks_must_have_the_length_of_inputs_and_outputs():
    with pytest.raises(InputError, match="2 inputs need as many marks, not 1"):
        make("Add", [M, M], [M], requires=[True])
    with pytest.raises(InputError, match="1 outputs need as many marks, not 2"):
        make("Add", [M, M], [M], has_grad=[True, True])


def test_H2_without_a_gradient_of_an_output_there_is_nothing():
    assert make("Relu", [M], [M], has_grad=[False]) is None
    graph = made("Split", [V], [V, V], has_grad=[True, False], num_outputs=2)
    assert graph.save[3:] == (True, False)


def test_H3_outputs_of_integers_never_have_a_gradient():
    graph = made("TopK", [M, ints(2)], [M, Spec(I, (None, None))])
    assert [graph.reads_gradient(0), graph.reads_gradient(1)] == [True, False]


def test_H4_a_missing_rule_is_an_error_with_advice():
    with pytest.raises(GradientRuleMissing, match=r"no gradient rule for my\.ops::Odd"):
        make("Odd", [M], [M], domain="my.ops")


def test_H4_a_rule_is_asked_once_for_all_inputs(monkeypatch):
    monkeypatch.setitem(RULES, ("my.ops", "AskedOnce"), [])
    calls = []

    @og.register_gradient("AskedOnce", domain="my.ops")
    def rule(op, node, dy):
        calls.append(node)
        return dy, op.Neg(dy)

    graph = made("AskedOnce", [M, M], [M], domain="my.ops")
    assert len(calls) == 1
    assert graph.results == (-1, 0)


def test_H5_an_input_without_a_gradient_is_told():
    assert made("Gather", [M, Spec(I, (None,))], [M]).input_has_grad == (True, False)
    assert made("Where", [Spec(B, (None,)), V, V], [V]).input_has_grad == (False, True, True)


def test_H6_nothing_is_left_where_no_input_varies_the_output():
    assert make("Floor", [M], [M]) is None
    assert make("Relu", [M], [M], requires=[False]) is None
    assert make("ArgMax", [M], [Spec(I, (None, None))]) is None


def test_H7_only_what_the_gradients_need_is_in_the_body():
    assert nodes(made("Mul", [Spec(F, ("a",)), Spec(F, ("a",))], [Spec(F, ("a",))], requires=[True, False])) == ["Mul"]
    assert "Relu" not in nodes(made("Relu", [M], [M]))


def test_H7_an_operator_with_a_function_body_is_differentiated_through_it():
    graph = made("HardSwish", [M], [M])
    assert graph.save == (True, False, True)


def test_H8_inputs_of_the_body_are_those_marked_in_the_order_of_the_mask():
    graph = made("Div", [Spec(F, ("a",)), Spec(F, ("a",))], [Spec(F, ("a",))])
    assert graph.save == (False, True, True, True)  # of y = a / b the gradient needs b, y and dy
    assert graph.body is not None
    assert [value.name for value in graph.body.graph.inputs] == ["x1", "y0.saved", "dy0"]


A, AB = Spec(F, ("a",)), Spec(F, ("a", "b"))
SAVED = [
    ("Relu", [M], [M], {}, (False, True, True)),
    ("Sigmoid", [M], [M], {}, (False, True, True)),
    ("Exp", [M], [M], {}, (False, True, True)),
    ("Log", [M], [M], {}, (True, False, True)),
    ("Add", [AB, AB], [AB], {}, (False, False, False, True)),
    ("Add", [AB, Spec(F, (1, "b"))], [AB], {}, (False, False, False, True)),
    ("Add", [M, M], [M], {}, (False, False, False, True)),
    ("MatMul", [M, M], [M], {}, (True, True, False, True)),
    ("ReduceSum", [M, ints(1)], [V], {"keepdims": 0}, (False, False, False, True)),
    ("ReduceMean", [M, ints(1)], [V], {"keepdims": 0}, (False, False, False, True)),
    ("Reshape", [M, Spec(I, (1,))], [V], {}, (False, False, False, True)),
    (
        "Slice",
        [M, Spec(I, (1,)), Spec(I, (1,)), ints(1), ints(1)],
        [M],
        {},
        (False, True, False, False, False, False, True),
    ),
    ("Gather", [M, Spec(I, (None,))], [M], {}, (False, True, False, True)),
    ("Softmax", [M], [M], {}, (False, True, True)),
    ("Concat", [M, M], [M], {"axis": 1}, (False, False, False, True)),
    ("Transpose", [M], [M], {}, (False, False, True)),
]


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes", "save"), SAVED)
def test_H9_what_an_operator_keeps(op_type, inputs, outputs, attributes, save):
    assert made(op_type, inputs, outputs, **attributes).save == save


def test_I1_a_body_of_one_operator_is_not_split():
    graph = made("Log", [M], [M])
    assert (nodes(graph), graph.queries, graph.save) == (["Div"], (), (True, False, True))


def test_I2_only_queries_of_shapes_are_moved_in_front():
    graph = made("Expand", [M, Spec(I, (None,))], [M])
    assert {query.op_type for query in graph.queries} == {"Shape"}
    assert graph.body is not None
    assert not any(node.op_type == "Shape" for node in graph.body.graph)


def test_I3_a_query_of_what_the_backward_graph_reads_anyway_stays_in_it():
    graph = made("MatMul", [Spec(F, (None,) * 3)] * 2, [Spec(F, (None,) * 3)])
    assert graph.queries == ()
    assert nodes(graph).count("Shape") == 2
    assert graph.save == (True, True, False, True)


def test_I4_the_body_reads_answers_first_and_tensors_behind_them():
    graph = made("ReduceMean", [M], [Spec(F, ())], keepdims=0)
    assert {query.place for query in graph.queries} == {0, 1}
    assert graph.save == (False, False, True)
    assert graph.body is not None
    assert [value.name for value in graph.body.graph.inputs][len(graph.queries) :] == ["dy0"]
    assert all(v.dtype == I for v in list(graph.body.graph.inputs)[: len(graph.queries)])


def test_I4_a_part_of_a_shape_is_asked_for_as_that_part():
    graph = made("Concat", [M, M], [M], axis=0)
    assert graph.queries == (ShapeQuery("Shape", 0, 0, 1), ShapeQuery("Shape", 1, 0, 1))


def test_I5_without_a_query_there_is_no_part_in_front():
    assert made("Relu", [M], [M]).queries == ()


def test_a_gradient_that_is_handed_on_needs_no_node():
    graph = made("Add", [AB, AB], [AB])
    assert (graph.body, graph.results) == (None, (-1, -1))


def test_the_body_computes_the_gradient_for_tensors_of_any_shape():
    graph = made("Mul", [M, M], [M])
    assert graph.body is not None
    for shapes in [((2, 3), (2, 3)), ((4, 1), (1, 5)), ((1, 1), (3, 2))]:
        x, y = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in shapes)
        dy = np.ones(np.broadcast_shapes(*shapes), np.float32)
        inputs = tuple(og.Tensor(v) for v in (x, y, dy))
        dx, dz = run_call(Call(graph.body.name, inputs, {"body": graph.body}, 2, COMPOSITE))
        assert (dx.shape, dz.shape) == shapes
        np.testing.assert_allclose(dz.numpy().sum(), (dy * x).sum(), rtol=1e-4)


def test_broadcast_operands_share_a_graph_while_they_are_broadcast_alike(monkeypatch):
    monkeypatch.setattr(CACHE, "graphs", LeastRecent(100))

    def count(*shapes):
        inputs = tuple(og.Tensor(np.ones(shape, np.float32)) for shape in shapes)
        call = Call("Mul", inputs, {})
        backward_graph_of(call, run_call(call), [True, True])
        return len(CACHE.graphs)

    assert [count((n, 5), (n, 5)) for n in (2, 3)] == [1, 1]
    assert [count((n, 5), (1, 5)) for n in (2, 3)] == [2, 2]
    assert [count((n, 5), (5,)) for n in (2, 3)] == [3, 3]


def test_small_literals_of_integers_are_part_of_the_key_by_their_elements(monkeypatch):
    monkeypatch.setattr(CACHE, "graphs", LeastRecent(100))
    monkeypatch.setattr(operators, "_GRAD_RULES", {})
    x = og.Tensor(np.ones((2, 3, 4), np.float32))
    for count, axes in enumerate(([0], [1], [2], [0, 1]), 1):
        call = Call("ReduceMax", (x, np.array(axes)), {"keepdims": 0})
        found = backward_graph_of(call, run_call(call), [True, False])
        assert isinstance(found, BackwardGraph)
        assert len(CACHE.graphs) == count
    for count, start in enumerate((0, 1), len(CACHE.graphs) + 1):
        inputs = (x, np.array([start]), np.array([start + 1]), np.array([0]), np.array([1]))
        call = Call("Slice", inputs, {})
        backward_graph_of(call, run_call(call), [True] + [False] * 4)
        assert len(CACHE.graphs) == 5, count
