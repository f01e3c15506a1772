"""Tools of computing graphs: rows E2, E5, F9, F12, F17, P1-P5."""

import json

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError
from tests.engine.text_models import f32, floats


def small():
    """z = relu(x + y) * 2, in a graph that computes something else too."""
    graph = og.Graph()
    x, y = graph.input("x", shape=(2,)), graph.input("y", shape=(2,))
    total = x + y
    z = og.op.Relu(total) * 2
    og.op.Sin(z)
    return graph, x, y, total, z


def owner(var):
    """The node that makes a variable."""
    return var.owner


X, Y = f32([1, -5]), f32([2, 3])


def test_E2_a_clone_holds_copies_of_what_variables_depend_on():
    graph, _, _, _, z = small()
    copy = graph.clone(z)
    assert copy is not graph
    assert [node.op_type for node in copy.ir] == ["Add", "Relu", "Constant", "Mul"]
    assert og.tools.inter_graph_var(copy, z).eval(x=X, y=Y).tolist() == [6, 0]


def test_E2_a_clone_of_the_whole_has_all():
    graph, *_ = small()
    copy = graph.clone()
    assert sorted(node.op_type for node in copy.ir) == sorted(node.op_type for node in graph.ir)
    assert len(copy.inputs) == 2


def test_E2_a_clone_keeps_names():
    graph, _, _, _, _z = small()
    copy = graph.clone()
    assert {value.name for node in copy.ir for value in node.outputs} == {
        value.name for node in graph.ir for value in node.outputs
    }


def test_E2_a_clone_shares_sources_and_nothing_else():
    graph = og.Graph()
    shared = og.SharedTensor(f32([1, 2]))
    z = graph.param(shared) * 3
    copy = graph.clone(z)
    before = len(graph.ir)
    twin = og.tools.inter_graph_var(copy, z)
    twin * 5
    assert len(graph.ir) == before
    shared.set(f32([10, 20]))
    assert twin.eval().tolist() == [30, 60]


def test_E2_a_clone_can_be_differentiated():
    graph, x, _, _, z = small()
    copy = graph.clone(z)
    grad = og.gradients(og.tools.inter_graph_var(copy, z).sum(), og.tools.inter_graph_var(copy, x))
    assert grad is not None
    assert grad.eval(x=X, y=Y).tolist() == [2, 0]


def test_E2_extra_dependencies_are_cloned_too():
    graph, x, _, _total, z = small()
    graph.add_extra_dep(z, og.op.Cos(x))
    copy = graph.clone(z)
    assert "Cos" in [node.op_type for node in copy.ir]
    assert len(copy.dependencies) == 1


def test_E2_a_graph_does_not_clone_variables_of_another():
    graph, *_ = small()
    _, *_, z = small()
    with pytest.raises(GraphError, match="belongs to graph"):
        graph.clone(z)


def test_E5_user_data_is_a_dict_of_its_own():
    first, second = og.Graph(), og.Graph()
    first.user_data["key"] = [1]
    assert first.user_data["key"] == [1]
    assert second.user_data == {}


def test_E5_the_environment_fills_user_data(monkeypatch):
    monkeypatch.setenv("ONNXGRAD_GRAPH_USER_DATA", "a=1; b=two")
    assert og.Graph().user_data == {"a": "1", "b": "two"}


