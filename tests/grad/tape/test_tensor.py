"""Tensors: values in and out, operators and indexing as numpy has them, other values under the same name."""

import gc
import pickle

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import onnxgrad as og
from onnxgrad.engine.graph.operand import Operand
from onnxgrad.engine.runtime.direct import raw_from_array

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 5, 3)).astype(np.float32)
WHERE = RNG.standard_normal((2, 5, 3)).astype(np.float32)

KINDS = [
    (1.5, np.float32),
    ([1, 2], np.int64),
    ([True, False], np.bool_),
    ([[1.0, 2.0]], np.float32),
    (np.float64(2.0), np.float64),
    (np.arange(3, dtype=np.uint8), np.uint8),
    (np.ones((2, 0), np.float16), np.float16),
    (np.ones(3, ml_dtypes.bfloat16), ml_dtypes.bfloat16),
    (np.ones(3, ml_dtypes.float8_e4m3fn), ml_dtypes.float8_e4m3fn),
    (np.array([1, -2, 3], ml_dtypes.int4), ml_dtypes.int4),
    (["a", "b"], np.object_),
]


@pytest.mark.parametrize(("value", "dtype"), KINDS, ids=lambda v: getattr(v, "__name__", None))
def test_a_tensor_has_the_elements_and_the_dtype_of_its_value(value, dtype):
    x = og.Tensor(value)
    assert x.dtype == np.dtype(dtype)
    assert x.shape == np.shape(value)
    assert x.numpy().tolist() == np.asarray(value).tolist()


def test_a_dtype_converts():
    assert og.Tensor([1.5, 2.0], "float64").dtype == np.float64
    assert og.Tensor(np.ones(2), ir.DataType.BFLOAT16).element_type == ir.DataType.BFLOAT16
    assert og.Tensor(og.Tensor([1.0]), "int32").numpy().tolist() == [1]


def test_arrays_are_copied():
    array = np.ones(3, np.float32)
    x = og.Tensor(array)
    array[:] = 7
    assert x.tolist() == [1, 1, 1]


def test_numpy_gives_the_memory_itself_and_it_cannot_be_written():
    x = og.Tensor([1.0, 2.0])
    assert np.shares_memory(x.numpy(), x.numpy())
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    assert np.array(x).flags.writeable


def test_an_array_outlives_its_tensor():
    array = (og.Tensor(np.arange(1000, dtype=np.float32)) * 2.0).numpy()
    gc.collect()
    junk = [og.Tensor(np.zeros(1000, np.float32)) + 1.0 for _ in range(10)]
    assert array.sum() == 999000
    del junk


def test_dlpack_shares_memory_both_ways():
    x = og.Tensor([1.0, 2.0])
    assert np.from_dlpack(x).tolist() == [1, 2]  # type: ignore[arg-type]
    array = np.arange(4, dtype=np.float32)

    class Foreign:
        def __dlpack__(self, **_):
            return array.__dlpack__()

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    shared = og.Tensor(Foreign())
    array[0] = 9
    assert shared.tolist() == [9, 1, 2, 3]


def test_an_ort_value_is_shared_unless_numpy_owns_it():
    own = (og.Tensor([1.0]) + 1.0).ort_value
    assert og.Tensor(own).ort_value.data_ptr() == own.data_ptr()
    array = np.ones(2, np.float32)
    borrowed = og.Tensor(ort.OrtValue.ortvalue_from_numpy(array))
    array[:] = 3
    assert borrowed.tolist() == [1, 1]


def test_what_is_no_tensor_is_an_error_with_advice():
    for value in (object(), np.array([object()]), np.array([1j]), {"a": 1}):
        with pytest.raises(og.errors.InputError):
            og.Tensor(value)
    with pytest.raises(og.errors.InputError, match="no device 'gpu'"):
        og.Tensor(1.0, device="gpu")


OPERATORS = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: 2.0 - a,
    lambda a, b: 1.0 / b,
    lambda a, b: b**2.0,
    lambda a, b: 2.0**a,
    lambda a, b: -abs(a),
    lambda a, b: a < b,
    lambda a, b: (a >= b) & ~(a > 1.0),
    lambda a, b: a.T @ b,
    lambda a, b: a.sum(axis=0),
    lambda a, b: a.mean(axis=(0, 1), keepdims=True),
    lambda a, b: a.max(axis=1) + b.min(),
    lambda a, b: a.reshape(2, 6).transpose(1, 0),
    lambda a, b: a.astype("float64").sum(),
]


@pytest.mark.parametrize("number", range(len(OPERATORS)))
def test_operators_are_those_of_numpy(number):
    a, b = (RNG.uniform(0.5, 2, (3, 4)).astype(np.float32) for _ in range(2))
    got, want = OPERATORS[number](og.Tensor(a), og.Tensor(b)), OPERATORS[number](a, b)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    assert got.dtype == want.dtype


