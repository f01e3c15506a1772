"""Models in float16 and bfloat16."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import OpsetError, OptionError
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.verify import verify
from onnxgrad.engine.optimize import optimization_report
from onnxgrad.engine.passes.precision import Precision, lower_precision, narrowed
from onnxgrad.engine.passes.scope import Scope, hidden_defaults
from tests.engine.passes.checks import i64, model_of, operators

HALF, BRAIN = ir.DataType.FLOAT16, ir.DataType.BFLOAT16
MLP = (
    "g (float[N,64] x) => (float[N,16] y) "
    "{ h = MatMul(x, w) a = Add(h, b) r = Relu(a) o = MatMul(r, v) y = Softmax(o) }"
)


def weights(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 8


MLP_WEIGHTS = {"w": weights(64, 32), "b": weights(32), "v": weights(32, 16)}


def lowered(model, precision=Precision(), hits=None):  # noqa: B008
    """A copy in the shorter dtype, valid."""
    copy = clone(model)
    with hidden_defaults(copy.graph):
        infer_shapes(copy)
        count = lower_precision(Scope(copy), precision)
    verify(copy)
    onnx.checker.check_model(og.to_proto(copy), full_check=True)
    assert hits is None or count == hits
    return copy


def inputs_of(model, size=3):
    random = np.random.default_rng(1)
    feeds = {}
    for value in model.graph.inputs:
        dims = [d if isinstance(d, int) else size for d in value.shape]
        if not value.dtype.is_floating_point():
            feeds[value.name] = random.integers(0, 2, dims).astype(value.dtype.numpy())
        else:
            feeds[value.name] = random.standard_normal(dims).astype(value.dtype.numpy())
    return feeds


def assert_near(model, copy, tolerance, feeds=None):
    """Equal outputs, up to a part of the largest number of each; the same dtypes."""
    feeds = feeds or inputs_of(model)
    want, got = (og.compile(m, optimize=False, providers="cpu", threads=1)(**feeds) for m in (model, copy))
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        error = np.abs(got[name].astype(np.float64) - array.astype(np.float64)).max()
        assert error <= tolerance * np.abs(array).max(), f"{name}: {error}"


def dtypes(model):
    return {value.name: value.dtype for node in model.graph for value in node.outputs}


@pytest.mark.parametrize(("dtype", "tolerance"), [(HALF, 2e-3), (BRAIN, 2e-2)], ids=str)
def test_everything_is_lowered_but_inputs_and_outputs(dtype, tolerance):
    model = model_of(MLP, **MLP_WEIGHTS)
    result = lowered(model, Precision(dtype), hits=5)
    assert operators(result) == ["Add", "Cast", "Cast", "MatMul", "MatMul", "Relu", "Softmax"]
    assert [value.dtype for value in (*result.graph.inputs, *result.graph.outputs)] == [ir.DataType.FLOAT] * 2
    assert {value.dtype for value in result.graph.initializers.values()} == {dtype}
    assert (result.graph.inputs[0].name, result.graph.outputs[0].name) == ("x", "y")
    assert_near(model, result, tolerance)
    assert len(og.to_proto(result).SerializeToString()) < 0.6 * len(og.to_proto(model).SerializeToString())


def test_inputs_and_outputs_change_on_request():
    result = lowered(model_of(MLP, **MLP_WEIGHTS), Precision(inputs_outputs=True))
    assert "Cast" not in operators(result)
    assert [value.dtype for value in (*result.graph.inputs, *result.graph.outputs)] == [HALF] * 2
    feeds = inputs_of(result)
    assert og.compile(result, optimize=False, providers="cpu")(**feeds)["y"].dtype == np.float16


@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=str)
def test_only_weights_are_stored_in_half(dtype):
    model = model_of(MLP, **MLP_WEIGHTS)
    result = lowered(model, Precision(dtype, weights_only=True), hits=2)
    assert operators(result).count("Cast") == 2  # the bias of 32 is too small to pay
    assert result.graph.initializers["w"].dtype == dtype
    assert set(dtypes(result).values()) == {ir.DataType.FLOAT}
    assert_near(model, result, 2e-2)
    assert len(og.to_proto(result).SerializeToString()) < 0.7 * len(og.to_proto(model).SerializeToString())


def test_weights_of_bodies_and_functions_are_stored_in_half_too():
    k, m = (f"Constant<value = float[600] {{{', '.join([number] * 600)}}}>()" for number in ("0.5", "0.25"))
    text = (
        '<ir_version: 8, opset_import: ["" : 18, "l" : 1]>\n'
        "g (float[2,600] x, bool c) => (float[2,600] y) { a = l.f(x) y = If(c) <"
        f"then_branch = t () => (float[2,600] u) {{ k = {k} u = Add(a, k) }}, "
        "else_branch = e () => (float[2,600] v) { v = Neg(a) }> }\n"
        f'<domain: "l", opset_import: ["" : 18]> f (x) => (y) {{ k = {m} y = Mul(x, k) }}'
    )
    model = og.load(onnx.parser.parse_model(text))
    result = lowered(model, Precision(weights_only=True), hits=2)
    assert_near(model, result, 0, {"x": weights(2, 600), "c": np.array(True)})


STAYS = {
    # name: text, opset, constants, nodes that stay in float32
    "sizes of Resize": (
        "g (float[1,1,4,4] x) => (float[a,b,c,d] y) { r = Relu(x) y = Resize(r, , s) }",
        18,
        {"s": np.array([1, 1, 2, 2], np.float32)},
        [],
    ),
    "what comes from shapes": (
        "g (float[N,3] x) => (int64[2] y, float[N,3] z) { s = Shape(x) f = Cast<to=1>(s) m = Mul(f, "
        "k) y = Cast<to=7>(m) z = Abs(x) }",
        18,
        {"k": np.array(1.5, np.float32)},
        ["f", "m"],
    ),
    "sums that overflow": (
        "g (float[4,300] x) => (float[4] y) { a = Mul(x, k) n = ReduceL2<keepdims=0>(a, o) y = Relu(n) }",
        18,
        {"k": np.array(100, np.float32), "o": i64(1)},
        ["n"],
    ),
    "quantization": (
        "g (float[4] x) => (float[4] y) { a = Abs(x) q = QuantizeLinear(a, s, z) d = "
        "DequantizeLinear(q, s, z) y = Neg(d) }",
        13,
        {"s": np.array(0.1, np.float32), "z": np.array(3, np.int8)},
        ["d"],
    ),
    "operators of other domains": (
        "g (float[2,4] x) => (float[2,4] y) { a = Abs(x) b = com.microsoft.Gelu(a) y = Neg(b) }",
        18,
        {},
        ["b"],
    ),
    "LayerNormalization's mean": (
        "g (float[2,4] x, float[4] s) => (float[2,4] y, float[2,1] m) { y, m = LayerNormalization(x, s) }",
        18,
        {},
        ["m"],
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_some_stay_in_float32(name):
    text, opset, constants, kept = STAYS[name]
    imports = ', "com.microsoft" : 1' if "microsoft" in text else ""
    model = model_of(text, opset, imports=imports, **constants)
    result = lowered(model)
    assert [key for key in kept if dtypes(result).get(key, ir.DataType.FLOAT) != ir.DataType.FLOAT] == []
    assert HALF in dtypes(result).values()
    assert_near(model, result, 3e-3)


BODIES = {
    "If": "g (float[2,3] x, bool c) => (float[2,3] y) { a = Abs(x) y = If(c) <then_branch = t () => (float[2,3] u) "
    "{ u = Mul(a, k) }, else_branch = e () => (float[2,3] v) { l = CumSum(a, o) v = Neg(l) }> }",
    "Loop": "g (float[2,3] x, bool c) => (float[2,3] y, float[i,2,3] s) { y, s = Loop(n, , x) "
    "<body = b (int64 i, bool q, float[2,3] h) => (bool p, float[2,3] r, float[2,3] t) "
    "{ p = Identity(q) r = Mul(h, k) t = CumSum(r, o) }> }",
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_are_lowered(name):
    constants = {"k": np.array(0.5, np.float32), "o": i64(1).reshape(()), "n": np.array(3, np.int64)}
    model = model_of(BODIES[name], **constants)
    result = lowered(model)
    inside = {value.dtype for node in result.graph.all_nodes() for value in node.outputs}
    assert HALF in inside and ir.DataType.FLOAT in inside
    assert_near(model, result, 3e-3)


@pytest.mark.parametrize("opset", [13, 16])
def test_control_flow_that_does_not_take_the_dtype_passes_float32(opset):
    constants = {"k": np.array(0.5, np.float32), "o": i64(1).reshape(()), "n": np.array(3, np.int64)}
    model = model_of(BODIES["Loop"], opset, **constants)
    result = lowered(model, Precision(BRAIN))
    assert (result.graph[0].outputs[0].dtype == BRAIN) == (opset == 16)
    assert_near(model, result, 3e-2)


def test_weights_of_operators_that_do_not_take_the_dtype_are_stored_in_it():
    model = model_of(
        "g (float[1,8,5,5] x) => (float[a,b,c,d] y) { h = Relu(x) c = Conv(h, w) y = Relu(c) }",
        18,
        w=weights(8, 8, 3, 3),
    )
    result = lowered(model, Precision(BRAIN))
    assert result.graph.initializers["w"].dtype == BRAIN
    assert dtypes(result)["c"] == ir.DataType.FLOAT
    assert_near(model, result, 2e-2)


def test_operators_stay_on_request():
    result = lowered(model_of(MLP, **MLP_WEIGHTS), Precision(float32=frozenset({"MatMul"})))
    assert result.graph.initializers["w"].dtype == ir.DataType.FLOAT
    assert dtypes(result)["r"] == HALF


def test_a_constant_that_both_dtypes_read_stays():
    text = "g (float[3] x) => (float[3] y, float[3] z) { y = Add(x, k) q = CumSum(k, o) z = Mul(q, x) }"
    model = model_of(text, k=weights(3), o=i64(0).reshape(()))
    result = lowered(model)
    assert result.graph.initializers["k"].dtype == ir.DataType.FLOAT
    assert_near(model, result, 3e-3)


def test_an_initializer_that_an_input_overrides_keeps_its_dtype():
    model = model_of("g (float[3] x, float[3] w) => (float[3] y) { y = Add(x, w) }", w=weights(3))
    result = lowered(model)
    assert result.graph.initializers["w"].dtype == ir.DataType.FLOAT
    np.testing.assert_array_equal(result.graph.initializers["w"].const_value.numpy(), weights(3))


def test_constants_written_as_numbers_are_lowered():
    model = model_of(
        "g (float[2] x, int64[1] s) => (float[2] y) { k = Constant<value_float = 0.5>() "
        "l = Constant<value_floats = [0.5, 2.0]>() f = ConstantOfShape(s) a = Mul(x, k) b = Mul(a, l) y = Add(b, f) }"
    )
    result = lowered(model)
    assert set(dtypes(result).values()) >= {HALF}
    assert_near(model, result, 1e-3, {"x": weights(2), "s": i64(2)})


@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=str)
def test_numbers_stay_in_range(dtype):
    numbers = np.array([1e30, -3.4e38, 1e-40, -1e-45, np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5], np.float32)
    result = narrowed(ir.tensor(numbers), dtype).numpy()
    largest, smallest = (float(getattr(ml_dtypes.finfo(dtype.numpy()), name)) for name in ("max", "smallest_subnormal"))
    assert abs(float(result[1])) == largest
    assert np.isfinite(result[:4].astype(np.float32)).all() and (result[:4] != 0).all()
    assert float(result[3]) == -smallest
    np.testing.assert_array_equal(result[4:].astype(np.float32), numbers[4:])
    assert np.signbit(result[8].astype(np.float32)) and not np.signbit(result[7].astype(np.float32))


def test_other_dtypes_and_old_opsets_are_refused():
    with pytest.raises(OptionError, match="float8e4m3fn"):
        lowered(model_of(MLP, **MLP_WEIGHTS), Precision(ir.DataType.FLOAT8E4M3FN))
    with pytest.raises(OpsetError, match="raise the opset to 13"):
        lowered(model_of(MLP, 11, **MLP_WEIGHTS), Precision(BRAIN))


@pytest.mark.parametrize("name", ["f16_io_f32_comp", "f16_io_comp", "bfloat16"])
def test_the_option_lowers_what_is_optimized_and_reports_the_error(name):
    model = model_of(MLP, **MLP_WEIGHTS)
    result = og.optimize_for_inference(model, precision=name, check=2)
    onnx.checker.check_model(og.to_proto(result), full_check=True)
    report = optimization_report(result)
    assert report.hits["lower_precision"] > 0
    assert 0 < report.errors["y"] < (3e-2 if name == "bfloat16" else 3e-3)
    assert len(og.to_proto(result).SerializeToString()) < len(og.to_proto(model).SerializeToString())
    assert result.graph.outputs[0].dtype == ir.DataType.FLOAT


def test_an_unknown_precision_is_refused():
    with pytest.raises(OptionError, match="no precision 'f8'"):
        og.optimize_for_inference(model_of(MLP, **MLP_WEIGHTS), precision="f8")
