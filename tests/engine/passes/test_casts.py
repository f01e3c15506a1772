"""Casts that lose nothing go; those that narrow stay."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.passes.fusions.casts import RULES, loses_nothing
from tests.engine.passes.checks import apply, check, i64, model_of, operators
from tests.engine.passes.special import SPECIAL, assert_same_values

TYPES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
         "double": 11, "bfloat16": 16}  # fmt: skip


def chain(source, via, to):
    """x in one dtype, cast to the second, cast to the third."""
    return (
        f"g ({source}[3] x) => ({to}[3] y) "
        f"{{ a = Identity(x) b = Cast<to={TYPES[via]}>(a) y = Cast<to={TYPES[to]}>(b) }}"
    )


MERGED = [
    *(("float16", "float", "double"), ("float16", "float", "float16"), ("bfloat16", "float", "bfloat16")),
    *(("float", "double", "float"), ("bfloat16", "float", "float16"), ("float16", "double", "bool")),
    *(("int8", "int32", "int64"), ("int32", "int64", "float"), ("int32", "int64", "int8"), ("uint8", "float", "int8")),
    *(
        ("bool", "float", "int64"),
        ("bool", "int64", "bool"),
        ("int32", "double", "int32"),
        ("uint16", "int32", "float"),
    ),
]
KEPT = [
    *(("float", "int32", "bool"), ("float", "int32", "float"), ("float", "float16", "float")),
    *(("float", "bfloat16", "float"), ("double", "float", "double"), ("int64", "int8", "int64")),
    *(
        ("int64", "int32", "int64"),
        ("int64", "double", "int64"),
        ("int32", "float", "int32"),
        ("int8", "uint8", "int32"),
    ),
    *(("float16", "bfloat16", "float"), ("float", "bool", "float"), ("float16", "float", "int32")),
]


@pytest.mark.parametrize("types", MERGED, ids="-".join)
def test_a_cast_after_one_that_loses_nothing_is_direct(types):
    result = check(model_of(chain(*types)), *RULES, hits=1)
    assert operators(result).count("Cast") == (types[0] != types[2])


@pytest.mark.parametrize("types", KEPT, ids="-".join)
def test_a_cast_after_one_that_narrows_stays(types):
    result, record = apply(model_of(chain(*types)), *RULES)
    assert operators(result).count("Cast") == 2
    assert "the first cast loses something, or may" in record["merge_casts"].reasons


def test_nan_infinities_and_zeros_pass():
    model = model_of("g (float[12] x) => (float[12] y) { a = Cast<to=11>(x) b = Cast<to=1>(a) y = Neg(b) }")
    result = check(model, *RULES, hits=1)
    assert_same_values(model, result, x=SPECIAL.astype(np.float32))


def _extremes(dtype):
    kind = dtype.numpy()
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        ints = np.iinfo(kind)
        return np.array([ints.min, ints.min + 1, 1, ints.max - 1, ints.max], kind)
    info = ml_dtypes.finfo(kind)
    numbers = [info.max, info.tiny, info.smallest_subnormal, np.inf, -np.inf, np.nan, -0.0]
    return np.concatenate([np.array(numbers, kind), (np.array([1 + float(info.eps)])).astype(kind)])


PLAIN = [ir.DataType[name.upper()] for name in TYPES]


@pytest.mark.parametrize("source", PLAIN, ids=str)
def test_dtypes_that_hold_all_of_another(source):
    values = _extremes(source)
    for target in PLAIN:
        if loses_nothing(source, target):
            back = values.astype(target.numpy()).astype(source.numpy())
            assert back.tobytes() == values.tobytes(), target


def test_casts_around_what_moves_elements_go():
    model = model_of(
        "g (float16[2,3] x) => (float16[a] y) "
        "{ a = Cast<to=1>(x) b = Transpose(a) c = Cast<to=10>(b) d = Cast<to=11>(c) e = Reshape(d, "
        "s) y = Cast<to=10>(e) }",
        s=i64(-1),
    )
    assert operators(check(model, *RULES)) == ["Reshape", "Transpose"]


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3] x) => (float[a,b] y) { a = Cast<to=10>(x) b = Transpose(a) y = Cast<to=1>(b) }",
        "g (float16[2,3] x) => (float16[a,b] y) { a = Cast<to=1>(x) b = Exp(a) y = Cast<to=10>(b) }",
        "g (float16[2,3] x) => (float16[a,b] y, float[c,d] b) { a = Cast<to=1>(x) b = Transpose(a) y "
        "= Cast<to=10>(b) }",
        "g (float16[2,3] x) => (double[a,b] y) { a = Cast<to=1>(x) b = Transpose(a) y = Cast<to=11>(b) }",
    ],
    ids=["narrow", "computes", "an output", "another dtype"],
)
def test_casts_around_something_else_stay(text):
    check(model_of(text), *RULES, hits=0)


FILLED = {
    # name: value of the ConstantOfShape, target, whether it is rewritten
    "1 to int64": ("<value=float[1] {1.0}>", "int64", True),
    "the default to bool": ("", "bool", True),
    "0.1 to float16": ("<value=float[1] {0.1}>", "float16", True),
    "0.5 to bool": ("<value=float[1] {0.5}>", "bool", True),
    "-3 to double": ("<value=int64[1] {-3}>", "double", True),
    "300 to int8": ("<value=float[1] {300.0}>", "int8", False),
    "-1 to uint8": ("<value=float[1] {-1.0}>", "uint8", False),
    "1 to bfloat16": ("<value=float[1] {1.0}>", "bfloat16", False),
}


@pytest.mark.parametrize("name", FILLED)
def test_what_is_filled_with_a_number_has_the_dtype_at_once(name):
    value, to, rewritten = FILLED[name]
    text = f"g (int64[2] s) => ({to}[a,b] y) {{ a = ConstantOfShape{value}(s) y = Cast<to={TYPES[to]}>(a) }}"
    model = model_of(text)
    result, _ = apply(model, *RULES)
    assert operators(result) == (["ConstantOfShape"] if rewritten else ["Cast", "ConstantOfShape"])
    if rewritten and to != "bfloat16":
        assert_same_values(model, result, s=i64(2, 1))


def test_a_filled_value_that_others_read_stays():
    text = "g (int64[1] s) => (int64[a] y, float[b] z) { a = ConstantOfShape(s) y = Cast<to=7>(a) z = Neg(a) }"
    _, record = apply(model_of(text), *RULES)
    assert record["cast_constant_of_shape"].hits == 0
