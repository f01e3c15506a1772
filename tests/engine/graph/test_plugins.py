"""Plugins of computing graphs: row P9."""

import io
import json
import sys

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import ExecutionError, OptionError
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import f32


def division():
    """log(x / y) * 2"""
    graph = og.Graph()
    x, y = graph.input("x", shape=(2,)), graph.input("y", shape=(2,))
    return graph, x, y, og.op.Log(x / y) * 2


def test_P9_the_profiler_gives_the_time_of_every_node():
    graph, x, y, z = division()
    profile = graph.compile([x, y], copy_output(z)).profile(f32([1, 2]), f32([1, 2]), runs=3)
    assert {"Div", "Log", "Mul"} <= set(profile.by_op_type)
    assert all(node.calls == 3 for node in profile.nodes)
    assert json.loads(json.dumps(profile.to_dict()))["runs"] == 3
    assert "Div" in str(profile)


def test_P9_profiling_updates_nothing_and_reads_parameters():
    graph = og.Graph()
    shared, x = og.SharedTensor(f32([1, 2])), graph.input("x", shape=(2,))
    function = graph.compile([x], og.add_update(graph.param(shared), x))
    assert function.profile(f32([5, 5]), runs=2).runs == 2
    assert np.array_equal(shared.get(), [1, 2])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="runs=0"):
        function.profile(f32([5, 5]), runs=0)


@pytest.mark.parametrize(
    ("x", "y", "limit", "problem", "node"),
    [
        ([1, 0], [1, 0], np.inf, r"NaN \(1 of 2\)", "Div"),
        ([1, 1], [1, 0], np.inf, r"infinity \(1 of 2\)", "Div"),
        ([1, 0], [1, 1], np.inf, r"infinity \(1 of 2\)", "Log"),
        ([1, 100], [1, 1], 50, "100, which is beyond 50", "Div"),
        ([1, np.e**30], [1, 1], 1e20, None, None),
    ],
)
def test_P9_the_range_checker_names_the_first_node_out_of_range(x, y, limit, problem, node):
    graph, *inputs, z = division()
    with og.plugins.NumberRangeChecker(graph, limit):
        function = graph.compile(inputs, copy_output(z))
        if problem is None:
            function(f32(x), f32(y))
            return
        with pytest.raises(ExecutionError, match=f"{node}' holds {problem}"):
            function(f32(x), f32(y))


def test_P9_the_range_checker_tells_where_the_node_was_made():
    graph = og.Graph()
    with og.plugins.track_nodes(graph):
        x, y = graph.input("x", shape=(2,)), graph.input("y", shape=(2,))
        z = x / y
    with og.plugins.NumberRangeChecker(graph):
        function = graph.compile([x, y], copy_output(z))
        with pytest.raises(ExecutionError, match=r"test_plugins.py"):
            function(f32([1, 0]), f32([1, 0]))


def test_P9_a_plugin_that_is_closed_sees_nothing():
    graph, x, y, z = division()
    with og.plugins.NumberRangeChecker(graph):
        watched = graph.compile([x, y], copy_output(z))
    after = graph.compile([x, y], copy_output(z))
    for function in (watched, after):
        assert np.isnan(function(f32([1, 0]), f32([1, 0]))[1])
    assert graph.observers == []


def test_P9_integers_and_strings_are_in_range():
    graph = og.Graph()
    x = graph.input("x", "int64", (2,))
    with og.plugins.NumberRangeChecker(graph, 10):
        function = graph.compile([x], copy_output(og.op.Concat(x, x, axis=0)))
        function(np.asarray([1, -10]))
        with pytest.raises(ExecutionError, match="11, which is beyond 10"):
            function(np.asarray([1, -11]))


def test_P9_a_text_dump_has_a_line_for_each_output():
    graph, x, y, z = division()
    file = io.StringIO()
    with og.plugins.TextDump(graph, file):
        graph.compile([x, y], copy_output(z))(f32([2, 4]), f32([1, 2]))
    lines = file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["Div", "Log", "Mul"]
    assert "min 2 mean 2 max 2 [2. 2.]" in lines[0]


