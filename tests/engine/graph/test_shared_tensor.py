"""Table A of docs/semantics.md: parameters outside of graphs."""

import copy
import gc
import logging
import pickle
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError, OptionError, ProviderError
from onnxgrad.engine.runtime.memory import parse_device
from onnxgrad.engine.runtime.values import to_numpy, to_ort

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class FakeValue:
    """What a callback is given."""

    def __init__(self, array, is_eager=False):
        self.is_eager, self.tensor = is_eager, to_ort(array)

    def ort_value(self):
        return self.tensor

    def get(self):
        return to_numpy(self.tensor)


class Lazy:
    """A value that counts how often it is made."""

    def __init__(self, value, shape=None):
        self.value, self.shape, self.made = value, shape or value.shape, 0

    def get_shape(self):
        return self.shape

    def get_value(self):
        self.made += 1
        return self.value


def address(tensor):
    """Where the value is now; `data_ptr` would make it stay there."""
    return tensor.ort_value.data_ptr()


def test_A1_a_tensor_outside_of_graphs_is_no_variable_of_one():
    with pytest.raises(GraphError, match="in which graph MatMul is to run"):
        og.SharedTensor(X) @ og.SharedTensor(X.T)


def test_A1_tensors_meet_inside_of_with_graph():
    with (graph := og.Graph()):
        y = og.SharedTensor(X) @ og.SharedTensor(X.T)
    assert isinstance(y, og.Var) and y.graph is graph and y.shape == (2, 2)


def test_A1_a_graph_is_entered_by_one_thread():
    w, found = og.SharedTensor(X.T @ X), []

    def work():
        with pytest.raises(GraphError, match="in which graph"):
            found.append(w @ w)

    with og.Graph():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not found


@pytest.mark.parametrize("write", [lambda w, x: w @ x, lambda w, x: x.T @ w, og.op.MatMul])
def test_A1_a_tensor_is_an_operand_beside_a_variable(write):
    graph = og.Graph()
    w, x = og.SharedTensor(np.ones((3, 3)), "float32", name="w"), graph.input("x", shape=(3, 3))
    assert write(w, x).graph is graph
    assert [v.name for v in graph.inputs] == ["x", "w"]


def test_A2_the_first_shape_is_given_once():
    tensor = og.SharedTensor()
    tensor.init_shape((2, 3))
    assert tensor.shape == (2, 3)
    with pytest.raises(GraphError, match="first shape once"):
        tensor.init_shape((2, 3))


def test_A2_value_and_shape_together_are_refused():
    with pytest.raises(OptionError, match="shape from its value"):
        og.SharedTensor(X, shape=(2, 3))


@pytest.mark.parametrize("shape", [(2, 3), ((2, 3),), ([2, 3],)])
def test_A3_resize_allocates_and_returns_itself(shape):
    tensor = og.SharedTensor([1.0])
    assert tensor.resize(*shape) is tensor
    assert tensor.shape == (2, 3) and tensor.ort_value.tensor_size_in_bytes() == 24


def test_A3_a_negative_size_is_refused():
    with pytest.raises(InputError, match="is no shape"):
        og.SharedTensor().resize(2, -1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int4"])
def test_A4_zero_fills_the_memory_that_is_there(dtype):
    tensor = og.SharedTensor(np.ones((3, 5)), dtype=dtype)
    before = address(tensor)
    tensor.zero()
    assert (tensor.shape, tensor.dtype.name, address(tensor)) == ((3, 5), dtype, before)
    assert not np.asarray(tensor).any()


def test_A4_an_empty_tensor_cannot_be_zeroed():
    with pytest.raises(GraphError, match="without a shape"):
        og.SharedTensor().zero()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "uint8", "float8_e4m3fn", "int4", "bool"])
def test_A5_copy_from_numpy_keeps_dtype(dtype):
    tensor = og.SharedTensor(dtype=dtype)
    tensor.set(np.array([[0.0, 1.0, 1.0]], np.float64))
    assert (tensor.dtype.name, tensor.shape) == (dtype, (1, 3))
    np.testing.assert_array_equal(np.asarray(tensor).astype(float), [[0, 1, 1]])


def test_A5_the_shape_becomes_that_of_the_array():
    tensor = og.SharedTensor(X)
    before = address(tensor)
    tensor.set(X + 1)
    assert address(tensor) == before
    tensor.set(np.zeros((4, 1, 2)))
    assert tensor.shape == (4, 1, 2)


