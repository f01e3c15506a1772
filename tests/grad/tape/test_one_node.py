"""Table G of docs/semantics.md: one operator as a graph of its own, inferred and run."""

import gc
import logging
import subprocess
import sys
import threading
import weakref

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import InputError, ShapeError
from onnxgrad.engine.graph.operand import Call
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.grad.tape import kernels
from onnxgrad.grad.tape.inference import (
    Description,
    described,
    empty,
    infer_output_attrs,
    infer_output_attrs_fallible,
    infer_output_mem_desc,
    invoke_op,
    output_count,
)
from onnxgrad.grad.tape.kernels import CACHES, KERNELS, clear_caches
from onnxgrad.grad.tape.one_node import Spec, one_node
from onnxgrad.grad.tape.payload import one_device
from onnxgrad.grad.tape.tensor import execute

F, I = ir.DataType.FLOAT, ir.DataType.INT64  # noqa: E741
X = og.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def shapes(found):
    return [entry.shape for entry in found]


def test_G1_a_placeholder_is_a_description_or_a_tensor():
    logical = Description(F, (None, 3))
    assert described(logical) is logical
    physical = described(X)
    assert physical is not None
    assert (physical.dtype, physical.shape, physical.device) == (F, (2, 3), Device())
    assert described(X) is not physical


def test_G2_a_static_value_is_read_when_it_is_asked_for_and_kept():
    placed = described(og.Tensor([1, 2]))
    assert placed is not None
    assert placed.value is None
    first = placed.static_value(may_sync=False)
    assert first is not None
    assert first.tolist() == [1, 2]
    assert placed.static_value() is first
    assert Description(I, (2,)).static_value() is None
    waiting = described(og.Tensor([1, 2]))
    assert waiting is not None
    waiting.device = Device("cuda", 0)
    assert waiting.static_value(may_sync=False) is None


@pytest.mark.parametrize("taken", [True, False])
def test_G3_a_choice_between_graphs_runs_as_one_operator(taken):
    def branch(number):
        graph = ir.Graph([], [], nodes=[], opset_imports={"": 26}, name="branch")
        node = ir.node("Constant", [], {"value": ir.tensor(np.float32(number))})
        graph.append(node)
        node.outputs[0].name = "value"
        graph.outputs.append(node.outputs[0])
        return graph

    got = og.op.If(og.Tensor(taken), then_branch=branch(1), else_branch=branch(2), outputs=1)
    assert isinstance(got, og.Tensor)
    assert got.item() == (1 if taken else 2)


def test_G4_what_is_inferred_holds_for_one_operator_and_leaves_nothing_behind():
    made = one_node("Relu", "", {}, 1, [Spec(F, (2, 3))])
    other = one_node("Relu", "", {}, 1, [Spec(F, (4,))])
    assert made.graph is not other.graph
    assert [str(v.outputs[0].shape) for v in (made.node, other.node) if v is not None] == ["[2,3]", "[4]"]


def test_G5_constants_are_not_folded_into_the_operator():
    made = one_node("Add", "", {}, 1, [Spec(I, (1,), np.array([1])), Spec(I, (1,), np.array([2]))])
    assert made.node is not None
    assert made.node.op_type == "Add"


def test_G6_an_output_whose_inputs_say_too_little_has_no_shape(caplog):
    found, _ = infer_output_attrs_fallible("MatMul", [X, Description(F, None)])
    assert shapes(found) == [None]
    with caplog.at_level(logging.WARNING):
        found, settled = infer_output_attrs_fallible("MatMul", [X, Description(F, (5, 4))])
    assert (shapes(found), settled) == ([None], False)
    assert "something is missing for shape inference of MatMul" in caplog.text


def test_G7_strict_inference_fails_where_the_fallible_one_says_unknown():
    with pytest.raises(ShapeError, match="failed to infer the shape of output 0 of NonZero"):
        infer_output_attrs("NonZero", [X])
    found, settled = infer_output_attrs_fallible("NonZero", [X])
    assert (shapes(found), settled) == ([(2, None)], False)