INFERRED = {
    "a constant": lambda graph: (graph.constant([1.0, 2.0]), [1, 2]),
    "of constants": lambda graph: (graph.constant([1.0, 2.0]) * 3 + 1, [4, 7]),
    "a static shape": lambda graph: (og.op.Shape(graph.input("x", shape=(2, 5))), [2, 5]),
    "of static shapes": lambda graph: (og.op.Shape(graph.input("x", shape=(2, 5)))[1] * 10, 50),
    "of an input with a value": lambda graph: (graph.input("x", value=f32([3])) + 1, [4]),
    "of the shape of an input with a value": lambda graph: (og.op.Shape(graph.input("x", value=floats(3, 2))), [3, 2]),
    "an input without a value": lambda graph: (graph.input("x", shape=(2,)) * 2, None),
    "a dynamic shape": lambda graph: (og.op.Shape(graph.input("x", shape=("N", 5))), None),
    "not to be inferred": lambda graph: (graph.input("x", value=f32([3]), static_infer=False) + 1, None),
    "a parameter": lambda graph: (graph.param(og.SharedTensor(f32([1]))) + 1, None),
    "random": lambda graph: (og.op.RandomNormalLike(graph.constant([1.0])), None),
    "fails": lambda graph: (
        og.op.Reshape(graph.input("x", value=floats(4)), graph.input("s", "int64", value=[3])),
        None,
    ),
}


@pytest.mark.parametrize("case", INFERRED)
def test_F9_the_inferred_value_is(case):
    var, expected = INFERRED[case](og.Graph())
    found = var.inferred_value
    assert (found is None) if expected is None else found.tolist() == expected


def test_F9_the_inferred_value_is_an_independent_copy():
    var = og.Graph().constant([1.0, 2.0])
    first = var.inferred_value
    assert first is not None
    first[0] = 9
    assert np.array_equal(var.inferred_value, [1, 2])  # type: ignore[arg-type]


def test_F12_variables_are_found_in_a_clone_only():
    graph, _, _, _, z = small()
    with pytest.raises(GraphError, match="has not been setup"):
        og.tools.inter_graph_var(og.Graph(), z)
    part = graph.clone(z)
    with pytest.raises(GraphError, match="has no copy of"):
        og.tools.inter_graph_var(part, og.op.Cos(z))


def test_F12_one_transformer_may_be_registered():
    dest, other = og.Graph(), og.Graph()
    var, stand_in = other.input("x"), dest.input("x")
    og.tools.set_inter_graph_transformer(dest, lambda v: stand_in)
    assert og.tools.inter_graph_var(dest, var) == stand_in
    with pytest.raises(GraphError, match="already"):
        og.tools.set_inter_graph_transformer(dest, lambda v: stand_in)


def test_variables_are_imported_with_all_that_they_depend_on():
    _, _, _, _, z = small()
    dest = og.Graph()
    w = dest.input("w", shape=(2,))
    imported, own = og.tools.import_vars(dest, [z, w])
    assert own == w
    assert (imported + own).eval(x=X, y=Y, w=f32([1, 1])).tolist() == [7, 1]


def test_F17_the_owner_tells_what_made_a_variable():
    graph, x, y, total, _ = small()
    node = owner(total)
    assert (node.op_type, node.domain, node.graph, node.inputs, node.outputs) == ("Add", "", graph, (x, y), (total,))
    assert node.name == "Add"
    assert x.owner is None


def test_F17_params_are_json():
    graph = og.Graph()
    y = og.op.Conv(graph.input("x", shape=(1, 1, 4, 4)), graph.input("w", shape=(1, 1, 2, 2)), strides=[2, 2])
    assert json.loads(owner(y).params) == {"strides": [2, 2]}
    assert json.loads(owner(graph.constant([1.0])).params) == {"value": [1.0]}


def test_F17_ids_grow_with_the_graph_and_stay():
    _graph, _, _, total, z = small()
    first, second = owner(total).id, owner(z).id
    later = owner(z + 1).id
    assert first < second < later
    assert owner(total).id == first


def test_F17_owners_of_two_outputs_are_one_node():
    graph = og.Graph()
    left, right = og.op.Split(graph.input("x", shape=(4,)), num_outputs=2)
    assert owner(left) == owner(right)
    assert len({owner(left), owner(right)}) == 1


