"""Bodies of If, Loop, Scan and SequenceMap as Python functions, and gradients through them."""

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError, OptionError
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import f32, floats


def values(variables, **feeds):
    """The values of variables, with all inputs that are fed."""
    graph = variables[0].graph
    fed = [variable for variable in graph.inputs if variable.name in feeds]
    return graph.compile(None, [copy_output(v) for v in (*variables, *fed)])(**feeds)[: len(variables)]


def both_gradients(y, wrt, **feeds):
    """Real and virtual gradients of a sum, which must be the same."""
    found = [
        values([og.gradients(y.sum(), x, use_virtual_grad=virtual) for x in wrt], **feeds) for virtual in (False, True)
    ]
    for real, virtual in zip(*found, strict=True):
        np.testing.assert_allclose(real, virtual, rtol=1e-6)
    return found[0]


@pytest.mark.parametrize(("condition", "expected", "slope"), [(True, [2, 4], 2), (False, [2, 3], 1)])
def test_if_takes_one_of_two_functions_which_use_outer_variables(condition, expected, slope):
    graph = og.Graph()
    x, c = graph.input("x", shape=(2,)), graph.input("c", "bool", ())
    y = og.op.If(c, then_branch=lambda: x * 2, else_branch=lambda: x + 1)
    feeds = {"x": f32([1, 2]), "c": np.asarray(condition)}
    assert values([y], **feeds)[0].tolist() == expected
    assert both_gradients(y, [x], **feeds)[0].tolist() == [slope, slope]


def test_if_may_return_several_values_numbers_and_outer_variables():
    graph = og.Graph()
    x, c = graph.input("x", shape=(2,)), graph.input("c", "bool", ())
    first, second = og.op.If(c, then_branch=lambda: (x, 1.0), else_branch=lambda: (x * 3, 2.0))
    found = values([first, second], x=f32([1, 2]), c=np.asarray(False))
    assert [value.tolist() for value in found] == [[3, 6], 2]


def test_branches_must_return_equally_many_values():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with pytest.raises(GraphError, match="equally many values"):
        og.op.If(graph.input("c", "bool", ()), then_branch=lambda: x, else_branch=lambda: (x, x))


def test_branches_must_return_the_same_types():
    graph = og.Graph()
    with pytest.raises(GraphError, match="different types"):
        og.op.If(graph.input("c", "bool", ()), then_branch=lambda: 1.0, else_branch=lambda: 1)


def test_a_loop_carries_values_and_scans_others():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    total, steps = og.op.Loop(3, True, x, body=lambda i, go, h: (go, h * 2 + x, h))
    found = values([total, steps], x=f32([1, 2]))
    assert found[0].tolist() == [15, 30]
    assert found[1].tolist() == [[1, 2], [3, 6], [7, 14]]
    assert both_gradients(total, [x], x=f32([1, 2]))[0].tolist() == [15, 15]


def test_a_loop_may_stop_early():
    graph = og.Graph()
    x = graph.input("x", shape=())
    y = og.op.Loop(100, True, x, body=lambda i, go, h: (h * 2 < 50.0, h * 2))
    assert values([y], x=f32(3))[0] == 96
    assert both_gradients(y, [x], x=f32(3))[0] == 32


def test_a_carried_value_may_change_its_size():
    graph = og.Graph()
    x = graph.input("x", shape=(1,))
    y = og.op.Loop(3, True, x, body=lambda i, go, h: (go, og.op.Concat(h, h, axis=0)))
    assert y.shape is not None
    assert not isinstance(y.shape[0], int)
    assert values([y], x=f32([7]))[0].tolist() == [7] * 8


def test_a_body_is_written_for_the_shapes_of_all_rounds():
    graph = og.Graph()
    x = graph.input("x", shape=(1, 2))
    shapes = []

    def body(i, go, h):
        shapes.append(h.shape)
        return go, og.op.Concat(h, h, axis=0)

    og.op.Loop(3, True, x, body=body)
    assert shapes[0] == (1, 2)
    assert not isinstance(shapes[-1][0], int)
    assert shapes[-1][1] == 2


def test_a_carried_value_may_not_change_its_type():
    graph = og.Graph()
    with pytest.raises(GraphError, match="changes its type"):
        og.op.Loop(3, True, graph.input("x"), body=lambda i, go, h: (go, h.astype("float64")))


def test_a_body_that_returns_too_little_is_refused():
    graph = og.Graph()
    with pytest.raises(GraphError, match="needs 2 or more"):
        og.op.Loop(3, True, graph.input("x"), body=lambda i, go, h: go)


def test_bodies_that_were_thrown_away_use_nothing():
    graph = og.Graph()
    x, z = graph.input("x", shape=(1,)), graph.input("z", shape=(1,))
    og.op.Loop(3, True, x, body=lambda i, go, h: (go, og.op.Concat(h, z, axis=0)))
    assert len(z.value.uses()) == 1


def test_a_scan_goes_over_slices_with_a_state():
    graph = og.Graph()
    x, w = graph.input("x", shape=(4, 2)), graph.input("w", shape=(2,))
    state = graph.constant(f32([0, 0]))
    last, rows = og.op.Scan(state, x, num_scan_inputs=1, body=lambda h, row: (h + row * w, h))
    feeds = {"x": floats(4, 2), "w": f32([1, 10])}
    found = values([last, rows], **feeds)
    expected = np.cumsum(feeds["x"] * feeds["w"], axis=0)
    np.testing.assert_allclose(found[0], expected[-1])
    np.testing.assert_allclose(found[1][1:], expected[:-1])
    dx, dw = both_gradients(last, [x, w], **feeds)
    np.testing.assert_allclose(dx, np.broadcast_to(feeds["w"], (4, 2)))
    np.testing.assert_allclose(dw, feeds["x"].sum(0))


