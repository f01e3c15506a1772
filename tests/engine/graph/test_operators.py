"""Arithmetic and indexing of variables against numpy: row P12."""

import operator

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.outspec import copy_output
from tests.engine.text_models import f32, floats

RANDOM = np.random.default_rng(7)


def computed(function, *arrays):
    """What a function of variables gives for these arrays, through a graph."""
    graph = og.Graph()
    inputs = [graph.input(f"x{k}", array.dtype, array.shape) for k, array in enumerate(arrays)]
    result = function(*inputs)
    fed = [copy_output(variable) for variable in inputs]
    return graph.compile(inputs, [copy_output(result), *fed])(*arrays)[0]


def check(function, *arrays, rtol=1e-6):
    """The same function on variables and on arrays gives the same."""
    got, want = computed(function, *arrays), function(*arrays)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=rtol)


FLOATS = (f32([[1.5, -2.25, 3], [-4, 5.5, -0.5]]), f32([[2, 2, -2], [-1.5, 0.5, 2]]))
INTEGERS = (np.asarray([[7, -7, 8], [-9, 5, 6]]), np.asarray([[2, 2, -3], [-4, 5, 7]]))
BOOLS = (np.asarray([True, True, False, False]), np.asarray([True, False, True, False]))
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge]
name_of = lambda entry: getattr(entry, "__name__", str(entry))  # noqa: E731


@pytest.mark.parametrize("op", [*BINARY, *COMPARISONS], ids=name_of)
def test_P12_operators_on_floats_are_those_of_numpy(op):
    check(op, *FLOATS)


@pytest.mark.parametrize("op", [*(op for op in BINARY if op is not operator.truediv), *COMPARISONS], ids=name_of)
def test_P12_operators_on_integers_are_those_of_numpy(op):
    check(op, *INTEGERS)


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor], ids=name_of)
@pytest.mark.parametrize("arrays", [BOOLS, INTEGERS], ids=["bools", "integers"])
def test_P12_bits_and_truth_values_combine_as_in_numpy(op, arrays):
    check(op, *arrays)


@pytest.mark.parametrize("op", [*BINARY, operator.pow, *COMPARISONS], ids=name_of)
@pytest.mark.parametrize("number", [2, 2.5, np.float32(3), np.asarray([1, 2, 4], np.float32)], ids=str)
def test_P12_numbers_and_arrays_may_stand_on_either_side(op, number):
    check(lambda x: op(x, number), np.abs(FLOATS[0]))
    if op not in COMPARISONS:
        check(lambda x: op(number, x), np.abs(FLOATS[0]), rtol=1e-5)


def test_P12_an_array_on_the_left_may_be_compared():
    check(lambda x: np.asarray([1, 2, 4], np.float32) < x, FLOATS[0])


@pytest.mark.parametrize("op", [operator.neg, operator.pos, operator.abs], ids=name_of)
def test_P12_signs_are_those_of_numpy(op):
    check(op, FLOATS[0])
    check(op, INTEGERS[0])


@pytest.mark.parametrize("array", [BOOLS[0], INTEGERS[0]], ids=["bools", "integers"])
def test_P12_inversion_is_that_of_numpy(array):
    check(operator.invert, array)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,))]
)
def test_P12_products_of_matrices_are_those_of_numpy(shapes):
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes]
    check(operator.matmul, *arrays, rtol=1e-5)


def test_P12_an_array_times_a_variable_is_a_product_of_matrices():
    left = floats(2, 3)
    check(lambda x: left @ x, floats(3, 4))


SHAPED = {
    "reshape": lambda x: x.reshape(3, 8),
    "reshape list": lambda x: x.reshape([6, 4]),
    "reshape -1": lambda x: x.reshape(2, -1),
    "transpose": lambda x: x.transpose(),
    "transpose axes": lambda x: x.transpose(1, 0, 2),
    "transpose list": lambda x: x.transpose([2, 0, 1]),
    "T": lambda x: x.T,
    "astype": lambda x: x.astype("int32"),
    "sum": lambda x: x.sum(),
    "sum axis": lambda x: x.sum(axis=1),
    "sum axes": lambda x: x.sum(axis=(0, 2), keepdims=True),
    "mean": lambda x: x.mean(axis=-1),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: x.min(axis=2, keepdims=True),
}


@pytest.mark.parametrize("case", SHAPED)
def test_P12_methods_are_those_of_numpy(case):
    check(SHAPED[case], floats(2, 3, 4) / 7, rtol=1e-5)


I = np.s_  # noqa: E741
BASIC = [
    I[1], I[-1], I[:], I[1:3], I[-3:-1], I[::2], I[::-1], I[5:1:-2], I[:, 1], I[..., 0], I[1, ..., 2], I[None],
    I[:, None],
    I[..., None], I[1, None], I[None, 1, :, None], I[0:0], I[100:], I[-100:2], I[1, 2, 3], I[1:2, ::-1, ::3], I[:, -1:],
]  # fmt: skip


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_P12_slices_and_integers_are_those_of_numpy(key):
    check(lambda x: x[key], floats(6, 4, 5))