def test_P1_dependencies_are_all_variables_below():
    _graph, x, y, total, z = small()
    found = og.tools.get_dep_vars(z)
    assert found[:2] == [x, y]
    assert set(found) > {x, y, total, z}
    assert og.tools.get_dep_vars([total]) == [x, y, total]
    assert og.tools.get_dep_vars(z, "Add") == [total]
    assert og.tools.get_dep_vars([]) == []


def test_P2_a_traversal_is_six_maps():
    _graph, x, _, total, z = small()
    found = og.tools.graph_traversal(z)
    add, mul = owner(total), owner(z)
    assert set(found.nodes) == {node.id for node in found.inputs_left}
    assert found.vars["x"] == x
    assert found.node_of[total] == add
    assert [node.op_type for node in found.readers[add]] == ["Relu"]
    assert found.inputs_left[add] == 0
    assert found.inputs_left[mul] == 2
    assert found.ready[2] == (mul,)


def test_P2_the_sequence_is_by_priority_then_by_age():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    a, b, c = og.op.Sin(x), og.op.Cos(x), og.op.Tan(x)
    end = og.op.Sum(c, b, a)
    assert [node.op_type for node in og.tools.node_sequence(end)] == ["Sin", "Cos", "Tan", "Sum"]
    owner(c).priority = -1
    owner(a).priority = 5
    assert [node.op_type for node in og.tools.node_sequence(end)] == ["Tan", "Cos", "Sin", "Sum"]


def test_P2_constants_and_shapes_of_reshapes_can_be_left_out():
    graph = og.Graph()
    x, y = graph.input("x", shape=("N", 2)), graph.input("y", shape=("N", 2))
    z = og.op.Reshape(x * 2, og.op.Shape(y) * 1)
    names = [node.op_type for node in og.tools.node_sequence(z)]
    assert sorted(names) == ["Mul", "Mul", "Reshape", "Shape"]
    assert [node.op_type for node in og.tools.node_sequence(z, prune_reshape=True)] == ["Mul", "Reshape"]
    assert "Constant" in [node.op_type for node in og.tools.node_sequence(z, prune_constants=False)]


def test_P2_a_cycle_is_an_error():
    _graph, _, _, total, z = small()
    total.value.producer().replace_input_with(0, z.value)
    with pytest.raises(GraphError, match="cycle"):
        og.tools.node_sequence(z)


def test_P4_priorities_come_from_a_scope():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with graph.priority(3):
        a = og.op.Sin(x)
        with graph.priority(5):
            b = og.op.Cos(x)
        with graph.priority(-2):
            c = og.op.Tan(x)
        with graph.priority(0):
            d = og.op.Exp(x)
    e = og.op.Abs(x)
    assert [owner(var).priority for var in (a, b, c, d, e)] == [3, 3, -2, 3, 0]


def test_P4_the_scope_ends_with_an_error_too():
    graph = og.Graph()
    with pytest.raises(ZeroDivisionError), graph.priority(3):
        raise ZeroDivisionError
    assert owner(og.op.Sin(graph.input("x", shape=(2,)))).priority == 0


def test_P4_a_node_that_is_asked_for_twice_has_the_lower_priority():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    for number in (5, 2, 9):
        with graph.priority(number):
            y = og.op.Sin(x)
    assert owner(y).priority == 2


def test_P4_ids_become_priorities_where_there_are_none():
    _graph, _, _, total, z = small()
    owner(total).priority = 77
    og.tools.set_priority_to_id(z)
    assert owner(total).priority == 77
    assert owner(z).priority == owner(z).id


def test_L12_an_extra_dependency_is_computed_whenever_the_variable_is():
    graph = og.Graph()
    shared, x = og.SharedTensor(f32([0, 0])), graph.input("x", shape=(2,))
    y = x * 2
    graph.add_extra_dep(y, og.add_update(graph.param(shared), x))
    assert (y + 1).eval(x=X).tolist() == [3, -9]
    assert np.array_equal(shared.get(), X)  # type: ignore[arg-type]
    og.op.Sin(x).eval(x=X)
    assert np.array_equal(shared.get(), X)  # type: ignore[arg-type]