KEYS = [
    1,
    -1,
    slice(1, 3),
    slice(None, None, -2),
    (slice(1, 3), slice(None), -1),
    (..., 0),
    (None, 2),
    (slice(None), None, slice(0, 2)),
    np.array([0, 2]),
    (np.array([0, 1]), np.array([2, 3])),
    A > 0,
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_indexing_is_that_of_numpy(key):
    np.testing.assert_array_equal(og.Tensor(A)[key].numpy(), A[key])


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_assignment_to_a_place_is_that_of_numpy(key):
    x, want = og.Tensor(A), A.copy()
    x[key] = 2.5
    want[key] = 2.5
    np.testing.assert_array_equal(x.numpy(), want)


def test_tensors_are_keys_too():
    x, want = og.Tensor(A), A.copy()
    x[og.Tensor([0, 2])] = WHERE
    want[[0, 2]] = WHERE
    x[x > 1.0] = 0.0
    want[want > 1] = 0
    np.testing.assert_array_equal(x.numpy(), want)
    with pytest.raises(og.errors.InputError):
        x[9] = 1.0


def test_a_value_that_is_set_changes_the_name_and_not_the_value():
    x = og.Tensor([1.0, 2.0])
    y, view = x + 0.0, x.numpy()
    x.set([3, 4])
    assert (x.tolist(), y.tolist(), view.tolist()) == ([3, 4], [1, 2], [1, 2])
    assert x.dtype == np.float32
    with pytest.raises(og.errors.InputError, match="a value of shape"):
        x.set([1.0])


def test_adding_in_place_makes_a_new_tensor():
    x = before = og.Tensor([1.0])
    x += 1.0
    assert x is not before
    assert before.tolist() == [1]


def test_one_element_is_a_number():
    one = og.Tensor([[3]])
    assert (one.item(), int(one), float(one), bool(one), [10, 20, 30, 40][og.Tensor(3)]) == (3, 3, 3.0, True, 40)
    with pytest.raises(og.errors.InputError, match="no single value"):
        bool(og.Tensor([1, 2]))
    with pytest.raises(TypeError):
        [1, 2][og.Tensor(1.0)]


def test_equality_is_identity_and_tensors_are_keys_of_dicts():
    x, y = og.Tensor([1.0]), og.Tensor([1.0])
    assert x == x
    assert x != y
    assert {x: 1}[x] == 1


def test_length_and_iteration_go_over_the_first_axis():
    x = og.Tensor([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        len(og.Tensor(1.0))


def test_operators_without_operands_run_at_once():
    assert og.op.RandomNormal(shape=[2, 3]).shape == (2, 3)


def test_a_graph_takes_operators_without_operands_while_it_is_open():
    with og.Graph() as graph:
        made = og.op.RandomNormal(shape=[2])
    assert isinstance(made, og.Var)
    assert made.graph is graph


def test_functions_take_tensors_by_name_and_give_several():
    values, indices = og.op.TopK(og.Tensor([1.0, 3.0, 2.0]), [2])
    assert (values.tolist(), indices.tolist()) == ([3, 2], [1, 2])
    assert [part.tolist() for part in og.op.Split(og.Tensor([1, 2, 3]), [1, 2])] == [[1], [2, 3]]
    assert og.op.Clip(og.Tensor([-1.0, 5.0]), max=2.0).tolist() == [-1, 2]


def test_an_operator_outside_of_the_standard_runs():
    got = og.op.custom("QuickGelu", og.Tensor([1.0]), domain="com.microsoft", alpha=1.0)
    assert isinstance(got, og.Tensor)
    np.testing.assert_allclose(got.numpy(), 1 / (1 + np.exp(-1)), rtol=1e-6)


def test_a_whole_number_for_an_attribute_of_floats_is_one():
    assert og.op.LeakyRelu(og.Tensor([-1.0]), alpha=1).tolist() == [-1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint16"])
def test_types_without_a_kernel_are_widened(dtype):
    x = og.Tensor([1, 2], dtype)
    got = og.op.Max(x * x, x)
    assert got.tolist() == [1, 4]
    assert got.dtype == x.dtype


def test_strings_go_through_operators_of_strings():
    x = og.Tensor(["a", "b"])
    assert og.op.StringConcat(x, og.Tensor(["c", "d"])).tolist() == ["ac", "bd"]


def test_errors_name_the_operator_and_the_shapes():
    with pytest.raises(og.errors.ShapeError, match=r"MatMul"):
        og.Tensor(np.ones((2, 3, 4), np.float32)) @ og.Tensor(1.0)
    with pytest.raises(og.errors.ExecutionError, match=r"float\[2, 3\], float\[2, 3\]"):
        og.Tensor(np.ones((2, 3), np.float32)) @ og.Tensor(np.ones((2, 3), np.float32))


def test_a_variable_and_a_tensor_do_not_mix_silently():
    graph = og.Graph()
    x = graph.constant([1.0])
    assert isinstance(x, Operand)
    assert isinstance(x + og.Tensor([2.0]), og.Var)


def test_a_tensor_is_copied_by_pickle():
    x = pickle.loads(pickle.dumps(og.Tensor(np.arange(3, dtype=np.int16))))
    assert (x.tolist(), x.dtype) == ([0, 1, 2], np.int16)


def test_memory_of_results_outlives_the_kernels():
    from onnxgrad.grad.tape.kernels import clear_caches

    x = og.Tensor(np.arange(6.0)) * 2.0
    clear_caches()
    gc.collect()
    assert x.numpy().sum() == 30
    assert raw_from_array(x.numpy()).shape() == [6]
