"""Options of computing graphs: rows E13 and O, one by one, and values that are computed twice."""

import logging

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import EquivalenceError, GraphError, OptionError
from onnxgrad.engine.graph import compiling, optimization
from onnxgrad.engine.graph.execution import Execution
from onnxgrad.engine.graph.optimization import providers_of
from onnxgrad.engine.graph.options import GraphOptions
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import f32, floats


def tuning(function):
    """How the session of a function is run."""
    return function._execution.options()


def doubled(graph, **options):
    """y = 2x, compiled with options."""
    for name, value in options.items():
        graph.set_option(name, value)
    x = graph.input("x", shape=(3,))
    return graph.compile([x], copy_output(x * 2))


def test_E13_setting_gives_the_old_value():
    graph = og.Graph()
    assert graph.set_option("log_level", 0) == 1
    assert graph.set_option("log_level", 2) == 0
    assert graph.options.log_level == 2


def test_E13_an_unknown_option_is_an_error_with_a_hint():
    with pytest.raises(OptionError, match="graph_opt_level"):
        og.Graph().set_option("graph_opt_levl", 1)
    with pytest.raises(OptionError, match="there is no option"):
        og.Graph().options.nothing = 1


@pytest.mark.parametrize("value", ["1", 1.5, None])
def test_O_options_are_numbers_and_bools(value):
    with pytest.raises(OptionError, match="whole number or a bool"):
        og.Graph().set_option("log_level", value)


def test_E13_the_environment_gives_defaults_and_warns(monkeypatch):
    monkeypatch.setenv("ONNXGRAD_GRAPH_OPTIONS", "log_level=0; seq_opt.enable_mem_reuse_alloc=0")
    with pytest.warns(UserWarning, match="ONNXGRAD_GRAPH_OPTIONS sets"):
        graph = og.Graph()
    assert (graph.options.log_level, graph.options.enable_mem_reuse_alloc) == (0, 0)


@pytest.mark.parametrize("text", ["log_level", "log_level=high", "nothing=1"])
def test_E13_an_environment_that_cannot_be_read_is_an_error(monkeypatch, text):
    monkeypatch.setenv("ONNXGRAD_GRAPH_OPTIONS", text)
    with pytest.raises(OptionError):
        og.Graph()


def test_O_graphs_have_options_of_their_own():
    first, second = og.Graph(), og.Graph()
    first.set_option("log_level", 0)
    assert second.options.log_level == 1


@pytest.mark.parametrize(
    "name", ["eager_evaluation", "enable_dtr_memory_opt", "enable_memory_swap", "jit", "allreduce_pack_max_size"]
)
def test_O_an_option_without_meaning_cannot_be_switched_on(name):
    options = GraphOptions()
    with pytest.raises(OptionError, match="has no meaning here"):
        options.set(name, 1)
    assert options.set(name, 0) == 0


@pytest.mark.parametrize(("level", "theirs"), [(0, "none"), (1, "basic"), (2, "all"), (3, "all"), (-1, "basic")])
def test_O_graph_opt_level_sets_the_level_of_the_runtime(level, theirs):
    assert tuning(doubled(og.Graph(), graph_opt_level=level)).level == theirs


def norm_by_hand(level, parts=False):
    """A LayerNormalization in single operators, its gradient, and the operators that run."""
    graph = og.Graph()
    graph.set_option("graph_opt_level", level)
    x, scale = graph.input("x", shape=(4, 8)), graph.input("scale", shape=(8,))
    centred = x - x.mean(axis=-1, keepdims=True)
    y = centred / og.op.Sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale
    grad = og.gradients((y * y * x).sum(), x, use_virtual_grad=True)
    data = floats(4, 8) / 7, f32(np.linspace(1, 2, 8))
    if parts:
        first, second = graph.compile_multi_part([([x, scale], [copy_output(y)]), ([], [copy_output(grad)])])  # type: ignore[arg-type]
        return [*first(*data), *second()], operators(first)
    function = graph.compile([x, scale], [copy_output(y), copy_output(grad)])  # type: ignore[arg-type]
    return function(*data), operators(function)


