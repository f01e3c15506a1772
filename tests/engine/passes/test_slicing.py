"""Slice, Gather, Pad, Expand and Tile: merged where that is exact."""

import itertools

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.slicing import ENDLESS, RULES, Cut
from tests.engine.passes.checks import apply, check, i64, model_of, operators

S, N = "g (float[8,6] x)", "g (float[N,M] x)"
TWO = "{ a = Slice(x, b1, e1, o1, s1) y = Slice(a, b2, e2, o2, s2) }"


def slices(first, second):
    """Constants of two slices: (starts, ends, axes, steps) each."""
    names = ("b", "e", "o", "s")
    return {
        f"{name}{number}": i64(*np.atleast_1d(values))
        for number, bounds in ((1, first), (2, second))
        for name, values in zip(names, bounds, strict=True)
    }


BETTER = {
    # name: text, opset, constants, the operators that are left
    "Slice, Slice of another axis": (
        f"{N} => (float[a,b] y) {TWO}",
        13,
        slices((1, ENDLESS, 0, 1), (0, 2, 1, 1)),
        ["Slice"],
    ),
    "Slice, Slice of the same axis": (
        f"{S} => (float[a,b] y) {TWO}",
        13,
        slices((1, 7, 0, 1), (2, -1, 0, 1)),
        ["Slice"],
    ),
    "Slice, Slice of the same axis, open": (
        f"{N} => (float[a,b] y) {TWO}",
        13,
        slices((1, 5, 0, 1), (1, 2, 0, 1)),
        ["Slice"],
    ),
    "Slice, Slice from the end, open": (
        f"{N} => (float[a,b] y) {TWO}",
        13,
        slices((1, ENDLESS, 0, 1), (0, -1, 0, 1)),
        ["Slice"],
    ),
    "backwards twice": (f"{S} => (float[a,b] y) {TWO}", 13, slices((-1, -99, 0, -1), (-1, -99, 0, -2)), ["Slice"]),
    "steps": (f"{S} => (float[a,b] y) {TWO}", 13, slices((0, 99, 0, 2), (1, 99, 0, 2)), ["Slice"]),
    "two axes and one": (
        f"{S} => (float[a,b] y) {TWO}",
        13,
        slices(((1, 1), (7, 5), (0, 1), (1, 1)), (1, -1, -1, 1)),
        ["Slice"],
    ),
    "bounds as attributes": (
        "g (float[8,N] x) => (float[a,b] y) { a = Slice<axes=[0],starts=[1],ends=[7]>(x) "
        "y = Slice<starts=[-3],ends=[-1]>(a) }",
        9,
        {},
        ["Slice"],
    ),
    "whole, bounds as attributes": (
        "g (float[8,N] x) => (float[a,b] y) { a = Slice<starts=[0],ends=[8]>(x) y = Abs(a) }",
        9,
        {},
        ["Abs"],
    ),
    "one element": (
        "g (float[N,6] x) => (float[a] y) { a = Slice(x, b, e, o) y = Squeeze(a, o) }",
        13,
        {"b": i64(2), "e": i64(3), "o": i64(1)},
        ["Gather"],
    ),
    "one element, the last": (
        f"{S} => (float[a] y) {{ a = Slice(x, b, e, o) y = Squeeze(a, o) }}",
        13,
        {"b": i64(-1), "e": i64(ENDLESS), "o": i64(0)},
        ["Gather"],
    ),
    "one element, attributes": (
        f"{S} => (float[a] y) {{ a = Slice<axes=[1],starts=[2],ends=[3]>(x) y = Squeeze<axes=[-1]>(a) }}",
        9,
        {},
        ["Gather"],
    ),
    "Gather of all": (
        f"{S} => (float[a,b] y) {{ a = Gather<axis=1>(x, i) y = Abs(a) }}",
        13,
        {"i": i64(0, 1, 2, 3, 4, 5)},
        ["Abs"],
    ),
    "Gather, Gather": (
        f"{S} => (float[a] y) {{ a = Gather<axis=1>(x, i) y = Gather<axis=1>(a, j) }}",
        13,
        {"i": i64(5, -1, 0), "j": np.array(-2)},
        ["Gather"],
    ),
    "Pad, Pad": (
        f"{N} => (float[a,b] y) {{ a = Pad(x, p, v) y = Pad(a, q, v) }}",
        13,
        {"p": i64(1, 0, 0, 2), "q": i64(0, 3, 1, 0), "v": np.float32(2)},
        ["Pad"],
    ),
    "Pad, Pad, 0 given and not": (
        f"{N} => (float[a,b] y) {{ a = Pad(x, p, v) y = Pad(a, q) }}",
        13,
        {"p": i64(1, 0, 0, 2), "q": i64(0, 3, 1, 0), "v": np.float32(0)},
        ["Pad"],
    ),
    "Pad, Pad, attributes": (
        f"{N} => (float[a,b] y) {{ a = Pad<pads=[1,0,0,2],value=2.0>(x) y = Pad<pads=[0,1,1,0],value=2.0>(a) }}",
        9,
        {},
        ["Pad"],
    ),
    "Expand, Expand": (
        "g (float[N,1] x) => (float[a,b,c] y) { a = Expand(x, s) y = Expand(a, t) }",
        13,
        {"s": i64(1, 3), "t": i64(2, 1, 1)},
        ["Expand"],
    ),
    "Tile, Tile": (
        f"{N} => (float[a,b] y) {{ a = Tile(x, s) y = Tile(a, t) }}",
        13,
        {"s": i64(1, 3), "t": i64(2, 2)},
        ["Tile"],
    ),
    "Expand before Add": (
        "g (float[1,6] x, float[8,6] z) => (float[8,6] y) { a = Expand(x, s) y = Add(a, z) }",
        13,
        {"s": i64(8, 6)},
        ["Add"],
    ),
    "Expand before Sub, on the right": (
        "g (float[6] x, float[N,6] z) => (float[N,6] y) { s = Shape(z) a = Expand(x, s) y = Sub(z, a) }",
        13,
        {},
        ["Sub"],
    ),
}

