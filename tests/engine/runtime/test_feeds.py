import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import (
    ExecutionError,
    InputError,
)
from tests.engine.text_models import RELU, compiled, f32, f64, floats

CONVERTED = [
    ("float", 3, np.float32(3)),
    ("float", 2.5, np.float32(2.5)),
    ("float", True, None),
    ("int64", 7, np.int64(7)),
    ("int64", 7.0, None),
    ("uint8", 255, np.uint8(255)),
    ("uint8", 256, None),
    ("uint8", -1, None),
    ("bool", True, np.bool_(True)),
    ("bool", 1, None),
    ("float16", 0.1, np.float16(0.1)),
    ("bfloat16", 1.5, ml_dtypes.bfloat16(1.5)),
    ("double", np.float32(1), None),
    ("float", np.float64(1), None),
    ("float", "1", None),
    ("string", "word", "word"),
    ("string", 1, None),
]


@pytest.mark.parametrize(("dtype", "given", "wanted"), CONVERTED, ids=repr)
def test_python_numbers_take_the_dtype_where_their_kind_fits_and_numpy_ones_never(dtype, given, wanted):
    run = compiled(f"g ({dtype} x) => ({dtype} y) {{ y = Identity(x) }}")
    if wanted is None:
        with pytest.raises(InputError, match="'x'"):
            run(given)
    else:
        result = run(given)["y"]
        assert result.shape == () and result == wanted and result.dtype == np.asarray(wanted, result.dtype).dtype


def test_lists_of_arrays_are_arrays_and_not_converted():
    run = compiled(RELU)
    assert run([[1, 2, 3]])["y"].shape == (1, 3)
    assert run([f32([1, 2, 3])])["y"].shape == (1, 3)
    with pytest.raises(InputError, match="float64"):
        run([f64([1, 2, 3])])
    with pytest.raises(InputError, match="regular"):
        run([[1, 2, 3], [1]])