def operators(function):
    """The operators that a function runs."""
    return {node.op_type for node in function._execution.lowered.model.graph}


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in parts"])
def test_O_at_level_two_the_forward_part_is_optimized_before_gradients(parts):
    plain, before = norm_by_hand(1, parts)
    fused, after = norm_by_hand(2, parts)
    assert "LayerNormalization" not in before
    assert "LayerNormalization" in after
    for one, other in zip(plain, fused, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_P4_parts_run_their_nodes_by_priority():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with graph.priority(9):
        late = og.op.Exp(x)
    with graph.priority(-9):
        early = og.op.Sin(x)
    (part,) = graph.compile_multi_part([([x], [copy_output(late), copy_output(early)])])
    assert [node.op_type for node in part._execution.lowered.model.graph] == ["Sin", "Exp"]


def test_O_at_level_three_the_whole_is_optimized_too():
    def nodes(level):
        graph = og.Graph()
        graph.set_option("graph_opt_level", level)
        x = graph.input("x", shape=(3,))
        y = og.op.Identity(x * 1.0 + 0.0)
        function = graph.compile([x], copy_output(og.op.Neg(og.op.Neg(y))))
        assert np.array_equal(function(f32([1, 2, 3])), [1, 2, 3])
        return len(function._execution.lowered.model.graph)

    assert nodes(3) < nodes(2)


def test_O_a_negative_level_compares_the_first_run(monkeypatch):
    monkeypatch.setattr(compiling, "before_gradients", wrong_lowering)
    with pytest.raises(EquivalenceError, match="other values than the graph as it was written"):
        doubled(og.Graph(), graph_opt_level=-2)(f32([1, 2, 3]))
    assert np.array_equal(doubled(og.Graph(), graph_opt_level=2)(f32([1, 2, 3])), [3, 6, 9])


def wrong_lowering(options, lower):
    """A pass that breaks the model: constants become 3."""
    lowered = lower(None)
    for node in lowered.model.graph:
        if node.op_type == "Mul":
            three = next(n for n in lowered.model.graph if n.op_type == "Constant")
            import onnx_ir as ir

            three.attributes["value"] = ir.AttrTensor("value", ir.tensor(f32(3)))
            three.outputs[0].const_value = ir.tensor(f32(3))
    return lowered


def test_O_a_negative_level_accepts_what_is_right_and_updates():
    graph = og.Graph()
    graph.set_option("graph_opt_level", -2)
    shared, x = og.SharedTensor(f32([1, 2])), graph.input("x", shape=(2,))
    function = graph.compile([x], copy_output(og.add_update(graph.param(shared), x * 2)))
    for _ in range(2):
        function(f32([1, 1]))
    assert np.array_equal(shared.get(), [5, 6])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value", "attribute", "expected"),
    [
        ("enable_mem_plan_opt", 0, "memory_pattern", False),
        ("force_dynamic_alloc", 1, "memory_pattern", False),
        ("enable_mem_reuse_alloc", 0, "reuse", False),
        ("async_exec_level", 4, "parallel", True),
        ("async_exec_level", 1, "parallel", False),
        ("graph_opt_level", 2, "memory_pattern", True),
    ],
)
def test_O_memory_and_threads_are_as_the_options_say(option, value, attribute, expected):
    function = doubled(og.Graph(), **{option: value})
    assert getattr(tuning(function).tuning, attribute) is expected
    assert np.array_equal(function(f32([1, 2, 3])), [2, 4, 6])


def test_O_var_sanity_check_finds_an_input_that_changes_under_the_first_run(monkeypatch):
    function = doubled(og.Graph())
    x = f32([1, 2, 3])
    monkeypatch.setattr(function._execution, "_ready", lambda: Meddling(x))
    with pytest.raises(GraphError, match="'x' was modified while a function ran"):
        function(x)


class Meddling:
    """An executor that writes where it should not."""

    def __init__(self, array):
        self.array = array

    def run(self, feeds, held, buffers):
        self.array += 1
        return {}


def test_O_var_sanity_check_can_be_switched_off():
    assert doubled(og.Graph(), var_sanity_check_first_run=0)._execution.first_run is None


def test_O_var_sanity_check_looks_at_the_first_run_only():
    function = doubled(og.Graph())
    function(f32([1, 2, 3]))
    assert function._execution.first_run is None


def counting(graph):
    """A function with an input that has a value, a callback and an update; what they have done."""
    shared = og.SharedTensor(f32([0]))
    x = graph.input("x", value=f32([1]))
    seen: list[float] = []
    update = og.add_update(graph.param(shared), x)
    function = graph.compile([x], [copy_output(x * 2), (x + 1, lambda v: seen.append(v.get())), update])
    return function, shared, seen


def test_O_allocate_static_mem_after_graph_compile_runs_once_for_nobody(monkeypatch):
    runs = []
    original = Execution._run

    def watched(*given, **options):
        runs.append(options)
        return original(*given, **options)

    monkeypatch.setattr(Execution, "_run", watched)
    graph = og.Graph()
    graph.set_option("allocate_static_mem_after_graph_compile", 1)
    _, shared, seen = counting(graph)
    assert runs == [{"for_nobody": True}]
    assert np.array_equal(shared.get(), [0])
    assert seen == []