KEPT = {
    "a start from the end of an open axis": (
        f"{N} => (float[a,b] y) {TWO}",
        13,
        slices((-2, ENDLESS, 0, 1), (1, 2, 0, 1)),
    ),
    "backwards over an open axis": (f"{N} => (float[a,b] y) {TWO}", 13, slices((-1, -99, 0, -1), (0, 1, 0, 1))),
    "bounds that are inputs": (
        f"{S[:-1]}, int64[1] b) => (float[c,d] y) {{ a = Slice(x, b, e) y = Slice(a, e, f) }}",
        13,
        {"e": i64(1), "f": i64(2)},
    ),
    "two elements": (
        f"{N} => (float[a,b] y) {{ a = Slice(x, b, e, o) y = Squeeze(a, p) }}",
        13,
        {"b": i64(0), "e": i64(2), "o": i64(1), "p": i64(0)},
    ),
    "one element, another axis": (
        "g (float[1,6] x) => (float[a] y) { a = Slice(x, b, e, o) y = Squeeze(a, p) }",
        13,
        {"b": i64(0), "e": i64(1), "o": i64(1), "p": i64(0)},
    ),
    "a slice that others read": (
        "g (float[8,6] x) => (float[6] y, float[1,6] z) { a = Slice(x, b, e, b) y = Squeeze(a, b) z = Neg(a) }",
        13,
        {"b": i64(0), "e": i64(1)},
    ),
    "Gather of all, in another order": (
        f"{S} => (float[a,b] y) {{ a = Abs(x) y = Gather<axis=1>(a, i) }}",
        13,
        {"i": i64(0, 1, 2, 3, 5, 4)},
    ),
    "Gather of some": (f"{S} => (float[a,b] y) {{ a = Abs(x) y = Gather(a, i) }}", 13, {"i": i64(0, 1, 2, 3, 4, 5)}),
    "Gather on two axes": (
        f"{S} => (float[a,b] y) {{ a = Gather<axis=1>(x, i) y = Gather<axis=0>(a, i) }}",
        13,
        {"i": i64(1, 0)},
    ),
    "Gather of a matrix of indices": (
        f"{S} => (float[a,b,c] y) {{ a = Gather<axis=1>(x, i) y = Gather<axis=1>(a, j) }}",
        13,
        {"i": np.array([[1, 0]]), "j": i64(0, 0)},
    ),
    "Pad, Pad of another value": (
        f"{N} => (float[a,b] y) {{ a = Pad(x, p, v) y = Pad(a, p) }}",
        13,
        {"p": i64(1, 0, 0, 2), "v": np.float32(2)},
    ),
    "Pad by 0 and by -0": (
        f"{N} => (float[a,b] y) {{ a = Pad(x, p, v) y = Pad(a, p) }}",
        13,
        {"p": i64(1, 0, 0, 2), "v": np.float32(-0.0)},
    ),
    "Pad that cuts": (
        f"{S} => (float[a,b] y) {{ a = Pad(x, p) y = Pad(a, q) }}",
        13,
        {"p": i64(1, 0, 0, 2), "q": i64(-1, 0, 0, 0)},
    ),
    "Pad by reflection": (
        f'{S} => (float[a,b] y) {{ a = Pad<mode="reflect">(x, p) y = Pad<mode="reflect">(a, p) }}',
        13,
        {"p": i64(1, 0, 0, 2)},
    ),
    "Pad that others read": (
        f"{S} => (float[a,b] y, float[c,d] a) {{ a = Pad(x, p) y = Pad(a, p) }}",
        13,
        {"p": i64(1, 0, 0, 2)},
    ),
    "Expand, Expand to an input": (
        "g (float[N,1] x, int64[1] t) => (float[a,b,c] y) { a = Expand(x, s) y = Expand(a, t) }",
        13,
        {"s": i64(3, 1, 2)},
    ),
    "Expand before Add of less": (
        "g (float[1,6] x, float[6] z) => (float[8,6] y) { a = Expand(x, s) y = Add(a, z) }",
        13,
        {"s": i64(8, 6)},
    ),
    "Expand before MatMul": (
        "g (float[1,6] x, float[6,6] z) => (float[6,6] y) { a = Expand(x, s) y = MatMul(a, z) }",
        13,
        {"s": i64(6, 6)},
    ),
}


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    result = check(model_of(text, opset, **constants), *RULES)
    assert [op for op in operators(result) if op != "Shape"] == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    result, record = apply(model_of(text, opset, **constants), *RULES)
    assert sum(entry.hits for entry in record.values()) == 0
    assert result.graph[-1].outputs[0].name in ("y", "z")


