"""Concat of concatenations, of constants, of the pieces of one value."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.concat import RULES
from tests.engine.passes.checks import apply, check, f32, i64, model_of, operators

XZ, S, N = "g (float[2,3] x, float[2,4] z)", "g (float[6,4] x)", "g (float[6,M] x)"

BETTER = {
    # name: text, opset, constants, the operators that are left
    "nested": (
        f"{XZ} => (float[a,b] y) {{ a = Concat<axis=1>(x, z) y = Concat<axis=-1>(z, a, x) }}",
        13,
        {},
        ["Concat"],
    ),
    "nested twice": (
        f"{XZ} => (float[a,b] y) {{ a = Concat<axis=1>(x, z) b = Concat<axis=1>(a, z) y = Concat<axis=1>(b, x) }}",
        13,
        {},
        ["Concat"],
    ),
    "constants side by side": (
        f"{XZ} => (float[a,b] y) {{ y = Concat<axis=1>(x, c, d, z, c) }}",
        13,
        {"c": np.ones((2, 1), np.float32), "d": np.zeros((2, 2), np.float32)},
        ["Concat"],
    ),
    "all pieces of a Split": (
        f"{S} => (float[a,b] y) {{ a, b, c = Split<axis=0>(x, n) d = Concat<axis=-2>(a, b, c) y = Abs(d) }}",
        13,
        {"n": i64(1, 2, 3)},
        ["Abs"],
    ),
    "all pieces of a Split, sizes an attribute": (
        f"{S} => (float[a,b] y) {{ a, b = Split<axis=1,split=[1,3]>(x) d = Concat<axis=1>(a, b) y = Abs(d) }}",
        11,
        {},
        ["Abs"],
    ),
    "all pieces of a Split, and more": (
        f"{S} => (float[a,b] y) {{ a, b = Split<axis=1>(x, n) y = Concat<axis=1>(x, a, b) }}",
        13,
        {"n": i64(1, 3)},
        ["Concat"],
    ),
    "Split into one": (f"{S} => (float[a,b] y) {{ a = Split<axis=1,num_outputs=1>(x) y = Abs(a) }}", 18, {}, ["Abs"]),
    "two halves": (
        f"{S} => (float[a,b] y) {{ a = Slice(x, b0, b3, b0) b = Slice(x, b3, b6, b0) c = "
        f"Concat<axis=0>(a, b) y = Abs(c) }}",
        13,
        {"b0": i64(0), "b3": i64(3), "b6": i64(6)},
        ["Abs"],
    ),
    "a constant choice over single numbers": (
        "g (int64[1] x, int64[1] z) => (int64[a] y) { h = Concat<axis=0>(x, z, x) y = Where(c, k, h) }",
        13,
        {"c": np.array([False, True, False]), "k": i64(7, 8, 9)},
        ["Concat"],
    ),
    "two parts of an open axis": (
        "g (float[M,6] x) => (float[a,b] y) { a = Slice(x, b1, b3, b0) b = Slice(x, b3, b6, b0) y = "
        "Concat<axis=0>(a, b) }",
        13,
        {"b0": i64(0), "b1": i64(1), "b3": i64(3), "b6": i64(6)},
        ["Slice"],
    ),
    "halves of an open axis": (
        "g (float[M,6] x) => (float[a,b] y) { a = Slice(x, b0, b3, b0) b = Slice(x, b3, e, b0) c = "
        "Concat<axis=0>(a, b) y = Abs(c) }",
        13,
        {"b0": i64(0), "b3": i64(3), "e": i64(2**63 - 1)},
        ["Abs"],
    ),
    "three pieces, bounds as attributes": (
        f"{N} => (float[a,b] y) {{ a = Slice<axes=[0],starts=[0],ends=[1]>(x) "
        "b = Slice<axes=[0],starts=[1],ends=[-1]>(x) c = Slice<axes=[0],starts=[-1],ends=[9]>(x) "
        "d = Concat<axis=0>(a, b, c) y = Abs(d) }",
        9,
        {},
        ["Abs"],
    ),
}

KEPT = {
    "a choice over pairs": (
        "g (int64[2] x, int64[2] z) => (int64[a] y) { h = Concat<axis=0>(x, z) y = Where(c, k, h) }",
        13,
        {"c": np.array([False, True, False, True]), "k": i64(7, 8, 9, 6)},
    ),
    "a choice at run time": (
        "g (int64[1] x, int64[1] z, bool[2] c) => (int64[a] y) { h = Concat<axis=0>(x, z) y = Where(c, k, h) }",
        13,
        {"k": i64(7, 8)},
    ),
    "nested on another axis": (
        "g (float[2,2] x) => (float[a,b] y) { a = Concat<axis=0>(x, x) b = Concat<axis=0>(x, x) "
        "y = Concat<axis=1>(a, b) }",
        13,
        {},
    ),
    "nested, that others read": (
        f"{XZ} => (float[a,b] y, float[c,d] w) {{ a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, x) w = Neg(a) }}",
        13,
        {},
    ),
    "nested, an output": (
        f"{XZ} => (float[a,b] y, float[c,d] a) {{ a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, x) }}",
        13,
        {},
    ),
    "constants apart": (
        f"{XZ} => (float[a,b] y) {{ y = Concat<axis=1>(c, x, c) }}",
        13,
        {"c": np.ones((2, 1), np.float32)},
    ),
    "pieces in another order": (
        f"{S} => (float[a,b] y) {{ a, b = Split<axis=0>(x, n) y = Concat<axis=0>(b, a) }}",
        13,
        {"n": i64(3, 3)},
    ),
    "pieces on another axis": (
        f"{S} => (float[a,b] y) {{ a, b = Split<axis=0>(x, n) y = Concat<axis=1>(a, b) }}",
        13,
        {"n": i64(3, 3)},
    ),
    "not all pieces": (
        f"{S} => (float[a,b] y) {{ a, b, c = Split<axis=0>(x, n) y = Concat<axis=0>(a, b) }}",
        13,
        {"n": i64(2, 2, 2)},
    ),
    "slices that overlap": (
        f"{S} => (float[a,b] y) {{ a = Slice(x, b0, b3, b0) b = Slice(x, b2, b6, b0) y = Concat<axis=0>(a, b) }}",
        13,
        {"b0": i64(0), "b2": i64(2), "b3": i64(3), "b6": i64(6)},
    ),
    "slices of two values": (
        "g (float[6] x, float[6] z) => (float[a] y) { a = Slice(x, b0, b3, b0) b = Slice(z, b3, b6, b0) "
        "y = Concat<axis=0>(a, b) }",
        13,
        {"b0": i64(0), "b3": i64(3), "b6": i64(6)},
    ),
    "slices that others read": (
        f"{S} => (float[a,b] y, float[c,d] w) {{ a = Slice(x, b1, b3, b0) b = Slice(x, b3, b6, b0) "
        "y = Concat<axis=0>(a, b) w = Neg(a) }",
        13,
        {"b0": i64(0), "b1": i64(1), "b3": i64(3), "b6": i64(6)},
    ),
    "slices backwards": (
        f"{S} => (float[a,b] y) {{ a = Slice(x, b3, b0, b0, m) b = Slice(x, b6, b3, b0, m) y = Concat<axis=0>(b, a) }}",
        13,
        {"b0": i64(0), "b3": i64(3), "b6": i64(6), "m": i64(-1)},
    ),
    "slices from the end of an open axis": (
        "g (float[M,6] x) => (float[a,b] y) { a = Slice(x, b0, m, b0) b = Slice(x, m, e, b0) "
        "y = Concat<axis=0>(a, b) }",
        13,
        {"b0": i64(0), "m": i64(-2), "e": i64(2**31)},
    ),
    "Split into two": (f"{S} => (float[a,b] y) {{ a, b = Split<axis=1>(x, n) y = Add(a, b) }}", 13, {"n": i64(2, 2)}),
}


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    assert operators(check(model_of(text, opset, **constants), *RULES)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    check(model_of(text, opset, **constants), *RULES, hits=0)


def test_constants_that_an_input_overrides_are_not_joined():
    model = model_of("g (float[2] x, float[1] c) => (float[a] y) { y = Concat<axis=0>(x, c, d) }", c=f32(1), d=f32(2))
    check(model, *RULES, hits=0)


def test_strings_are_not_joined():
    text = (
        "g (string[1] x) => (string[3] y) "
        '{ a = Constant<value_strings=["p"]>() b = Constant<value_strings=["q"]>() y = Concat<axis=0>(x, a, b) }'
    )
    assert operators(apply(model_of(text), *RULES)[0]) == ["Concat"]
