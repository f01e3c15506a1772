"""New outputs from old ones: rows P3 and P5."""

import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.marks import PRIORITY
from tests.engine.graph.test_tools import X, Y, owner, small
from tests.engine.text_models import f32, floats


def test_P3_replaced_variables_give_new_outputs():
    _graph, x, y, total, z = small()
    (new,) = og.tools.replace_vars([z], {total: x - y})
    assert new != z
    assert new.eval(x=X, y=Y).tolist() == [0, 0]
    assert z.eval(x=X, y=Y).tolist() == [6, 0]


def test_P3_an_empty_map_changes_nothing():
    _, _, _, _, z = small()
    assert og.tools.replace_vars([z], {}) == [z]
    assert og.tools.replace_nodes([z], {}) == [z]


def test_P3_what_does_not_depend_on_the_replaced_stays_shared():
    _graph, x, y, total, z = small()
    apart = og.op.Cos(x)
    replaced, same = og.tools.replace_vars([z + apart, apart], {total: y})
    assert same == apart
    assert [node.op_type for node in og.tools.node_sequence(replaced)].count("Cos") == 1


def test_P3_a_target_may_be_replaced_itself():
    _, x, _, _, z = small()
    assert og.tools.replace_vars([z], {z: x}) == [x]


def test_P3_variables_of_two_graphs_are_refused():
    _, _, _, total, z = small()
    _, x, *_ = small()
    with pytest.raises(GraphError, match="variables of one graph"):
        og.tools.replace_vars([z], {total: x})


def test_P3_types_must_agree():
    graph, _, _, total, z = small()
    with pytest.raises(GraphError, match="types differ"):
        og.tools.replace_vars([z], {total: graph.input("i", "int64", (2,))})


def test_P3_nodes_are_replaced_output_by_output():
    _, x, y, total, z = small()
    (new,) = og.tools.replace_nodes([z], {owner(total): owner(x * y)})
    assert new.eval(x=X, y=Y).tolist() == [4, 0]


def test_P3_nodes_of_other_numbers_of_outputs_are_refused():
    _graph, x, _, total, z = small()
    left, _ = og.op.Split(x, num_outputs=2)
    with pytest.raises(GraphError, match="a node with 2 outputs cannot stand for one with 1"):
        og.tools.replace_nodes([z], {owner(total): owner(left)})


def test_P3_extra_dependencies_are_carried_over():
    graph, x, _y, total, z = small()
    graph.add_extra_dep(z, og.op.Cos(total))
    (new,) = og.tools.replace_vars([z], {total: x})
    (dep,) = graph.dependencies[new.value]
    assert dep.producer().op_type == "Cos"
    assert dep.producer().inputs[0] is x.value


def test_P3_shapes_of_new_outputs_are_inferred_anew():
    graph = og.Graph()
    x, wide = graph.input("x", shape=(2, 3)), graph.input("wide", shape=(2, 7))
    y = og.op.Relu(x).sum(axis=0)
    assert og.tools.replace_vars([y], {x: wide})[0].shape == (7,)


def test_P5_variables_are_found_by_name_in_order():
    graph, x, y, total, z = small()
    assert og.tools.find_vars_by_name([z], ["y", total.name, "x"]) == [y, total, x]
    assert owner(og.tools.find_vars_by_name(graph, ["Sin"])[0]).op_type == "Sin"
    with pytest.raises(GraphError, match="no variable 'Sin'"):
        og.tools.find_vars_by_name([z], ["Sin"])


@pytest.mark.parametrize("data", [{"x": X, "y": Y}, [X, Y], [[1, -5], [2, 3]]])
def test_P5_inputs_are_embedded_as_constants(data):
    _, _, _, _, z = small()
    (fixed,) = og.tools.embed_inputs([z], data)
    assert og.tools.host_inputs([fixed]) == []
    assert fixed.eval().tolist() == [6, 0]


def test_P5_some_inputs_may_be_embedded():
    _, _, y, _, z = small()
    (fixed,) = og.tools.embed_inputs([z], {"x": X})
    assert og.tools.host_inputs([fixed]) == [y]


@pytest.mark.parametrize(("data", "message"), [({"w": X}, "no input 'w'"), ([X], "2 inputs"), ({"x": floats(3)}, "x")])
def test_P5_embedding_what_does_not_fit_is_refused(data, message):
    _, _, _, _, z = small()
    with pytest.raises(InputError, match=message):
        og.tools.embed_inputs([z], data)


def test_P5_parameters_are_converted_to_inputs():
    graph = og.Graph()
    shared = og.SharedTensor(f32([1, 2]), name="w")
    z = graph.param(shared) * graph.input("x", shape=(2,))
    (converted,) = og.tools.convert_inputs([z])
    names = [var.name for var in og.tools.host_inputs([converted])]
    assert names == ["x", "w.input"]
    assert converted.eval(**{"x": X, "w.input": f32([10, 10])}).tolist() == [10, -50]


def test_a_copied_node_keeps_its_priority():
    _graph, x, _, total, z = small()
    owner(z).priority = 4
    (new,) = og.tools.replace_vars([z], {total: x})
    assert owner(new).ir.meta[PRIORITY] == 4