@pytest.mark.parametrize(("value", "dtype"), [(1.5, "float32"), ([1, 2], "int64"), (np.float64(1), "float64")])
def test_A5_without_a_dtype_it_is_that_of_the_first_value(value, dtype):
    assert og.SharedTensor(value).dtype == dtype


def test_A5_a_number_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(InputError, match="is no int32"):
        og.SharedTensor([1], dtype="int32").set([1.5])


@pytest.mark.parametrize("array", [X.T, X[:, ::2], X[::-1]])
def test_A5_arrays_need_not_be_contiguous(array):
    np.testing.assert_array_equal(og.SharedTensor(array).get(), array)


@pytest.mark.slow
def test_A5_a_torch_tensor_is_a_value():
    import torch

    np.testing.assert_array_equal(og.SharedTensor(torch.arange(3.0)).get(), [0, 1, 2])


def test_A6_a_value_that_is_not_synchronised_is_copied_when_it_is_read():
    tensor, array = og.SharedTensor([0.0, 0.0]), np.array([1, 2], np.float32)
    tensor.set(array, sync=False)
    array[0] = 5  # must not be done, and shows that nothing was copied yet
    np.testing.assert_array_equal(tensor.get(), [5, 2])


def test_A6_the_array_is_held_until_it_is_copied():
    tensor, array = og.SharedTensor([0.0]), np.array([1], np.float32)
    held = weakref.ref(array)
    tensor.set(array, sync=False)
    del array
    gc.collect()
    assert held() is not None
    assert (tensor.sync(), tensor.sync()) == (True, False)
    gc.collect()
    assert held() is None


def test_A7_reading_an_empty_tensor_gives_none():
    assert og.SharedTensor().get() is None


def test_A7_reading_gives_a_copy():
    tensor = og.SharedTensor(X)
    value = tensor.get()
    assert value is not None
    value[:] = 9
    np.testing.assert_array_equal(tensor.get(), X)


def test_A8_dtype_shape_and_device_are_known():
    tensor = og.SharedTensor(X, dtype="bfloat16", name="w")
    assert (tensor.dtype, tensor.shape, tensor.ndim, tensor.device) == (ml_dtypes.bfloat16, (2, 3), 2, "cpu")
    assert repr(tensor) == "<SharedTensor 'w': bfloat16[2, 3] on cpu>"


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:x", "cuda:"])
def test_A8_an_unknown_device_is_refused(device):
    with pytest.raises(OptionError, match="no device"):
        og.SharedTensor(device=device)


def test_A8_a_device_that_does_not_work_is_refused():
    try:
        parse_device("cuda:63")
    except ProviderError as error:
        assert "cuda" in str(error)
    else:
        pytest.skip("CUDA works here")


def test_A9_a_callback_value_is_copied(caplog):
    tensor, value = og.SharedTensor([0.0]), FakeValue(X)
    with caplog.at_level(logging.WARNING):
        tensor.set(value)
    np.testing.assert_array_equal(tensor.get(), X)
    assert address(tensor) != value.tensor.data_ptr()
    assert not caplog.records


def test_A9_an_eager_value_is_warned_of_with_a_traceback(caplog):
    og.SharedTensor([0.0]).set(FakeValue(X, is_eager=True))
    (record,) = caplog.records
    assert "lazy callback" in record.message and "test_A9_an_eager_value" in record.stack_info


def test_A10_a_callback_value_is_shared_without_a_copy():
    tensor, value = og.SharedTensor([0.0]), FakeValue(X)
    tensor.set(value, share=True)
    assert address(tensor) == value.tensor.data_ptr()


@pytest.mark.parametrize("value", [X, og.SharedTensor(X)], ids=["array", "tensor"])
def test_A10_only_a_callback_value_is_shared(value):
    with pytest.raises(OptionError, match="share=True"):
        og.SharedTensor().set(value, share=True)


def test_A10_a_callback_value_of_another_dtype_is_refused():
    with pytest.raises(InputError, match="float64"):
        og.SharedTensor(X).set(FakeValue(X.astype(float)))


@pytest.mark.parametrize("volatile", [False, True])
def test_A11_a_variable_gives_back_its_tensor(volatile):
    graph, w = og.Graph(), og.SharedTensor(X)
    assert og.SharedTensor.from_var(graph.param(w, volatile=volatile)) is w