def test_G9_each_call_has_a_graph_of_its_own_with_names_of_its_own():
    made = one_node("Split", "", {"num_outputs": 2}, 2, [Spec(F, (4,))])
    assert [value.name for value in made.outputs] == ["y0", "y1"]
    assert len({value.name for value in (*made.graph.inputs, *made.outputs)}) == 3


def test_G10_equal_operators_are_made_each_time_and_their_kernels_once():
    clear_caches()
    for _ in range(3):
        og.op.Relu(X)
    assert len(CACHES.kernels) == 1
    og.op.Relu(X.reshape(6))
    assert len(CACHES.kernels) == 3  # Reshape, and Relu of another rank


def test_G11_the_cache_of_kernels_is_bounded_and_drops_the_oldest(monkeypatch):
    monkeypatch.setattr(CACHES, "kernels", kernels.LeastRecent(4))
    axes = range(7)
    for axis in axes:
        og.op.Softmax(og.Tensor(np.ones((1,) * 7, np.float32)), axis=axis)
    assert len(CACHES.kernels) == 4
    assert KERNELS > 100


def test_G11_each_thread_has_a_cache_of_its_own():
    og.op.Relu(X)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(len(CACHES.kernels)))
    thread.start()
    thread.join()
    assert seen == [0]


def test_G12_an_error_is_raised_by_the_call_that_made_it_and_the_next_call_is_clean():
    x = og.Tensor(np.ones((2, 3), np.float32))
    for _ in range(2):
        with pytest.raises(og.errors.ExecutionError):
            x @ x
    assert (x @ x.T).shape == (2, 2)


def test_G13_what_only_graphs_can_do_is_an_error_on_tensors():
    graph = og.Graph()
    with pytest.raises(og.errors.OnnxGradError):
        graph.compile([], [X])  # type: ignore[list-item]


def test_G14_the_sessions_of_a_thread_close_when_it_ends():
    kept: list[weakref.ref] = []

    def work():
        og.op.Relu(X)
        kept.extend(weakref.ref(kernel) for kernel in CACHES.kernels._entries.values())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert [found() for found in kept] == [None]


def test_G14_a_process_ends_cleanly_while_a_tape_records():
    code = "import onnxgrad as og; x = og.Tensor([1.0]); g = og.Grad(); g.__enter__(); g.wrt(x); y = og.op.Exp(x) * x"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_G15_a_call_keeps_neither_inputs_nor_outputs_alive_also_when_it_fails():
    def payload_of_failed_call():
        x = og.Tensor(np.ones((2, 3), np.float32)) + 1.0
        with pytest.raises(og.errors.ExecutionError):
            x @ x
        return weakref.ref(x._payload)

    def payloads_of_call():
        x = og.Tensor(np.ones((2, 3), np.float32)) + 1.0
        return weakref.ref(x._payload), weakref.ref(og.op.Relu(x)._payload)

    failed, fine = payload_of_failed_call(), payloads_of_call()
    gc.collect()  # the error's traceback holds frames
    assert [found() for found in (failed, *fine)] == [None] * 3


def test_G16_strict_inference_reads_elements():
    assert shapes(infer_output_attrs("Reshape", [X, og.Tensor([3, 2])])) == [(3, 2)]
    assert shapes(infer_output_attrs("TopK", [X, np.array([2])])) == [(2, 2), (2, 2)]
    (found,) = infer_output_attrs("Cast", [X], {"to": int(ir.DataType.DOUBLE)})
    assert (found.dtype, found.device) == (ir.DataType.DOUBLE, Device())


CASES = [
    ("Add", [X, X], None, [(2, 3)], True),
    ("MatMul", [X, Description(F, (3, None))], None, [(2, None)], False),
    ("MatMul", [X, Description(F, (3, 4))], None, [(2, 4)], True),
    ("Concat", [X, X], {"axis": 0}, [(4, 3)], True),
    ("Reshape", [X, np.array([3, 2])], None, [(3, 2)], False),
    ("Reshape", [X, Description(I, (2,))], None, [(None, None)], False),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "wanted", "settled"), CASES)
def test_G17_fallible_inference_says_whether_the_call_is_settled(op_type, inputs, attributes, wanted, settled):
    found, got = infer_output_attrs_fallible(op_type, inputs, attributes)
    assert (shapes(found), got) == (wanted, settled)