def test_L12_dependencies_of_two_graphs_are_refused():
    graph, x, *_ = small()
    with pytest.raises(GraphError, match="belongs to graph"):
        graph.add_extra_dep(x, small()[1])


def test_F19_eval_reads_what_inputs_and_parameters_hold():
    graph = og.Graph()
    y = graph.input("x", value=f32([1])) + graph.param(og.SharedTensor(f32([2])))
    assert y.eval().tolist() == [3]
    assert y.eval(x=np.asarray([5], np.float32)).tolist() == [7]


def test_F13_a_replaced_variable_is_followed_to_the_end():
    graph = og.Graph()
    x = graph.input("x", shape=(2, 3))
    y = x @ graph.param(og.SharedTensor(floats(3, 4))) + graph.param(og.SharedTensor(floats(4)))
    (new,) = og.tools.optimize_vars(y)
    assert owner(new).op_type == "Gemm"
    assert og.tools.replaced_var(y) == new
    (newer,) = og.tools.optimize_vars(new * 1.0)
    assert og.tools.replaced_var(y) == og.tools.replaced_var(new)
    np.testing.assert_allclose(newer.eval(x=floats(2, 3)), y.eval(x=floats(2, 3)))


def test_F13_a_variable_that_was_never_replaced_is_itself():
    *_, z = small()
    assert og.tools.replaced_var(z) == z


def test_F13_what_nothing_computes_any_more_is_none():
    graph = og.Graph()
    x = graph.input("x", shape=(2, 3))
    product = x @ graph.param(og.SharedTensor(floats(3, 4)))
    og.tools.optimize_vars(product + graph.param(og.SharedTensor(floats(4))))
    assert og.tools.replaced_var(product) is None


def test_F13_only_the_last_optimization_counts():
    _, x, *_, z = small()
    og.tools.optimize_vars(z)
    (last,) = og.tools.optimize_vars(z)
    assert og.tools.replaced_var(z) == last
    assert og.tools.replaced_var(x).graph is last.graph  # type: ignore[union-attr]


def test_F18_the_cost_of_nodes_is_estimated():
    graph = og.Graph()
    x, w = graph.input("x", shape=(8, 32)), graph.input("w", shape=(32, 16))
    y = og.op.Relu(x @ w).sum(axis=1)
    product, relu, total = og.tools.cost_of(y)
    assert (product.node.op_type, product.flops) == ("MatMul", 2 * 8 * 32 * 16)
    assert product.bytes_read == 4 * (8 * 32 + 32 * 16)
    assert product.bytes_written == 4 * 8 * 16
    assert (relu.flops, total.flops) == (8 * 16, 8 * 16)
    assert product.intensity > relu.intensity
    assert json.loads(total.params)["keepdims"] == 0


def test_F18_a_cost_without_shapes_is_not_known():
    graph = og.Graph()
    product, shape = og.tools.cost_of([graph.input("x") @ graph.input("w"), og.op.Shape(graph.input("y"))])
    assert product.flops is None
    assert shape.flops == 0


def test_E2_a_model_becomes_a_graph_and_a_graph_a_model():
    _, _, _, _, z = small()
    graph, outputs = og.Graph.from_model(z.graph.to_model({"z": z}))
    assert outputs["z"].eval(x=X, y=Y).tolist() == [6, 0]
    assert [var.name for var in graph.inputs] == ["x", "y"]


def test_a_graph_of_an_old_model_is_raised_to_an_opset():
    graph = og.Graph(opset=14)
    x = graph.input("x", shape=(2,))
    raised, outputs = og.Graph.from_model(graph.to_model({"y": (x * x).sum()}), opset=20)
    assert raised.opset == 20
    assert og.gradients(outputs["y"], raised.inputs[0]) is not None