class TorchLike:
    """What numpy reads through `__array__`."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_other_libraries_tensors_are_read():
    np.testing.assert_array_equal(compiled(RELU)(TorchLike(floats(2, 3)))["y"], np.maximum(floats(2, 3), 0))
    with pytest.raises(InputError, match="float64"):
        compiled(RELU)(TorchLike(np.ones((1, 3))))


def test_ort_values_are_taken_as_they_are():
    from onnxruntime import OrtValue

    value = OrtValue.ortvalue_from_numpy(floats(2, 3))
    np.testing.assert_array_equal(compiled(RELU)(value)["y"], np.maximum(floats(2, 3), 0))
    with pytest.raises(InputError, match="3"):
        compiled(RELU)(OrtValue.ortvalue_from_numpy(floats(2, 4)))
    with pytest.raises(InputError, match="int64"):
        compiled(RELU)(OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.int64)))


@pytest.mark.slow
def test_torch_tensors_are_read():
    import torch

    run = compiled(RELU)
    np.testing.assert_array_equal(run(torch.ones(2, 3))["y"], np.ones((2, 3)))
    np.testing.assert_array_equal(run(torch.ones(3, 2).T)["y"], np.ones((2, 3)))
    half = compiled("g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity(x) }")
    assert half(torch.ones(2, dtype=torch.bfloat16))["y"].dtype == ml_dtypes.bfloat16
    with pytest.raises(InputError, match="grad"):
        run(torch.ones(2, 3, requires_grad=True))


def test_strided_and_zero_size_arrays_are_right():
    run = compiled(RELU)
    np.testing.assert_array_equal(run(floats(3, 2).T)["y"], np.maximum(floats(3, 2).T, 0))
    assert run(np.zeros((0, 3), np.float32))["y"].shape == (0, 3)


TENSOR_TYPES = [
    ("float", np.float32), ("double", np.float64), ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16),
    ("int8", np.int8), ("int16", np.int16), ("int32", np.int32), ("int64", np.int64), ("bool", np.bool_),
    ("uint8", np.uint8), ("uint16", np.uint16), ("uint32", np.uint32), ("uint64", np.uint64),
    ("float8e4m3fn", ml_dtypes.float8_e4m3fn), ("float8e5m2", ml_dtypes.float8_e5m2),
    ("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz), ("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), TENSOR_TYPES, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("shape", [(3,), (), (0, 2)], ids=str)
def test_every_element_type_goes_in_and_comes_out(name, dtype, shape):
    dims = ", ".join(map(str, shape))
    kind = f"{name}[{dims}]" if dims else name
    x = np.ones(shape, dtype)
    y = compiled(f"g ({kind} x) => ({kind} y) {{ y = Identity(x) }}")(x)["y"]
    assert y.dtype == x.dtype and y.shape == shape and y.tobytes() == x.tobytes()


@pytest.mark.parametrize("name", ["int4", "uint4"])
@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_four_bit_types_go_in_and_come_out(name, count):
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.arange(count) - (3 if name == "int4" else 0)
    scale = f"<float s = {{1.0}}, {name} z = {{0}}>"
    decode = compiled(f"g ({name}[N] x) => (float[N] y) <float s = {{1.0}}> {{ y = DequantizeLinear(x, s) }}")
    encode = compiled(f"g (float[N] x) => ({name}[N] y) {scale} {{ y = QuantizeLinear(x, s, z) }}")
    np.testing.assert_array_equal(decode(values.astype(dtype))["y"], values)
    result = encode(values.astype(np.float32))["y"]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.int64), values)


@pytest.mark.parametrize(
    "words",
    [["a", "größe"], np.array(["a", "größe"]), np.array(["a", "größe"], object), np.array(["a", "größe"]).astype("T")],
    ids=["list", "U", "O", "T"],
)
def test_strings_go_in_and_come_out(words):
    result = compiled("g (string[N] x) => (string[N] y) { y = Identity(x) }")(words)["y"]
    assert result.tolist() == ["a", "größe"]


def test_sequences_are_lists():
    run = compiled(
        "g (seq(float[N]) x) => (seq(float[N]) s, float[M] y) { s = Identity(x) y = ConcatFromSequence<axis = 0>(x) }"
    )
    result = run([floats(1), [4, 5]])
    np.testing.assert_array_equal(result["y"], [-2, 4, 5])
    assert [item.tolist() for item in result["s"]] == [[-2], [4, 5]]
    assert run.signature.startswith("(x: sequence(float32[N]))")
    with pytest.raises(InputError, match=r"x\[1\].*float64"):
        run([floats(1), np.ones(1)])
    with pytest.raises(InputError, match="list"):
        run(floats(1))


def test_strings_sequences_and_optionals_go_together_with_bfloat16():
    run = compiled(
        """g (string[N] w, seq(float[N]) s, optional(float[N]) o, bfloat16[N] h) =>
        (string[N] w2, seq(float[N]) s2, bool has, bfloat16[N] h2, bfloat16[M] joined) {
        w2 = Identity(w)  s2 = Identity(s)  has = OptionalHasElement(o)  h2 = Identity(h)
        t = ConcatFromSequence<axis = 0>(s)  joined = Cast<to = 16>(t) }""",
        opset=18,
    )
    h = np.ones(2, ml_dtypes.bfloat16)
    for optional, has in ((None, False), (floats(2), True)):
        result = run(["a", "ö"], [floats(1), floats(2)], optional, h)
        assert list(result) == ["w2", "s2", "has", "h2", "joined"]
        assert result["w2"].tolist() == ["a", "ö"] and [item.tolist() for item in result["s2"]] == [[-2], [-2, -1]]
        assert bool(result["has"]) is has and result["h2"].dtype == ml_dtypes.bfloat16
        assert result["joined"].astype(int).tolist() == [-2, -2, -1]


def test_empty_sequences_go_together_with_bfloat16():
    run = compiled("g (seq(float[N]) s, bfloat16 h) => (int64 n, bfloat16 k) { n = SequenceLength(s) k = Identity(h) }")
    assert run([], ml_dtypes.bfloat16(1))["n"] == 0


def test_optional_inputs_may_be_absent():
    run = compiled("g (optional(float[N]) x) => (bool y) { y = OptionalHasElement(x) }", opset=18)
    assert run.signature.startswith("(x?: optional(float32[N]))")
    assert [bool(run()["y"]), bool(run(None)["y"]), bool(run(floats(2))["y"])] == [False, False, True]


@pytest.fixture
def with_defaults():
    """y = x + w; w is an initializer that may be fed; x and w are outputs too, and so is the constant c."""
    vector = lambda name, dim: helper.make_tensor_value_info(name, 1, [dim])  # noqa: E731
    ones = numpy_helper.from_array(np.ones(1, np.float32), "w")
    constant = numpy_helper.from_array(np.full(1, 8, np.float32), "c")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [vector("w", 1), vector("x", "N")],
        [vector("y", "N"), vector("x", "N"), vector("w", 1), vector("c", 1)],
        [ones, constant],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_initializers_that_are_inputs_may_be_fed(with_defaults):
    run = compile(with_defaults, providers="cpu")
    assert run.input_names == ("x", "w") and "w?: float32[1]" in run.signature
    x = floats(2)
    np.testing.assert_array_equal(run(x)["y"], x + 1)
    np.testing.assert_array_equal(run(x, w=[5])["y"], x + 5)
    np.testing.assert_array_equal(run(x)["y"], x + 1)


def test_outputs_that_are_inputs_or_initializers_are_copies(with_defaults):
    x = floats(2)
    result = compile(with_defaults, providers="cpu")(x)
    assert [value.tolist() for value in result.values()] == [[-1, 0], [-2, -1], [1], [8]]
    result["x"][:] = 9
    assert x.tolist() == [-2, -1]


def test_before_ir_version_4_initializers_are_constants(with_defaults):
    with_defaults.ir_version = 3
    with_defaults.opset_import[0].version = 8
    del with_defaults.graph.output[1:], with_defaults.graph.initializer[1:]
    assert compile(with_defaults, providers="cpu").input_names == ("x",)


TWO = "g (float[batch, 3] image, int64[batch] label) => (float[batch, 3] y) { y = Relu(image) }"
WRONG = [
    (lambda run: run(), ["missing: 'image', 'label'", "nothing"]),
    (lambda run: run(floats(2, 3)), ["missing: 'label'", "image: float32[2, 3]"]),
    (lambda run: run(imgae=floats(2, 3)), ["no input 'imgae'", "did you mean 'image'"]),
    (lambda run: run(Label=[1], image=floats(1, 3)), ["no input 'Label'", "did you mean 'label'"]),
    (lambda run: run(floats(2, 3), [1, 2], qqq=1), ["no input 'qqq'", "image, label"]),
    (lambda run: run(floats(2, 3), [1, 2], 3), ["3 inputs are given", "takes 2"]),
    (lambda run: run(floats(2, 3), [1, 2], label=[3, 4]), ["'label' is given twice"]),
    (lambda run: run({"image": floats(2, 3)}, image=floats(2, 3)), ["'image' is given twice"]),
    (lambda run: run(np.ones((2, 3)), [1, 2]), ["wants float32, not float64", "image.astype('float32')"]),
    (lambda run: run(floats(6), [1, 2]), ["wants 2 axes, not 1", "float32[6]"]),
    (lambda run: run(floats(2, 4), [1, 2]), ["axis 1", "size 3, not 4"]),
    (lambda run: run(floats(2, 3), [1, 2, 3]), ["'batch' is 2 in axis 0 of 'image' but 3 in axis 0 of 'label'"]),
    (lambda run: run(floats(2, 3), [0.5, 1]), ["wants int64"]),
    (lambda run: run(None, [1]), ["'image' is None"]),
    (lambda run: run(object(), [1]), ["'image' is a object"]),
]


@pytest.mark.parametrize(("call", "parts"), WRONG, ids=[parts[0] for _, parts in WRONG])
def test_a_wrong_call_says_what_was_given_and_what_is_expected(call, parts):
    with pytest.raises(InputError) as caught:
        call(compiled(TWO))
    for part in (*parts, "(image: float32[batch, 3], label: int64[batch])"):
        assert part in str(caught.value)


@pytest.mark.parametrize("symbol", ["?", "", "None", "-1", "unknown"])
def test_dims_without_a_real_name_may_differ(symbol):
    inputs = [helper.make_tensor_value_info(name, 1, [symbol]) for name in ("a", "b")]
    graph = helper.make_graph(
        [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", 1, [None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert compile(model, providers="cpu")(floats(2), floats(3))["y"].shape == (5,)


def test_an_input_without_a_shape_takes_every_rank():
    value = helper.make_tensor_value_info("x", 1, None)
    out = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    run = compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), providers="cpu")
    assert run.signature == "(x: float32[...]) -> (y: float32[...])"
    assert [run(floats(*shape))["y"].shape for shape in ((2,), (1, 2, 3))] == [(2,), (1, 2, 3)]


def test_a_failure_while_running_names_the_node():
    run = compiled("g (float[N] x, float[M] z) => (float[K] y) { [the_sum] y = Add(x, z) }")
    with pytest.raises(ExecutionError) as caught:
        run(floats(2), floats(3))
    assert "'the_sum'" in str(caught.value) and "x: float32[2]" in str(caught.value)