def test_G18_outputs_are_counted_by_the_specification():
    assert output_count("Split", [X], {"num_outputs": 3}) == 3
    assert output_count("TopK", [X, np.array([1])]) == 2
    assert output_count("LayerNormalization", [X, X]) == 1


def test_G19_memory_of_outputs_is_numbered_from_one():
    outputs, workspaces = infer_output_mem_desc("Split", [X], {"num_outputs": 3, "axis": 1})
    assert [(need.number, need.shape, need.size) for need in outputs] == [
        (1, (2, 1), 8),
        (2, (2, 1), 8),
        (3, (2, 1), 8),
    ]
    assert workspaces == []


def test_G20_an_operator_writes_into_memory_that_is_given():
    given = empty((2, 3), F)
    address = given.ort_value.data_ptr()
    invoke_op("Mul", [X, X], [given])
    assert given.ort_value.data_ptr() == address
    np.testing.assert_array_equal(given.numpy(), X.numpy() ** 2)


@pytest.mark.parametrize(
    "outputs", [[empty((3, 2), F)], [empty((2, 3), I)], [], [empty((2, 3), F)] * 2], ids=["shape", "dtype", "0", "2"]
)
def test_G20_memory_that_does_not_fit_is_refused(outputs):
    with pytest.raises(InputError):
        invoke_op("Mul", [X, X], outputs)


def test_G21_a_call_is_one_node_whose_inputs_are_those_of_the_graph():
    made = one_node("Clip", "", {}, 1, [Spec(F, (3,)), None, Spec(F, ())])
    assert made.node is not None
    assert [value for value in made.node.inputs if value is not None] == list(made.graph.inputs)
    assert len(made.graph) == 1


def test_G23_shapes_are_inferred_without_reading_a_device():
    far = Description(I, (2,), Device("cuda", 0))
    found, settled = infer_output_attrs_fallible("Expand", [X, far])
    assert (shapes(found), settled) == ([(None, None)], False)


def test_G25_tensors_of_two_devices_are_refused_unless_they_are_shapes():
    cuda, cpu = Device("cuda", 0), Device()
    matrix, index = kernels.code_of(int(F), 2), kernels.code_of(int(I), 1)
    with pytest.raises(InputError, match="on different devices"):
        one_device([(cuda, matrix), (cpu, matrix)], "Add")
    with pytest.raises(InputError, match="on different devices"):
        one_device([(cuda, matrix), (Device("cuda", 1), matrix)], "Add")
    assert one_device([(cuda, matrix), (cpu, index)], "Reshape") == cuda


def test_the_kernel_of_a_call_is_found_by_all_that_it_depends_on():
    clear_caches()
    one, wide = og.Tensor([1.0, 2.0]), og.Tensor(np.ones((2, 2), np.float32))
    calls = [
        Call("Softmax", (one,), {"axis": 0}),
        Call("Softmax", (wide,), {"axis": 0}),
        Call("Softmax", (wide,), {"axis": 1}),
        Call("Softmax", (og.Tensor(np.ones(2)),), {"axis": 0}),
        Call("LogSoftmax", (one,), {"axis": 0}),
        Call("Clip", (one, None, np.ones((), np.float32)), {}),
        Call("Clip", (one, np.ones((), np.float32), None), {}),
        Call("Clip", (one, np.ones((), np.float32)), {}),
        Call("LeakyRelu", (one,), {"alpha": 1.0}),
        Call("LeakyRelu", (one,), {"alpha": 0.5}),
    ]
    for count, call in enumerate(calls, 1):
        execute(call)
        execute(call)
        assert len(CACHES.kernels) == count
    execute(Call("Softmax", (og.Tensor(np.ones(7, np.float32)),), {"axis": 0}))
    assert len(CACHES.kernels) == len(calls)


def test_operators_with_a_known_fault_have_a_kernel_for_each_size():
    x = og.Tensor(np.arange(4, dtype=np.float32))
    for _ in range(20):
        got = og.op.ScatterND(x, np.zeros((3, 1), np.int64), og.Tensor([1.0, 2.0, 3.0]), reduction="add")
        assert got.tolist() == [6, 1, 2, 3]