def test_a_scan_takes_slices_along_other_axes():
    graph = og.Graph()
    x = graph.input("x", shape=(2, 5))
    shapes = []

    def body(column):
        shapes.append(column.shape)
        return column * 2

    y = og.op.Scan(x, num_scan_inputs=1, scan_input_axes=[1], body=body)
    assert shapes == [(2,)]
    assert np.array_equal(values([y], x=floats(2, 5))[0], floats(2, 5).T * 2)


def test_a_scan_needs_to_know_its_scanned_inputs():
    graph = og.Graph()
    with pytest.raises(InputError, match="num_scan_inputs=3"):
        og.op.Scan(graph.input("x", shape=(2, 5)), num_scan_inputs=3, body=lambda row: row)


def test_a_sequence_is_mapped_by_a_function():
    graph = og.Graph()
    x, w = graph.input("x", shape=(2,)), graph.input("w", shape=(2,))
    pair = og.op.SequenceConstruct(x, x + 1)
    mapped = og.op.SequenceMap(pair, body=lambda item: item * w)
    y = og.op.SequenceAt(mapped, 0) + og.op.SequenceAt(mapped, 1) * 10
    feeds = {"x": f32([1, 2]), "w": f32([3, 4])}
    assert values([y], **feeds)[0].tolist() == [3 + 60, 8 + 120]
    assert [grad.tolist() for grad in both_gradients(y, [x, w], **feeds)] == [[33, 44], [21, 32]]


def test_bodies_may_hold_bodies():
    graph = og.Graph()
    x, c = graph.input("x", shape=()), graph.input("c", "bool", ())

    def step(i, go, h):
        return go, og.op.If(c, then_branch=lambda: h * x, else_branch=lambda: h + x)

    y = og.op.Loop(3, True, x, body=step)
    for condition, expected, slope in ((True, 16, 32), (False, 8, 4)):
        feeds = {"x": f32(2), "c": np.asarray(condition)}
        assert values([y], **feeds)[0] == expected
        assert both_gradients(y, [x], **feeds)[0] == slope


def test_parameters_can_be_used_in_a_body():
    graph = og.Graph()
    shared, x = og.SharedTensor(f32([2])), graph.input("x", shape=(1,))
    y = og.op.Loop(2, True, x, body=lambda i, go, h: (go, h * shared))
    assert values([y], x=f32([3]))[0].tolist() == [12]
    grad = og.gradients(y.sum(), shared)
    assert grad is not None
    assert values([grad], x=f32([3]))[0].tolist() == [12]


def test_a_variable_of_a_body_that_is_finished_is_refused():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    kept: list[og.Var] = []

    def branch():
        kept.append(x * 2)
        return kept[0]

    og.op.If(graph.input("c", "bool", ()), then_branch=branch, else_branch=lambda: x)
    with pytest.raises(GraphError, match="belongs to a body that is finished"):
        kept[0] + 1
    with pytest.raises(GraphError, match="belongs to a body that is finished"):
        og.gradients(kept[0].sum(), x)


def test_gradients_can_be_taken_inside_a_body():
    graph = og.Graph()
    x = graph.input("x", shape=())

    def newton(i, go, h):
        f = h * h - x
        slope = og.gradients(f, h)
        assert slope is not None
        return go, h - f / slope

    y = og.op.Loop(6, True, x, body=newton)
    np.testing.assert_allclose(values([y], x=f32(2))[0], 2**0.5, rtol=1e-6)


def test_a_body_that_returns_something_else_is_refused():
    graph = og.Graph()
    with pytest.raises(GraphError, match="returns 'text'"):
        og.op.If(graph.input("c", "bool", ()), then_branch=lambda: "text", else_branch=lambda: "text")


def test_an_operator_without_bodies_takes_no_function():
    graph = og.Graph()
    with pytest.raises(OptionError, match="give a number"):
        og.op.LeakyRelu(graph.input("x"), alpha=lambda: 1)  # type: ignore[arg-type]


def test_an_error_in_a_body_leaves_the_graph_usable():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with pytest.raises(ZeroDivisionError):
        og.op.Loop(2, True, x, body=lambda i, go, h: 1 / 0)
    assert values([x + 1], x=f32([1, 2]))[0].tolist() == [2, 3]


def test_a_graph_with_bodies_can_be_cloned_and_replaced_in():
    graph = og.Graph()
    x, z = graph.input("x", shape=(2,)), graph.input("z", shape=(2,))
    y = og.op.Loop(2, True, x, body=lambda i, go, h: (go, h + z))
    copy = og.tools.inter_graph_var(graph.clone(y), y)
    assert copy.eval(x=f32([1, 2]), z=f32([10, 20])).tolist() == [21, 42]
    (other,) = og.tools.replace_vars([y], {z: x})
    assert other.eval(x=f32([1, 2])).tolist() == [3, 6]
    assert y.eval(x=f32([1, 2]), z=f32([10, 20])).tolist() == [21, 42]
