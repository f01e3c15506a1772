"""Table B of docs/semantics.md: inputs on the host."""

import re
import warnings

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.host_tensor import SILENCE, HostTensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BIG = np.zeros((40, 40), np.float32)


def host(shape=None, dtype=ir.DataType.FLOAT, **options):
    return HostTensor("x", dtype, shape, **options)


def test_B1_an_input_is_registered_under_its_host_tensor():
    graph = og.Graph()
    x = graph.input("x", shape=(2, 3))
    tensor = graph.source_of(x)
    assert isinstance(tensor, HostTensor)
    assert graph.add_source(tensor) == x and len(graph.inputs) == 1


def test_B1_what_is_no_input_has_no_source():
    graph = og.Graph()
    with pytest.raises(GraphError, match="it is the output of Relu"):
        graph.source_of(og.op.Relu(graph.input("x", shape=(3,))))
    with pytest.raises(GraphError, match="it is a constant"):
        graph.source_of(graph.constant([1.0]))


def test_B1_a_name_is_that_of_one_input():
    graph = og.Graph()
    graph.input("x")
    with pytest.raises(GraphError, match="input 'x' already"):
        graph.input("x")


def test_B2_an_empty_input_switches_early_allocation_off():
    graph = og.Graph()
    graph.options.allocate_static_mem_after_graph_compile = True
    graph.input("x", value=X)
    assert graph.options.allocate_static_mem_after_graph_compile
    graph.input("y", shape=(2, 3))
    assert not graph.options.allocate_static_mem_after_graph_compile


def test_B2_the_shape_is_declared_or_as_free_as_it_was_left():
    graph = og.Graph()
    assert graph.input("a", shape=("N", 3)).shape == ("N", 3)
    assert graph.input("b").shape is None
    free = graph.input("c", value=X).shape
    assert free is not None and len(free) == 2 and not any(isinstance(dim, int) for dim in free)


@pytest.mark.parametrize("static_infer", [True, False])
def test_B2_the_tensor_knows_whether_its_value_may_be_inferred_from(static_infer):
    graph = og.Graph()
    x = graph.input("x", value=X, static_infer=static_infer)
    assert HostTensor.from_var(x).static_infer is static_infer


def test_B2_a_value_is_what_the_input_has_until_a_call_gives_another():
    graph = og.Graph()
    x = graph.input("x", value=X)
    np.testing.assert_array_equal(HostTensor.from_var(x).array, X)


def test_B3_the_tensor_of_an_input_is_shared_and_says_whose_it_is():
    graph = og.Graph()
    x = graph.input("x", shape=("N", 3))
    proxy = HostTensor.from_var(x)
    assert proxy is HostTensor.from_var(x)
    assert repr(proxy) == "<HostTensor of input 'x': float32[N, 3], empty>"


def test_B3_only_inputs_on_the_host_have_one():
    graph = og.Graph()
    with pytest.raises(GraphError, match="no input on the host"):
        HostTensor.from_var(graph.param(og.SharedTensor(X)))


def test_B4_a_borrowed_array_is_never_written():
    tensor, array = host(), X.copy()
    tensor.borrow_on_cpu = True
    tensor.set(array, borrow=True)
    tensor.set(X + 1)
    np.testing.assert_array_equal(array, X)
    np.testing.assert_array_equal(tensor.array, X + 1)


def test_B4_own_storage_keeps_the_value_of_a_borrowed_array():
    tensor, array = host(), X.copy()
    tensor.borrow_on_cpu = True
    tensor.set(array, borrow=True)
    tensor.ensure_own_storage()
    array[:] = 9
    np.testing.assert_array_equal(tensor.array, X)
    assert not tensor.is_borrowed


def test_B4_resizing_a_borrowed_array_allocates():
    tensor = host()
    tensor.borrow_on_cpu = True
    tensor.set(X, borrow=True)
    tensor.resize((2, 3))
    assert not np.may_share_memory(tensor.array, X)


