"""Rows F6 to F8 of docs/semantics.md: updates of parameters, at once and in graphs; values filled with a number."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import ExecutionError, GraphError, InputError, ShapeError
from onnxgrad.engine.graph import inplace
from onnxgrad.engine.graph.update_formula import working_type
from onnxgrad.engine.runtime.memory import part_of
from onnxgrad.engine.runtime.values import to_numpy, to_ort

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8")
COEFFICIENTS = ((1, 1, 0), (0, 1, 0), (1, 2, 0), (2, 1, 0), (2, 3, 1), (1, 1, 4), (0, 2, 1))
SHAPES = (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), (3, 1)), ((2, 3, 4), (3, 1)), ((), ()), ((0, 3), (3,)))


def small_numbers(shape, dtype, rng):
    return og.SharedTensor(rng.integers(0, 4, shape), dtype=dtype)


def wide(tensor):
    return np.asarray(tensor).astype(np.float64)


def address(tensor):
    return tensor.ort_value.data_ptr()


def updating(dest, delta, *args, **options):
    """A function of x that updates `dest` by `delta(x)`, and returns what `dest` was."""
    graph = og.Graph()
    x = graph.input("x", dtype=str(dest.dtype), shape=(None,) * len(dest.shape))
    w = graph.param(dest)
    new = og.add_update(w, delta(x), *args, **options)
    return graph.compile([x], [og.copy_output(w), new])


class FakeValue:
    """What a callback is given."""

    is_eager = False

    def __init__(self, array):
        self.tensor = to_ort(array)

    def ort_value(self):
        return self.tensor

    def get(self):
        return to_numpy(self.tensor)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_F6_the_formula_in_the_memory_of_dest(shapes, coefficients, dtype, rng):
    dest, delta = (small_numbers(shape, dtype, rng) for shape in shapes)
    before, old, (alpha, beta, bias) = address(dest), wide(dest), coefficients
    og.add_update(dest, delta, *coefficients)
    np.testing.assert_array_equal(wide(dest), alpha * old + beta * wide(delta) + bias)
    assert address(dest) == before and dest.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
@pytest.mark.parametrize("shapes", SHAPES[:4], ids=str)
def test_F6_the_operators_for_other_devices_give_the_same(shapes, coefficients, dtype, rng):
    dest, delta = (small_numbers(shape, dtype, rng) for shape in shapes)
    old, (alpha, beta, bias) = wide(dest), coefficients
    work = working_type(dest.element_type).numpy()
    inplace._on_device(dest.storage, delta.ort_value, tuple(np.asarray(c, work) for c in coefficients))
    np.testing.assert_array_equal(wide(dest), alpha * old + beta * wide(delta) + bias)


@pytest.mark.parametrize("shape", [(300, 700), (700,)], ids=["alike", "broadcast"])
def test_F6_more_elements_than_one_block(shape, rng):
    old, change = rng.random((300, 700), np.float32), rng.random(shape, np.float32)
    dest = og.SharedTensor(old)
    og.add_update(dest, change, alpha=0.5, beta=-2.0, bias=1.0)
    np.testing.assert_allclose(np.asarray(dest), 0.5 * old - 2 * change + 1, rtol=1e-6, atol=1e-6)


def test_F6_with_alpha_0_what_was_nan_is_gone():
    dest = og.SharedTensor([np.nan, np.inf])
    og.add_update(dest, [1.0, 2.0], alpha=0)
    np.testing.assert_array_equal(dest.get(), [1, 2])


def test_F6_halves_are_rounded_once():
    dest = og.SharedTensor(np.array([1.0], ml_dtypes.bfloat16))
    og.add_update(dest, np.array([1.0], ml_dtypes.bfloat16), alpha=1.001, beta=0.0031)
    assert np.asarray(dest)[0] == ml_dtypes.bfloat16(np.float32(1.001) + np.float32(0.0031))


def test_F6_dtypes_must_be_equal():
    with pytest.raises(InputError, match="dtype float64"):
        og.add_update(og.SharedTensor([1.0]), og.SharedTensor(np.ones(1)))


@pytest.mark.parametrize("shape", [(2,), (1, 3), (4, 3)])
def test_F6_delta_must_be_broadcast_to_dest(shape):
    with pytest.raises(InputError, match="cannot be broadcast"):
        og.add_update(og.SharedTensor(np.zeros(3)), np.zeros(shape))


@pytest.mark.parametrize("coefficients", [(0.5, 1, 0), (1, 0.5, 0), (1, 1, 0.5)], ids=str)
def test_F6_integers_take_integral_coefficients(coefficients):
    with pytest.raises(InputError, match="is no int64"):
        og.add_update(og.SharedTensor([1]), [1], *coefficients)


@pytest.mark.parametrize("dtype", ["bool", "int4"])
def test_F6_what_has_no_arithmetic_is_refused(dtype):
    with pytest.raises(InputError, match="no arithmetic"):
        og.add_update(og.SharedTensor([1], dtype=dtype), og.SharedTensor([1], dtype=dtype))


@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
def test_F6_a_tensor_is_its_own_delta(coefficients):
    dest, (alpha, beta, bias) = og.SharedTensor(np.arange(5.0)), coefficients
    og.add_update(dest, dest, *coefficients)
    np.testing.assert_array_equal(dest.get(), (alpha + beta) * np.arange(5) + bias)


def test_F6_delta_may_overlap_dest():
    pack = og.SharedTensor(np.arange(5.0))
    dest, delta = og.SharedTensor(shape=(4,), dtype="float64"), og.SharedTensor(shape=(4,), dtype="float64")
    dest.share_memory_from(pack, 1)
    delta.share_memory_from(pack, 0)
    og.add_update(dest, delta)
    np.testing.assert_array_equal(pack.get(), [0, 1, 3, 5, 7])


def test_F6_delta_may_be_the_value_of_a_callback():
    dest = og.SharedTensor(np.ones(3))
    og.add_update(dest, FakeValue(np.arange(3.0)), beta=2.0)
    np.testing.assert_array_equal(dest.get(), [1, 3, 5])


def test_F6_coefficients_may_be_shared_scalars():
    dest = og.SharedTensor(np.ones(3))
    og.add_update(dest, np.ones(3), alpha=og.SharedScalar(3.0), bias=og.SharedScalar(-1.0))
    np.testing.assert_array_equal(dest.get(), [3, 3, 3])


@pytest.mark.parametrize("disable", [1, og.SharedScalar(1)], ids=["number", "scalar"])
def test_F6_disabled_it_does_nothing(disable):
    dest = og.SharedTensor(np.ones(3))
    og.add_update(dest, np.ones(3), disable=disable)
    np.testing.assert_array_equal(dest.get(), [1, 1, 1])


def test_F6_disable_is_0_or_1():
    with pytest.raises(InputError, match="0 or 1"):
        og.add_update(og.SharedTensor(np.ones(3)), np.ones(3), disable=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
def test_F7_a_run_stores_the_next_value(coefficients, dtype, rng):
    dest = small_numbers((3, 4), dtype, rng)
    alpha, beta, bias = coefficients
    run = updating(dest, lambda x: x, alpha, beta, bias)
    x = np.asarray(small_numbers((3, 4), dtype, rng))
    for _ in range(2):
        old = wide(dest)
        np.testing.assert_array_equal(run(x)[0].astype(np.float64), old)
        np.testing.assert_array_equal(wide(dest), alpha * old + beta * x.astype(np.float64) + bias)


def test_F7_readers_see_the_old_value_whatever_their_order():
    graph, tensor = og.Graph(), og.SharedTensor([1.0, 2.0])
    w = graph.param(tensor)
    before = w * 2.0
    new = og.add_update(w, w)
    after = w * 3.0
    run = graph.compile([], [og.copy_output(v) for v in (before, after, new)])
    np.testing.assert_array_equal(run(), [[2, 4], [3, 6], [2, 4]])
    np.testing.assert_array_equal(tensor.get(), [2, 4])


def test_F7_a_function_that_does_not_ask_for_it_updates_nothing():
    graph, tensor = og.Graph(), og.SharedTensor([1.0])
    w = graph.param(tensor)
    og.add_update(w, w)
    graph.compile([], og.copy_output(w * 1.0))()
    np.testing.assert_array_equal(tensor.get(), [1])


def test_F7_delta_is_cast_to_the_dtype_of_dest():
    tensor = og.SharedTensor([1.0], dtype="bfloat16")
    graph = og.Graph()
    x = graph.input("x", "float64", (1,))
    graph.compile([x], [og.add_update(graph.param(tensor), x)])(np.array([2.0]))
    np.testing.assert_array_equal(wide(tensor), [3])


@pytest.mark.parametrize("kind", ["constant", "computed", "input"])
def test_F7_only_a_parameter_is_updated(kind):
    graph = og.Graph()
    x = graph.input("x", shape=(2,))
    dest = {"constant": graph.constant([1.0, 2.0]), "computed": x + x, "input": x}[kind]
    with pytest.raises(GraphError, match="a constant" if kind == "constant" else "no SharedTensor"):
        og.add_update(dest, x)


def test_F7_known_shapes_that_do_not_fit_are_refused():
    graph = og.Graph()
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        og.add_update(graph.param(og.SharedTensor([1.0, 2.0])), graph.input("x", shape=(3,)))


def test_F7_a_shape_that_does_not_fit_changes_nothing():
    dest = og.SharedTensor([[1.0, 2.0]])
    run = updating(dest, lambda x: x)
    with pytest.raises((ExecutionError, GraphError)):
        run(np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(dest.get(), [[1, 2]])
    run(np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(dest.get(), [[2, 3]])


def test_F7_disable_is_read_at_each_run():
    dest, off = og.SharedTensor([1.0]), og.SharedScalar(0)
    run = updating(dest, lambda x: x, disable=off)
    one = np.ones(1, np.float32)
    for value, wanted in ((0, 2), (1, 2), (0, 3)):
        off.set(value)
        run(one)
        np.testing.assert_array_equal(dest.get(), [wanted])


@pytest.mark.parametrize("value", [2, -1])
def test_F7_disable_must_be_0_or_1(value):
    dest, off = og.SharedTensor([1.0]), og.SharedScalar(0)
    run = updating(dest, lambda x: x, disable=off)
    off.set(value)
    with pytest.raises(ExecutionError):
        run(np.ones(1, np.float32))
    np.testing.assert_array_equal(dest.get(), [1])
    with pytest.raises(InputError, match="0 or 1"):
        updating(dest, lambda x: x, disable=value)


def test_F7_disable_must_be_an_int32():
    with pytest.raises(InputError, match="int32"):
        updating(og.SharedTensor([1.0]), lambda x: x, disable=og.SharedScalar(0.0))


def test_F7_asking_twice_for_a_pair_is_one_update():
    graph, tensor = og.Graph(), og.SharedTensor([1.0])
    w, x = graph.param(tensor), graph.input("x", shape=(1,))
    first = og.add_update(w, x, beta=-0.5)
    run = graph.compile([x], [first])
    assert og.add_update(w, x, beta=-2.0) == first
    run([1.0])  # compiled before, and sees the number
    np.testing.assert_array_equal(tensor.get(), [-1])
    assert sum(node.op_type == "AddUpdate" for node in graph.ir) == 1


def test_F7_a_default_that_changes_is_seen_by_later_functions():
    graph, tensor = og.Graph(), og.SharedTensor([1.0])
    w, x = graph.param(tensor), graph.input("x", shape=(1,))
    new = og.add_update(w, x)
    og.add_update(w, x, alpha=3.0, disable=og.SharedScalar(0))
    graph.compile([x], [new])([1.0])
    np.testing.assert_array_equal(tensor.get(), [4])


def test_F7_a_coefficient_that_is_computed_is_given_at_first():
    graph = og.Graph()
    w, x = graph.param(og.SharedTensor([1.0])), graph.input("x", shape=(1,))
    og.add_update(w, x, alpha=x * 2.0)
    assert og.add_update(w, x, alpha=x * 2.0) is not None
    with pytest.raises(GraphError, match="computed after it"):
        og.add_update(w, x, alpha=x * 3.0)


def test_F7_coefficients_may_be_variables():
    graph, tensor = og.Graph(), og.SharedTensor([1.0, 2.0])
    x = graph.input("x", shape=())
    new = og.add_update(tensor, graph.constant([1.0, 1.0]), alpha=x, beta=x * 10.0)
    graph.compile([x], [new])(np.float32(2))
    np.testing.assert_array_equal(tensor.get(), [22, 24])


def test_F7_float64_coefficients_keep_their_digits():
    tensor = og.SharedTensor(np.ones(1))
    updating(tensor, lambda x: x, 1.0, 0.1)(np.ones(1))
    assert np.asarray(tensor)[0] == 1.1


@pytest.mark.parametrize("literal", [True, False])
def test_F7_with_alpha_0_what_was_nan_is_gone(literal):
    tensor = og.SharedTensor([np.nan, np.inf])
    updating(tensor, lambda x: x, 0.0 if literal else og.SharedScalar(0.0))(np.ones(2, np.float32))
    np.testing.assert_array_equal(tensor.get(), [1, 1])


def test_F7_a_copy_broadcasts():
    tensor = og.SharedTensor(np.full((2, 3), np.nan, np.float32))
    graph = og.Graph()
    x = graph.input("x", shape=(3,))
    graph.compile([x], [og.add_update(tensor, x, 0.0)])([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tensor.get(), [[1, 2, 3]] * 2)


def test_F7_two_updates_of_a_tensor_follow_each_other():
    graph, tensor = og.Graph(), og.SharedTensor([1.0])
    w, x = graph.param(tensor), graph.input("x", shape=(1,))
    first, second = og.add_update(w, x), og.add_update(w, x * 2.0, alpha=10.0)
    graph.compile([x], [second, first])([1.0])
    np.testing.assert_array_equal(tensor.get(), [22])


@pytest.mark.parametrize("other", ["alias", "volatile"])
def test_F7_updates_by_two_names_follow_each_other(other):
    graph, tensor = og.Graph(), og.SharedTensor([1.0])
    alias = og.SharedTensor([5.0])
    alias.reset_to(tensor)
    second = graph.param(alias) if other == "alias" else graph.param(tensor, volatile=True)
    one = graph.constant([1.0])
    run = graph.compile([], [og.add_update(tensor, one), og.add_update(second, one, alpha=10.0)])
    run()
    np.testing.assert_array_equal(tensor.get(), [21])


@pytest.mark.parametrize("known", [False, True], ids=["exchanged", "address known"])
def test_F7_the_memory_is_exchanged_unless_its_address_is_known(known):
    dest = og.SharedTensor([1.0])
    before = dest.data_ptr() if known else address(dest)
    run = updating(dest, lambda x: x)
    run(np.ones(1, np.float32))
    assert (address(dest) == before) is known
    np.testing.assert_array_equal(dest.get(), [2])


def test_F7_a_body_has_no_updates():
    graph = og.Graph()
    w = graph.param(og.SharedTensor([1.0]))
    with graph.writing(graph.builder), pytest.raises(GraphError, match="inside of a body"):
        og.add_update(w, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_F8_filled_with_a_number_the_dtype_stays(dtype):
    graph = og.Graph()
    x = graph.input("x", dtype, ("N", 2))
    y = x.full_like(3)
    assert y.dtype == dtype and y.shape == x.shape
    found = graph.compile([x], og.copy_output(y))(np.zeros((4, 2), x.dtype))
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found.astype(float), np.full((4, 2), 3))


@pytest.mark.parametrize("dtype", ["bool", "int4", "float8_e4m3fn", str])
def test_F8_other_dtypes_are_refused(dtype):
    with pytest.raises(InputError, match="unsupported value dtype"):
        og.Graph().input("x", dtype, (2,)).full_like(1)


def test_F8_the_value_must_be_scalar():
    with pytest.raises(InputError, match="must be scalar"):
        og.Graph().input("x", "int32", (2,)).full_like(np.array([1, 2]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is no int32"):
        og.Graph().input("x", "int32", (2,)).full_like(0.5)


def test_a_part_of_memory_must_be_inside_and_describable():
    with pytest.raises(InputError, match="not inside"):
        part_of(to_ort(np.ones(3)), 2, (2,))
    with pytest.raises(InputError, match="cannot be shared"):
        part_of(to_ort(np.ones(3, ml_dtypes.float8_e4m3fn), ir.DataType.FLOAT8E4M3FN), 1, (2,))