FANCY = {
    "list": I[[0, 2, -1]],
    "array": I[np.asarray([[0, 1], [2, -1]])],
    "array on axis 1": I[:, np.asarray([0, -1, 2])],
    "array at the end": I[..., [1, 1, 0]],
    "two arrays": I[[0, 1, 2], [1, 0, -1]],
    "two arrays broadcast": I[np.asarray([[0], [1]]), np.asarray([2, 0, 1])],
    "two arrays in the middle": I[:, [0, 1], [2, 3]],
    "array and integer": I[[0, 1], 2],
    "slice before array": I[1:5, [0, 2]],
    "mask": I[np.asarray([True, False, True, False, True, False])],
    "mask on axis 1": I[:, np.asarray([True, False, True, False])],
    "mask of two axes": I[floats(6, 4) % 3 == 0],
    "numpy integer": I[np.int64(2)],
}


@pytest.mark.parametrize("case", FANCY)
def test_P12_arrays_as_indices_are_those_of_numpy(case):
    key = FANCY[case]
    check(lambda x: x[key], floats(6, 4, 5))


def test_P12_variables_may_be_indices():
    x, i = floats(6, 4), np.asarray([0, 5, -2])
    np.testing.assert_array_equal(computed(lambda x, i: x[i], x, i), x[i])
    np.testing.assert_array_equal(computed(lambda x, i: x[:, i], x.T.copy(), i), x.T[:, i])
    np.testing.assert_array_equal(computed(lambda x, i: x[i, [0, 1, 2]], x, i), x[i, [0, 1, 2]])


def test_P12_variables_may_be_masks():
    x = floats(6, 4)
    np.testing.assert_array_equal(computed(lambda x: x[x > 3.0], x), x[x > 3])
    mask = np.asarray([True, False, True, False, True, False])
    np.testing.assert_array_equal(computed(lambda x, m: x[m], x, mask), x[mask])


@pytest.mark.parametrize(("start", "end"), [(1, 4), (-3, -1), (0, 6)])
def test_P12_variables_may_be_the_bounds_of_slices(start, end):
    x = floats(6, 4)
    got = computed(lambda x, a, b: x[a:b, 1:], x, np.asarray(start), np.asarray(end))
    np.testing.assert_array_equal(got, x[start:end, 1:])


def test_P12_a_variable_may_be_an_integer_index():
    x = floats(6, 4)
    np.testing.assert_array_equal(computed(lambda x, i: x[i], x, np.asarray(-2)), x[-2])
    np.testing.assert_array_equal(computed(lambda x, i: x[:, i], x, np.asarray(3)), x[:, 3])


@pytest.mark.parametrize("key", [I[1, 2, 3, 4], I[..., ...], I["a"], I[1.5], I[True], I[[0.5]]], ids=str)
def test_P12_keys_that_are_none_are_refused(key):
    with pytest.raises(InputError):
        og.Graph().input("x", shape=(6, 4, 5))[key]


def test_P12_literals_take_the_type_of_the_variable_or_are_refused():
    graph = og.Graph()
    x = graph.input("x", "float64", (2,))
    assert (x + 1).dtype == np.float64
    assert (1 + x).dtype == np.float64
    with pytest.raises(InputError, match=r"1\.5"):
        graph.input("i", "int64", (2,)) + 1.5


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float16(2), np.int64(3)], ids=lambda s: s.dtype.name)
def test_P12_scalars_of_numpy_are_literals(scalar):
    x = og.Graph().input("x", "float32", (2,))
    assert (x * scalar).dtype == (scalar * x).dtype == np.float32
    assert og.op.Add(scalar, og.Tensor([1.0])).dtype == np.float32
    assert og.op.Add(scalar, og.Tensor(np.ones(1))).dtype == np.float64


def test_P12_variables_are_not_iterable():
    graph = og.Graph()
    with pytest.raises(NotImplementedError):
        list(graph.input("x", shape=(3,)))


def test_P12_a_variable_has_no_truth():
    graph = og.Graph()
    with pytest.raises(InputError, match="truth"):
        if graph.input("x", shape=(3,)) > 1.0:
            pass


def test_P12_equality_is_identity_of_graph_and_value():
    graph, other = og.Graph(), og.Graph()
    x, y = graph.input("x", shape=(3,)), other.input("x", shape=(3,))
    assert x == graph.inputs[0]
    assert x != y
    assert x + 1 == x + 1
    assert len({x, graph.inputs[0], y}) == 2
    assert x != "x"


def test_P12_variables_of_two_graphs_do_not_mix():
    with pytest.raises(GraphError, match="belongs to graph"):
        og.Graph().input("x", shape=(3,)) + og.Graph().input("x", shape=(3,))