def test_B4_memory_is_used_again_for_the_same_shape():
    tensor = host()
    tensor.set(X)
    before, value = tensor.array, tensor.ort_value
    tensor.set(X + 1)
    assert tensor.array is before and tensor.ort_value is value
    np.testing.assert_array_equal(value.numpy(), X + 1)


@pytest.mark.parametrize(("on_cpu", "shares"), [(False, False), (True, True)])
def test_B5_borrowing_on_the_cpu_is_asked_for(on_cpu, shares):
    tensor, array = host(), X.copy()
    tensor.borrow_on_cpu = on_cpu
    tensor.set(array, borrow=True)
    assert np.may_share_memory(tensor.array, array) is shares
    assert (tensor.ort_value.data_ptr() == array.ctypes.data) is shares


@pytest.mark.parametrize("value", [X.astype(np.float64), X.T, X.tolist()], ids=["dtype", "strided", "list"])
def test_B5_what_must_be_converted_is_not_borrowed(value):
    tensor = host()
    tensor.borrow_on_cpu = True
    tensor.set(value, borrow=True)
    assert tensor.array.dtype == np.float32 and tensor.array.flags.c_contiguous
    np.testing.assert_array_equal(tensor.array, np.asarray(value))


SLOW = {
    "is no numpy array": BIG.tolist(),
    "float64 is converted to float32": BIG.astype(np.float64),
    "is not contiguous": BIG[:, ::2].repeat(2, axis=0).T,
}


@pytest.mark.parametrize(("reason", "value"), SLOW.items())
def test_B6_a_large_slow_value_is_warned_of_once(reason, value, monkeypatch):
    monkeypatch.delenv(SILENCE, raising=False)
    tensor = host()
    with pytest.warns(UserWarning, match=re.escape(reason)) as caught:
        tensor.set(value)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor.set(value)


@pytest.mark.parametrize(("value", "silence"), [(BIG, "0"), (BIG.astype(np.float64), "1"), (X.tolist(), "0")])
def test_B6_nothing_is_said_of_quick_or_small_values_nor_when_silenced(value, silence, monkeypatch):
    monkeypatch.setenv(SILENCE, silence)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host().set(value)


def test_B7_an_input_of_a_graph_is_marked_as_one():
    graph = og.Graph()
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape(["N", 2]))
    graph.ir.inputs.append(value)
    x = graph.mark_as_input(value)
    assert x.dtype == np.int64 and (x.name, x.shape) == ("x", ("N", 2))
    assert graph.mark_as_input(value) == x and HostTensor.from_var(x) is graph.source_of(x)


def test_B7_what_is_no_input_of_this_graph_is_refused():
    graph, other = og.Graph(), og.Graph()
    with pytest.raises(GraphError, match="no typed input"):
        graph.mark_as_input(other.input("x").value)


@pytest.mark.parametrize("shape", [(3, 3), (2,), (2, 3, 1)])
def test_a_value_of_another_shape_is_refused(shape):
    with pytest.raises(InputError, match=r"float32\[2, N, \?\]|float32\[2, N\]"):
        host((2, "N")).set(np.zeros(shape))


def test_a_number_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(InputError, match="is no int64"):
        host(dtype=ir.DataType.INT64).set([0.5])


def test_an_empty_tensor_has_no_array():
    tensor = host((2,))
    assert tensor.is_empty
    with pytest.raises(InputError, match="has no value"):
        _ = tensor.array


def test_strings_are_a_value():
    tensor = host(dtype=ir.DataType.STRING)
    tensor.set(["a", "b"])
    assert tensor.array.tolist() == ["a", "b"]


def test_packed_elements_are_read_again_after_a_new_value():
    tensor = host(dtype=ir.DataType.INT4)
    for number in (1, 3):
        tensor.set([number, number])
        assert tensor.ort_value.tensor_size_in_bytes() == 1
        np.testing.assert_array_equal(np.asarray(tensor.array, np.int8), [number] * 2)