def test_A11_any_other_variable_cannot_be_converted():
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    for var, kind in ((x + x, "Add"), (x, "HostTensor"), (graph.constant([1.0]), "Constant")):
        with pytest.raises(GraphError, match=f"cannot convert from {kind}"):
            og.SharedTensor.from_var(var)


def test_A12_a_fixed_variable_has_the_shape_and_a_volatile_one_the_rank():
    graph, w = og.Graph(), og.SharedTensor(X, name="w")
    fixed, volatile = w.var(graph), w.var(graph, "v", volatile=True)
    assert (fixed.name, fixed.shape) == ("w", (2, 3))
    assert volatile.name == "v" and volatile.ndim == 2 and not any(isinstance(d, int) for d in volatile.shape or ())


def test_A12_the_variable_of_a_tensor_is_made_once():
    graph, w = og.Graph(), og.SharedTensor(X)
    assert graph.param(w) == graph.param(w)
    assert len(graph.inputs) == 1


def test_A12_a_fixed_variable_needs_a_shape():
    graph, w = og.Graph(), og.SharedTensor()
    with pytest.raises(GraphError, match="without a shape"):
        graph.param(w)
    assert graph.param(w, volatile=True).shape is None


def test_A18_a_lazy_value_is_made_at_the_first_read():
    tensor, lazy = og.SharedTensor(), Lazy(X)
    tensor.lazy_initializer = lazy
    assert og.Graph().param(tensor).shape == tensor.shape == (2, 3) and lazy.made == 0
    for _ in range(2):
        np.testing.assert_array_equal(tensor.get(), X)
    assert lazy.made == 1 and tensor.lazy_initializer is None


READS = {
    "copy_from": lambda t: og.SharedTensor().copy_from(t),
    "ort_value": lambda t: t.ort_value,
    "copy_to_sub": lambda t: t.copy_to_sub(0, 0, 0, og.SharedTensor(np.zeros((0, 3), np.float32))),
    "data_ptr": lambda t: t.data_ptr(),
    "sync": lambda t: t.sync(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_A18_whatever_reads_it_makes_a_lazy_value(read):
    tensor, lazy = og.SharedTensor(), Lazy(X)
    tensor.lazy_initializer = lazy
    read(tensor)
    assert lazy.made == 1


def test_A18_a_lazy_value_is_for_an_empty_tensor():
    with pytest.raises(GraphError, match="empty"):
        og.SharedTensor(X).lazy_initializer = Lazy(X)


def test_A18_setting_a_value_drops_the_lazy_one():
    tensor, lazy = og.SharedTensor(), Lazy(X)
    tensor.lazy_initializer = lazy
    tensor.set([1.0])
    assert tensor.shape == (1,) and tensor.lazy_initializer is None and lazy.made == 0


def test_A18_a_lazy_value_of_another_shape_is_refused():
    tensor = og.SharedTensor()
    tensor.lazy_initializer = Lazy(X, shape=(3, 3))
    with pytest.raises(InputError, match="announced"):
        tensor.get()


def test_A19_setting_a_tensor_to_itself_does_nothing():
    tensor = og.SharedTensor()
    tensor.set(tensor)
    assert tensor.is_empty


def test_A19_in_place_is_for_tensors_only():
    with pytest.raises(OptionError, match="inplace=True"):
        og.SharedTensor(X).set(X, inplace=True)


@pytest.mark.parametrize("again", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("value", [X, None], ids=["set", "empty"])
def test_A19_pickling_keeps_value_dtype_name_and_device(again, value):
    tensor = og.SharedTensor(value, dtype="bfloat16", name="w")
    found = again(tensor)
    assert (found.dtype, found.name, found.device) == (tensor.dtype, "w", "cpu")
    np.testing.assert_array_equal(found.get(), tensor.get())
    if value is not None:
        assert address(found) != address(tensor)


def test_strings_are_refused():
    with pytest.raises(OptionError, match="no strings"):
        og.SharedTensor(dtype=str)


def test_an_array_of_a_tensor_is_a_copy_of_its_value():
    tensor = og.SharedTensor(X)
    array = np.asarray(tensor)
    array[:] = 0
    np.testing.assert_array_equal(np.asarray(tensor, dtype=np.int32), X)