BOUNDS = [Cut(*bounds) for bounds in itertools.product((-6, -2, 0, 1, 3), (-4, -1, 0, 2, ENDLESS), (1, 2, -1, -3))]


@pytest.mark.parametrize("size", [0, 1, 4, 5])
def test_two_cuts_are_one(size):
    for first, second in itertools.product(BOUNDS, BOUNDS):
        want = first.within(size)[second.start : second.end : second.step]
        known, unknown = first.then(second, size), first.then(second, None)
        assert known is not None and list(known.within(size)) == list(want), (first, second)
        assert unknown is None or list(unknown.within(size)) == list(want), (first, second)


def test_a_pad_of_given_axes_is_left_alone():
    model = model_of(
        "g (float[8,6] x) => (float[a,b] y) { a = Pad(x, p, , o) y = Pad(a, p, , o) }", 18, p=i64(1, 2), o=i64(1)
    )
    check(model, *RULES, hits=0)


def test_tiles_in_float16_keep_their_dtype():
    model = model_of("g (float16[2] x) => (float16[b] y) { a = Tile(x, s) y = Tile(a, s) }", s=i64(2))
    assert operators(check(model, *RULES)) == ["Tile"]


def test_a_broadcast_with_many_readers_goes_from_each():
    model = model_of(
        "g (float[1,6] x, float[8,6] z) => (float[8,6] y, float[8,6] w) "
        "{ a = Expand(x, s) y = Add(a, z) w = Mul(z, a) }",
        s=i64(8, 6),
    )
    assert operators(check(model, *RULES, hits=2)) == ["Add", "Mul"]


def test_padding_twice_keeps_a_value_in_another_dtype():
    model = model_of(
        "g (double[3] x) => (double[a] y) { a = Pad(x, p, v) y = Pad(a, p, v) }", p=i64(1, 0), v=np.float64(0.1)
    )
    assert operators(check(model, *RULES)) == ["Pad"]
