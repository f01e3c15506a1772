"""Rows F1 to F5 of docs/semantics.md: numbers that graphs read when they run."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError, OptionError
from onnxgrad.engine.graph.shared_scalar import SharedScalar


def compiled(write, *values):
    """What `write` makes of an input and these numbers, as a function."""
    graph = og.Graph()
    x = graph.input("x", shape=("N",))
    return graph.compile([x], og.copy_output(write(x, *values)))


@pytest.mark.parametrize("value", [[1, 2], [[1.0]], []])
def test_F1_a_value_must_be_scalar(value):
    with pytest.raises(InputError, match="must be scalar; got shape"):
        og.SharedScalar(value)


@pytest.mark.parametrize("value", [3, [3], np.int8(3), np.array(3.0), np.array([3], np.float16), ml_dtypes.bfloat16(3)])
def test_F1_one_element_of_any_dtype_is_a_scalar(value):
    scalar = og.SharedScalar(value)
    assert scalar.get() == 3 and scalar.shape == ()


@pytest.mark.parametrize("value", ["a", None, 1j, object()])
def test_F1_what_is_no_number_is_refused(value):
    with pytest.raises(OptionError, match="is no number"):
        og.SharedScalar(value)


def test_F1_the_dtype_may_change_before_it_is_locked():
    scalar = og.SharedScalar(0.5)
    scalar.set(1)
    assert scalar.dtype == np.int32 and scalar.get() == 1


@pytest.mark.parametrize(("value", "dtype"), [(1, "int32"), (1.0, "float32"), (np.int64(1), "int32"), (True, "bool")])
def test_F2_wide_numbers_are_narrowed(value, dtype):
    assert og.SharedScalar(value).dtype == dtype


def test_F2_a_locked_dtype_stays():
    scalar = og.SharedScalar(0.5)
    scalar.lock_dtype()
    assert scalar.dtype_locked
    text = "dtype for SharedScalar has been locked as float32, but attempt to set it to int32"
    with pytest.raises(InputError, match=text):
        scalar.set(1)
    scalar.set(1.0)
    assert scalar.get() == 1.0


def test_F2_a_graph_locks_the_dtype():
    scalar = og.SharedScalar(0.5)
    assert not scalar.dtype_locked
    og.Graph().param(scalar)
    assert scalar.dtype_locked


def test_F2_an_operator_locks_the_dtype():
    scalar = og.SharedScalar(0.5)
    assert og.Graph().input("x", shape=(3,)) * scalar is not None
    assert scalar.dtype_locked


def test_F3_one_mirror_for_a_device_which_every_set_refreshes():
    scalar = og.SharedScalar(0.5)
    mirror = scalar.ort_value
    scalar.set(0.25)
    assert scalar.ort_value is mirror is scalar.value_on("cpu")
    assert mirror.numpy() == 0.25


def test_F3_a_new_dtype_is_a_new_mirror():
    scalar = og.SharedScalar(0.5)
    assert scalar.ort_value.data_type() == "tensor(float)"
    scalar.set(1)
    assert scalar.ort_value.data_type() == "tensor(int32)"


def test_F3_functions_read_a_new_number_without_being_compiled_again():
    scalar = og.SharedScalar(2.0)
    run = compiled(lambda x, s: x * s, scalar)
    np.testing.assert_array_equal(run([1.0, 2.0]), [2, 4])
    scalar.set(3.0)
    np.testing.assert_array_equal(run([1.0, 2.0]), [3, 6])


WRITTEN = {
    "x * s": (lambda x, s: x * s, [2, 4]),
    "s * x": (lambda x, s: s * x, [2, 4]),
    "s - x": (lambda x, s: s - x, [1, 0]),
    "s ** x": (lambda x, s: s**x, [2, 4]),
    "Add(s, x)": (lambda x, s: og.op.Add(s, x), [3, 4]),
    "s < x": (lambda x, s: s < x, [False, False]),
}


@pytest.mark.parametrize(("write", "wanted"), WRITTEN.values(), ids=WRITTEN)
def test_F4_a_scalar_is_an_operand_on_either_side(write, wanted):
    np.testing.assert_array_equal(compiled(write, og.SharedScalar(2.0))([1.0, 2.0]), wanted)


def test_F4_scalars_alone_are_in_no_graph():
    with pytest.raises(GraphError, match="nothing says in which graph Mul is to run"):
        og.SharedScalar(2.0) * og.SharedScalar(2.0)


def test_F4_the_variable_is_made_once():
    graph, scalar = og.Graph(), og.SharedScalar(2.0)
    assert graph.param(scalar) == scalar.var(graph)
    assert graph.param(scalar).name == "scalar" and graph.param(scalar).shape == ()


@pytest.mark.parametrize(("value", "kind"), [(1, int), (0.5, float), (True, bool)])
def test_F5_a_python_number_is_read(value, kind):
    assert type(og.SharedScalar(value).get()) is kind


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("again", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])
def test_F5_pickling_keeps_value_dtype_and_lock(again, locked):
    scalar = og.SharedScalar(np.float16(0.5))
    if locked:
        scalar.lock_dtype()
    found = again(scalar)
    assert found.dtype == np.float16 and (found.get(), found.dtype_locked) == (0.5, locked)


def test_F5_a_pickle_that_does_not_say_is_locked():
    scalar = SharedScalar.__new__(SharedScalar)
    scalar.__setstate__({"value": 0.5})
    assert scalar.dtype_locked and scalar.get() == 0.5
