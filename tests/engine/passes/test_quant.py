"""DequantizeLinear and QuantizeLinear that undo each other."""

import numpy as np
import pytest

from onnxgrad.engine.passes.fusions.quant import RULES
from tests.engine.passes.checks import apply, check, i64, model_of, operators

S, Z = np.array(0.1, np.float32), np.array(3, np.int8)
Q = "g (int8[2,3,4] x) => (int8[a,b,c] y)"
D = "a = DequantizeLinear(x, s, z)"

BETTER: dict[str, tuple[str, int, dict[str, np.ndarray], list[str]]] = {
    # name: text, opset, constants, the operators that are left
    "of one scale": (f"{Q} {{ {D} b = QuantizeLinear(a, s, z) y = Identity(b) }}", 13, {"s": S, "z": Z}, ["Identity"]),
    "of equal scales": (
        f"{Q} {{ {D} b = QuantizeLinear(a, t, z) y = Identity(b) }}",
        13,
        {"s": S, "t": S, "z": Z},
        ["Identity"],
    ),
    "without a zero point": (
        "g (uint8[4] x) => (uint8[a] y) { a = DequantizeLinear(x, s) b = QuantizeLinear(a, s) y = Identity(b) }",
        10,
        {"s": S},
        ["Identity"],
    ),
    "with a zero point of 0, and without": (
        "g (uint8[4] x) => (uint8[a] y) { a = DequantizeLinear(x, s, z) b = QuantizeLinear(a, s) y = Identity(b) }",
        13,
        {"s": S, "z": np.array(0, np.uint8)},
        ["Identity"],
    ),
    "per axis": (
        f"{Q} {{ a = DequantizeLinear<axis=1>(x, s, z) b = QuantizeLinear<axis=1>(a, s, z) y = Identity(b) }}",
        13,
        {"s": np.array([0.1, 2, 30], np.float32), "z": np.array([1, 2, 3], np.int8)},
        ["Identity"],
    ),
    "16 bits": (
        "g (uint16[4] x) => (uint16[a] y) { a = DequantizeLinear(x, s, z) b = QuantizeLinear(a, s, "
        "z) y = Identity(b) }",
        21,
        {"s": np.array(1 / 3, np.float32), "z": np.array(30000, np.uint16)},
        ["Identity"],
    ),
    "twice quantized": (
        "g (float[4] x) => (float[a] y) { q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) "
        "b = QuantizeLinear(a, s, z) y = DequantizeLinear(b, s, z) }",
        13,
        {"s": S, "z": Z},
        ["DequantizeLinear", "QuantizeLinear"],
    ),
    "around Transpose": (
        f"{Q} {{ {D} b = Transpose(a) y = QuantizeLinear(b, s, z) }}",
        13,
        {"s": S, "z": Z},
        ["Transpose"],
    ),
    "around Reshape and Slice": (
        "g (int8[2,3,4] x) => (int8[a,b] y) { a = DequantizeLinear(x, s, z) b = Reshape(a, t) "
        "q = QuantizeLinear(b, s, z) c = DequantizeLinear(q, s, z) d = Slice(c, o, e) y = QuantizeLinear(d, s, z) }",
        13,
        {"s": S, "z": Z, "t": i64(6, 4), "o": i64(1), "e": i64(3)},
        ["Reshape", "Slice"],
    ),
    "around MaxPool": (
        "g (int8[1,2,4,4] x) => (int8[a,b,c,d] y) { a = DequantizeLinear(x, s, z) "
        "b = MaxPool<kernel_shape=[2,2],pads=[1,1,0,0]>(a) y = QuantizeLinear(b, s, z) }",
        13,
        {"s": S, "z": Z},
        ["MaxPool"],
    ),
}

