"""What does not fit is an error of its own kind at the line that says it, and leaves the graph as it was."""

from typing import Any

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import InputError, OptionError, ShapeError
from tests.engine.text_models import f32


@pytest.fixture
def graph():
    return og.Graph()


@pytest.fixture
def x(graph):
    return graph.input("x", "float32", ("n",))


def wrong(**given):
    """Arguments that type checkers would refuse."""
    return given


def ints(x):
    return x.graph.input("i", "int64", (3,))


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "two types": (lambda x: x + ints(x), ShapeError, "float32 and int64 must be the same"),
    "a type that it does not take": (lambda x: x | x, ShapeError, "A cannot be float32"),
    "sizes that do not broadcast": (lambda x: ints(x) * np.arange(2), ShapeError, "sizes 2 and 3 of axis -1"),
    "an input that is missing": (og.op.Conv, InputError, "Conv needs the input 'W'"),
    "an input that is None": (lambda x: x + None, InputError, "Add needs the input 'B'"),
    "an object": (lambda x: x + object(), InputError, "is no number"),
    "a ragged list": (lambda x: og.op.Add(x, [[1], [1, 2]]), InputError, "is no number"),
    "a text among numbers": (lambda x: x + "a", InputError, "'a' is no float"),
    "minus one as unsigned": (lambda x: x.astype("uint64") + -1, InputError, "-1 is no uint64"),
    "more than int64 holds": (lambda x: ints(x) + 2**63, InputError, "is no int64"),
    "an attribute of another kind": (lambda x: og.op.Softmax(x, **wrong(axis="a")), OptionError, "give a whole number"),
    "a variable as an attribute": (lambda x: og.op.LeakyRelu(x, alpha=x), OptionError, "give a number"),
    "a number for a tensor": (lambda x: og.op.ConstantOfShape(x, **wrong(value=1.0)), OptionError, "give an array"),
    "more outputs than there are": (lambda x: og.op.Relu(x, outputs=2), OptionError, "up to 1 outputs"),
    "a size that is a variable": (lambda x: x.reshape(og.op.Size(x), 1), InputError, "is no size"),
    "an axis that is a text": (lambda x: x.sum("a"), InputError, "'a' is no axis"),
    "an axis that a scan lacks": (
        lambda x: og.op.Scan(x, num_scan_inputs=1, scan_input_axes=[4], body=lambda v: v),
        InputError,
        "no axis 4",
    ),
    "an input without a name": (lambda x: x.graph.input("", "float32"), InputError, "is no name"),
    "a negative size": (lambda x: x.graph.input("y", "float32", (-1,)), InputError, "-1 is no size"),
    "half a size": (lambda x: x.graph.input("y", "float32", (1.5,)), InputError, "1.5 is no size"),
    "a shape that is a number": (lambda x: x.graph.input("y", "float32", 3), InputError, "3 is no shape"),
    "a parameter that is an array": (lambda x: x.graph.param(f32([1])), InputError, "is no parameter"),
    "a dependence that is no variable": (lambda x: x.graph.add_extra_dep(x, 3), InputError, "3 is no variable"),
    "a replacement that is no variable": (
        lambda x: og.tools.replace_vars([x], wrong(y=1)),
        InputError,
        "is no variable of a graph",
    ),
    "inputs that are one variable": (lambda x: x.graph.compile(x, og.copy_output(x)), InputError, "a list of"),
    "inputs that are names": (lambda x: x.graph.compile(["x"], og.copy_output(x)), InputError, "a list of"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_where_it_is_made(x, name):
    mistake, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        mistake(x)


def test_an_operator_that_is_refused_leaves_no_node(graph):
    x = graph.input("x", "float32", (2, 3))
    with pytest.raises(ShapeError, match="MatMul"):
        og.op.MatMul(x, x)
    assert len(graph.ir) == 0
    assert not x.value.uses()
    assert len(graph.clone().inputs) == 1


def test_a_body_whose_function_raises_leaves_no_use(graph, x):
    def broken():
        raise KeyError(og.op.Exp(x).name)

    condition = x.sum() > 0
    before = len(x.value.uses())
    with pytest.raises(KeyError):
        og.op.If(condition, then_branch=broken, else_branch=lambda: x)
    assert len(x.value.uses()) == before


NUMPY = {
    "sizes": lambda x: x.reshape(np.int64(2), 2),
    "an array of sizes": lambda x: x.reshape(np.array([2, 2])),
    "axes": lambda x: x.reshape(2, 2).transpose(np.int64(1), np.int64(0)),
    "a list of axes": lambda x: x.reshape(2, 2).sum([np.int64(0)]),
    "an attribute": lambda x: og.op.LeakyRelu(x, **wrong(alpha=np.float32(0.5))),
    "an attribute of several": lambda x: og.op.Transpose(x.reshape(2, 2), **wrong(perm=np.array([1, 0]))),
    "an attribute that is a tensor": lambda x: og.op.ConstantOfShape([2], value=np.array([x.ndim], np.float32)) + x[:2],
    "the size of an input": lambda x: x + x.graph.input("y", "float32", (np.int64(4),), value=np.ones(4)),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numbers_and_arrays_of_numpy_stand_for_numbers_of_python(graph, name):
    x = graph.input("x", "float32", (4,))
    with graph:
        y = NUMPY[name](x)
    assert y.eval(x=np.arange(4, dtype=np.float32)).shape == y.shape


def test_a_number_on_the_left_combines_with_truth_values(x):
    np.testing.assert_array_equal((True & (x > 0)).eval(x=f32([-1, 1])), [False, True])
    np.testing.assert_array_equal((False | (x > 0)).eval(x=f32([-1, 1])), [False, True])
    np.testing.assert_array_equal((True ^ (x > 0)).eval(x=f32([-1, 1])), [True, False])


def test_literals_that_nothing_gives_a_type_are_floats_where_one_of_them_is(graph, x):
    np.testing.assert_array_equal(og.op.Where(x > 0, 1, 0.5).eval(x=f32([-1, 1])), f32([0.5, 1]))
    with graph:
        np.testing.assert_array_equal(og.op.Range(0.0, 3, 1).eval(), f32([0, 1, 2]))


@pytest.mark.parametrize("count", [1, 2000], ids=["in a node", "as an initializer"])
def test_texts_are_constants(graph, count):
    names = graph.input("names", str, ("n",))
    joined = og.op.StringConcat(names, graph.constant(["!"] * count))
    assert joined.eval(names=np.array(["a"] * count)).tolist() == ["a!"] * count


def test_a_text_is_a_literal(graph):
    names = graph.input("names", str, ("n",))
    assert og.op.StringConcat(names, "?").eval(names=np.array(["a", "b"])).tolist() == ["a?", "b?"]
    assert graph.constant("abc").eval().tolist() == "abc"


def test_a_tensor_takes_the_sizes_of_numpy():
    sizes: Any = np.array([2, 3])
    assert og.SharedTensor(1.0).resize(*sizes).shape == (2, 3)
    with pytest.raises(InputError, match=r"1\.5 is no size"):
        og.SharedTensor(**wrong(shape=(1.5,)))
