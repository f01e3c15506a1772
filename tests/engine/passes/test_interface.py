"""Batch sizes, constants, outputs and names of a model."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.passes.interface import with_batch_size, with_constants, with_names, with_outputs
from tests.engine.passes.checks import f32, i64, model_of, operators

NET = "g (float[1,3,4] x) => (float[1,12] y) { r = Relu(x) f = Reshape(r, s) y = Mul(f, k) }"
TWO = "g (float[2] x, float[2] z) => (float[2] y, float[2] w) { a = Add(x, z) b = Mul(a, k) y = Relu(b) w = Sub(a, l) }"
CONSTANTS = {"k": f32(2, 3), "l": f32(4, 5)}


def run(model, **feeds):
    return og.compile(model, providers="cpu", threads=1)(**feeds)


def checked(model):
    onnx.checker.check_model(og.to_proto(model), full_check=True)
    return model


def shapes(values):
    return {value.name: [d if isinstance(d, int) else str(d) for d in value.shape] for value in values}


@pytest.mark.parametrize("size", [5, "N"])
def test_another_batch_size(size):
    model = model_of(NET, s=i64(1, 12), k=np.ones(12, np.float32))
    model.graph.outputs[0].shape = None
    result = checked(with_batch_size(model, size))
    assert shapes(result.graph.inputs) == {"x": [size, 3, 4]}
    x = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    np.testing.assert_array_equal(run(result, x=x)["y"], x.reshape(5, 12))
    assert shapes(model.graph.inputs) == {"x": [1, 3, 4]}


def test_reshapes_one_after_another_follow_the_batch():
    text = "g (float[2,6] x) => (float[a,b] y) { p = Reshape(x, s) q = Transpose<perm=[0,2,1]>(p) y = Reshape(q, t) }"
    result = with_batch_size(model_of(text, s=i64(2, 2, 3), t=i64(2, -1)), "N")
    x = np.arange(18, dtype=np.float32).reshape(3, 6)
    want = x.reshape(3, 2, 3).transpose(0, 2, 1).reshape(3, 6)
    np.testing.assert_array_equal(run(result, x=x)["y"], want)


def test_reshapes_that_do_not_start_with_the_batch_stay():
    model = model_of("g (float[2,6] x) => (float[a,b] y) { y = Reshape(x, s) }", s=i64(4, -1))
    result = with_batch_size(model, 6)
    assert run(result, x=np.zeros((6, 6), np.float32))["y"].shape == (4, 9)


def test_a_batch_that_was_open_becomes_a_number():
    model = model_of("g (float[N,3] x, float z) => (float[N,3] y) { y = Mul(x, z) }")
    assert shapes(with_batch_size(model, 7).graph.inputs) == {"x": [7, 3], "z": []}


def test_an_input_without_dimensions_has_no_batch():
    model = model_of("g (float[N,3] x, float z) => (float[N,3] y) { y = Mul(x, z) }")
    with pytest.raises(OptionError, match="no input 'z' with a batch"):
        with_batch_size(model, 7, ["z"])


def test_inputs_become_constants():
    model = model_of(TWO, **CONSTANTS)
    result = checked(with_constants(model, {"z": f32(1, 2)}))
    assert [value.name for value in result.graph.inputs] == ["x"]
    for name, array in run(result, x=f32(3, -9)).items():
        np.testing.assert_array_equal(array, run(model, x=f32(3, -9), z=f32(1, 2))[name])


def test_a_number_takes_the_dtype_of_the_input():
    model = model_of("g (float16[2] x, float16 z, bool c) => (float16[2] y) { a = Mul(x, z) y = Where(c, a, x) }")
    result = checked(with_constants(model, {"z": 2, "c": True}))
    np.testing.assert_array_equal(run(result, x=np.ones(2, np.float16))["y"], np.full(2, 2, np.float16))


def test_a_default_becomes_final():
    model = model_of("g (float[2] x, float[2] k) => (float[2] y) { y = Mul(x, k) }", k=f32(1, 1))
    result = checked(with_constants(model, {"k": f32(2, 3)}))
    assert [value.name for value in result.graph.inputs] == ["x"]
    np.testing.assert_array_equal(run(result, x=f32(1, 1))["y"], f32(2, 3))
    np.testing.assert_array_equal(run(model, x=f32(1, 1))["y"], f32(1, 1))


@pytest.mark.parametrize(
    ("name", "content", "error", "text"),
    [
        ("q", f32(1, 2), OptionError, "no input 'q'"),
        ("z", f32(1, 2, 3), InputError, r"shape \[3\]"),
        ("z", np.zeros(2, np.float64), InputError, "float64"),
        ("z", 1.0, InputError, r"shape \[\]"),
    ],
    ids=["unknown", "shape", "dtype", "rank"],
)
def test_constants_must_fit(name, content, error, text):
    with pytest.raises(error, match=text):
        with_constants(model_of(TWO, **CONSTANTS), {name: content})


def test_outputs_are_added_and_removed():
    result = checked(with_outputs(model_of(TWO, **CONSTANTS), add=["a"], remove=["w"]))
    assert [value.name for value in result.graph.outputs] == ["y", "a"]
    assert [value.name for value in result.graph.inputs] == ["x", "z"]
    assert operators(result) == ["Add", "Mul", "Relu"]
    assert list(result.graph.initializers) == ["k"]
    np.testing.assert_array_equal(run(result, x=f32(1, 2), z=f32(3, 4))["a"], f32(4, 6))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"add": ["q"]}, "gives a value 'q'"),
        ({"add": ["y"]}, "an output already"),
        ({"remove": ["a"]}, "no output 'a'"),
        ({"remove": ["y", "w"]}, "No output would be left"),
    ],
    ids=["unknown value", "twice", "unknown output", "none left"],
)
def test_outputs_that_cannot_be(options, text):
    with pytest.raises(OptionError, match=text):
        with_outputs(model_of(TWO, **CONSTANTS), **options)


def test_inputs_and_outputs_take_other_names():
    model = model_of("g (float[2] x, float[2] k) => (float[2] y) { y = Mul(x, k) }", k=f32(2, 3))
    result = checked(with_names(model, {"x": "image", "y": "x", "k": "gain"}))
    assert [value.name for value in result.graph.inputs] == ["image", "gain"]
    assert isinstance(result.graph.initializers["gain"], ir.Value)
    np.testing.assert_array_equal(run(result, image=f32(1, 1))["x"], f32(2, 3))


def test_names_may_change_places():
    result = checked(with_names(model_of(TWO, **CONSTANTS), {"x": "z", "z": "x"}))
    assert [value.name for value in result.graph.inputs] == ["z", "x"]


@pytest.mark.parametrize(("names", "text"), [({"a": "q"}, "no input or output 'a'"), ({"x": "a"}, "in use")], ids=str)
def test_names_that_cannot_be(names, text):
    with pytest.raises(OptionError, match=text):
        with_names(model_of(TWO, **CONSTANTS), names)