KEPT: dict[str, tuple[str, int, dict[str, np.ndarray]]] = {
    "quantized and back": (
        "g (float[4] x) => (float[a] y) { a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z) }",
        13,
        {"s": S, "z": Z},
    ),
    "another scale": (
        f"{Q} {{ {D} y = QuantizeLinear(a, t, z) }}",
        13,
        {"s": S, "t": np.array(0.2, np.float32), "z": Z},
    ),
    "another zero point": (
        f"{Q} {{ {D} y = QuantizeLinear(a, s, u) }}",
        13,
        {"s": S, "z": Z, "u": np.array(4, np.int8)},
    ),
    "another dtype": (
        "g (int8[4] x) => (uint8[a] y) { a = DequantizeLinear(x, s, z) y = QuantizeLinear(a, s, u) }",
        13,
        {"s": S, "z": np.array(0, np.int8), "u": np.array(0, np.uint8)},
    ),
    "another axis": (
        "g (int8[2,2] x) => (int8[a,b] y) { a = DequantizeLinear<axis=0>(x, s, z) y = "
        "QuantizeLinear<axis=1>(a, s, z) }",
        13,
        {"s": np.array([0.1, 2], np.float32), "z": np.array([1, 2], np.int8)},
    ),
    "a scale near the limits of float": (
        f"{Q} {{ {D} y = QuantizeLinear(a, s, z) }}",
        13,
        {"s": np.array(1e-41, np.float32), "z": Z},
    ),
    "a scale of 0": (f"{Q} {{ {D} y = QuantizeLinear(a, s, z) }}", 13, {"s": np.array(0, np.float32), "z": Z}),
    "around AveragePool": (
        "g (int8[1,2,4,4] x) => (int8[a,b,c,d] y) { a = DequantizeLinear(x, s, z) "
        "b = AveragePool<kernel_shape=[2,2]>(a) y = QuantizeLinear(b, s, z) }",
        13,
        {"s": S, "z": Z},
    ),
    "around Relu": (f"{Q} {{ {D} b = Relu(a) y = QuantizeLinear(b, s, z) }}", 13, {"s": S, "z": Z}),
    "around MaxPool, a negative scale": (
        "g (int8[1,2,4,4] x) => (int8[a,b,c,d] y) { a = DequantizeLinear(x, s, z) "
        "b = MaxPool<kernel_shape=[2,2]>(a) y = QuantizeLinear(b, s, z) }",
        13,
        {"s": np.array(-0.1, np.float32), "z": Z},
    ),
    "around MaxPool before opset 12": (
        "g (int8[1,2,4,4] x) => (int8[a,b,c,d] y) { a = DequantizeLinear(x, s, z) "
        "b = MaxPool<kernel_shape=[2,2]>(a) y = QuantizeLinear(b, s, z) }",
        11,
        {"s": S, "z": Z},
    ),
    "around Transpose, per axis": (
        f"{Q} {{ a = DequantizeLinear<axis=1>(x, s, z) b = Transpose(a) y = QuantizeLinear<axis=1>(b, s, z) }}",
        13,
        {"s": np.array([0.1, 2, 30], np.float32), "z": np.array([1, 2, 3], np.int8)},
    ),
    "around Transpose that others read": (
        "g (int8[2,3] x) => (int8[a,b] y, float[c,d] b) { a = DequantizeLinear(x, s, z) "
        "b = Transpose(a) y = QuantizeLinear(b, s, z) }",
        13,
        {"s": S, "z": Z},
    ),
    "a scale that an input gives": (
        "g (int8[4] x, float t) => (int8[a] y) { a = DequantizeLinear(x, t, z) y = QuantizeLinear(a, t, z) }",
        13,
        {"z": Z},
    ),
}


@pytest.mark.parametrize("name", BETTER)
def test_fewer_are_left(name):
    text, opset, constants, left = BETTER[name]
    assert operators(check(model_of(text, opset, **constants), *RULES)) == left


@pytest.mark.parametrize("name", KEPT)
def test_nothing_changes(name):
    text, opset, constants = KEPT[name]
    _, record = apply(model_of(text, opset, **constants), *RULES)
    assert sum(entry.hits for entry in record.values()) == 0


@pytest.mark.parametrize("scale", [2.0**-100, 1e-5, 0.1, 1 / 3, 0.7, 255.0, 2.0**100])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16], ids=str)
def test_every_integer_comes_back_through_real_numbers(scale, dtype):
    info = np.iinfo(dtype)
    scale = np.float32(scale)
    for zero in (info.min, 0, info.max):
        q = np.arange(info.min, int(info.max) + 1)
        real = (q - zero).astype(np.float32) * scale
        back = np.clip(np.rint(real / scale) + zero, info.min, info.max)
        assert (back == q).all()