def test_P9_a_text_dump_closes_the_file_it_opened(tmp_path):
    graph, x, y, z = division()
    with og.plugins.TextDump(graph, tmp_path / "dump.txt"):
        graph.compile([x, y], copy_output(z))(f32([2, 4]), f32([1, 2]))
    assert len((tmp_path / "dump.txt").read_text().splitlines()) == 3


def test_P9_a_binary_dump_holds_the_arrays(tmp_path):
    graph, x, y, z = division()
    with og.plugins.BinaryDump(graph, tmp_path):
        function = graph.compile([x, y], copy_output(z))
        for _ in range(2):
            function(f32([2, 4]), f32([1, 2]))
    entries = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [entry["op_type"] for entry in entries] == ["Div", "Log", "Mul"] * 2
    with np.load(tmp_path / entries[4]["file"], allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["Log"], np.log([2, 2]), rtol=1e-6)
    assert entries[0]["outputs"] == {"Div": ["float32", [2]]}


def test_P9_a_binary_dump_holds_types_that_numpy_lacks(tmp_path):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with og.plugins.BinaryDump(graph, tmp_path):
        graph.compile([x], copy_output(og.op.Cast(x, to=16)))(f32([1, 2]))
    with np.load(tmp_path / "000001.npz", allow_pickle=False) as arrays:
        assert arrays["Cast"].nbytes == 4


def test_P9_gradients_are_seen_by_plugins():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    grad = og.gradients(og.op.Sqrt(x).sum(), x)
    assert grad is not None
    with og.plugins.NumberRangeChecker(graph):
        function = graph.compile([x], copy_output(grad))
        with pytest.raises(ExecutionError, match="holds infinity"):
            function(f32([1, 0]))


def test_P9_plugins_of_ones_own_see_nodes_and_values():
    class Counter(og.plugins.Observing):
        seen: list[tuple[str, list]] = []  # noqa: RUF012

        def observe(self, node, outputs):
            self.seen.append((node.op_type, [array.tolist() for array in outputs]))

    graph, x, y, z = division()
    with Counter(graph) as counter:
        graph.compile([x, y], copy_output(z))(f32([2, 4]), f32([1, 2]))
    assert counter.seen[0] == ("Div", [[2, 2]])
    assert len(counter.seen) == 3


def test_P9_a_node_remembers_where_it_was_made_in_a_block_that_tracks():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    before = x * 2
    with og.plugins.track_nodes(graph):
        line = sys._getframe().f_lineno + 1
        inside = x * 3
    assert f'test_plugins.py", line {line}' in og.plugins.origin(graph, inside.value.producer().name)  # type: ignore[union-attr, arg-type]
    assert og.plugins.origin(graph, before.owner) == ""  # type: ignore[arg-type]
    assert "onnxgrad/engine" not in og.plugins.origin(graph, inside.owner)  # type: ignore[arg-type]


def test_P9_a_node_of_a_gradient_was_made_where_its_operator_was():
    graph = og.Graph()
    with og.plugins.track_nodes(graph):
        x = graph.input("x", shape=(2,))
        loss = og.op.Tanh(x).sum()
    og.gradients(loss, x, use_virtual_grad=False)
    gradient = next(node for node in graph.ir if (node.name or "").startswith("Tanh.grad."))
    assert og.plugins.origin(graph, gradient.name or "") == og.plugins.origin(graph, "Tanh") != ""


def test_P9_an_error_in_a_block_that_tracks_says_where_the_node_was_made():
    graph = og.Graph()
    graph.set_option("graph_opt_level", 0)
    x, s = graph.input("x", shape=("N",)), graph.input("s", "int64", (1,))
    with pytest.raises(ExecutionError) as caught, og.plugins.track_nodes(graph):
        y = og.op.Reshape(x, s)
        graph.compile([x, s], copy_output(y))(f32([1, 2]), np.asarray([3]))
    assert any("test_plugins.py" in note for note in caught.value.__notes__)