def test_B2_an_empty_input_switches_the_run_at_compile_off():
    graph = og.Graph()
    graph.set_option("allocate_static_mem_after_graph_compile", 1)
    graph.input("x", shape=(2,))
    assert graph.options.allocate_static_mem_after_graph_compile == 0


def test_O_fake_next_exec_prepares_and_is_over():
    graph = og.Graph()
    function, shared, seen = counting(graph)
    graph.set_option("fake_next_exec", 1)
    assert function(f32([5])) is None
    assert graph.options.fake_next_exec == 0
    assert (np.array_equal(shared.get(), [0]), seen) == (True, [])
    function(f32([5]))
    assert np.array_equal(shared.get(), [5])
    assert len(seen) == 1


@pytest.mark.parametrize("other", ["fake_next_exec", "var_sanity_check_first_run"])
def test_O_recording_without_dependencies_refuses_what_it_cannot_go_with(other):
    graph = og.Graph()
    graph.set_option("fake_next_exec", 0)
    graph.set_option("var_sanity_check_first_run", 0)
    graph.set_option(other, 1)
    with pytest.raises(OptionError, match=f"does not go with {other}"):
        doubled(graph, comp_node_seq_record_level=2)


@pytest.mark.parametrize("option", ["comp_node_seq_record_level", "no_profiling_on_shape_change"])
def test_O_options_of_cuda_do_no_harm_on_the_cpu(option):
    assert np.array_equal(doubled(og.Graph(), **{option: 1})(f32([1, 2, 3])), [2, 4, 6])


def test_O_precision_is_lowered_for_inference_where_asked():
    def outputs(**options):
        graph = og.Graph()
        for name, value in options.items():
            graph.set_option(name, value)
        x, w = graph.input("x", shape=(2, 16)), og.SharedTensor(floats(16, 16) / 33)
        function = graph.compile([x], copy_output(x @ graph.param(w)), optimize_for_inference=True)
        return function(floats(2, 16) / 7)

    exact, rounded = outputs(), outputs(f16_io_comp=1)
    assert 0 < np.abs(exact - rounded).max() < 0.05 * np.abs(exact).max()


def test_O_two_precisions_are_refused():
    with pytest.raises(OptionError, match="do not go together"):
        doubled(og.Graph(), f16_io_comp=1, f16_io_f32_comp=1)


@pytest.mark.parametrize(("level", "lines"), [(0, 0), (1, 1), (2, 2)])
def test_O_log_level_says_what_is_logged(caplog, level, lines):
    graph = og.Graph()
    graph.set_option("log_level", level)
    x = graph.input("x", shape=(2,))
    with caplog.at_level(logging.INFO, "onnxgrad.graph"):
        graph.compile([x], copy_output(og.gradients((x * x).sum(), x)))  # type: ignore[arg-type]
    assert len(caplog.records) == lines


def test_P4_functions_run_their_nodes_by_priority():
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    with graph.priority(9):
        late = og.op.Sin(x)
    with graph.priority(-9):
        early = og.op.Cos(x)
    function = graph.compile([x], [copy_output(late), copy_output(og.op.Tan(x)), copy_output(early)])
    assert [node.op_type for node in function._execution.lowered.model.graph] == ["Cos", "Tan", "Sin"]
    assert tuning(function).tuning.keep_order
    assert not tuning(doubled(og.Graph())).tuning.keep_order


@pytest.mark.parametrize(
    "name",
    [
        "force_output_dynamic_alloc",
        "force_output_use_user_specified_memory",
        "enable_var_mem_defragment",
        "enable_grad_var_static_reshape",
        "disable_inplace_arith_opt",
        "comp_seq_sync_device",
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_O_options_for_what_always_holds_are_accepted(name, number):
    assert np.array_equal(doubled(og.Graph(), **{name: number})(f32([1, 2, 3])), [2, 4, 6])


def test_O_tensorrt_is_asked_first():
    options = GraphOptions()
    assert providers_of(options) is None
    options.set("tensorrt", 1)
    assert (providers_of(options) or [])[0] == "TensorrtExecutionProvider"


def test_O_a_plan_of_cuda_says_what_the_options_say(monkeypatch):
    monkeypatch.setattr(optimization, "why_not_cuda", lambda: "")
    options = GraphOptions(comp_node_seq_record_level=1, no_profiling_on_shape_change=1, enable_seq_comp_node_opt=0)
    assert providers_of(options) == [
        ("cuda", {"cuda_graph": True, "cudnn_search": "heuristic", "do_copy_in_default_stream": 1}),
        "CPUExecutionProvider",
    ]
