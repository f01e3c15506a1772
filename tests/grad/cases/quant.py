"""Cases for grad/rules/quant.py."""

from typing import Any

import numpy as np

from tests.grad.checks import Case

INT8 = np.array([[-128, 5, 127], [3, 0, -7]], np.int8)
UINT8 = np.array([[0, 5, 255], [3, 128, 7]], np.uint8)
WIDE = np.arange(-12, 12, dtype=np.int8).reshape(2, 6, 2)


def dequantize(x, scale, zero=None, name="", **attributes) -> Case:
    inputs = (x, scale) if zero is None else (x, scale, zero)
    return Case("DequantizeLinear", inputs, attributes, name=f"DequantizeLinear-{name}")


COARSE: dict[str, Any] = {
    "half": False,
    "second": False,
    "tolerance": 1e-4,
}  # the reference computes the scale in float32

CASES = [
    dequantize(INT8, (), name="scalar"),
    dequantize(UINT8, (), np.array(128, np.uint8), name="zero-point"),
    dequantize(INT8, (3,), np.array([0, 1, -1], np.int8), name="axis-1"),
    dequantize(INT8, (2,), name="axis-0", axis=-2),
    dequantize(WIDE, (2, 2, 2), name="blocks", axis=1, block_size=3),
    dequantize(WIDE, (2, 2, 2), np.ones((2, 2, 2), np.int8), name="short-block", axis=1, block_size=4),
    Case("DynamicQuantizeLinear", ((2, 3),), outputs=3, seeded=(1,), **COARSE),
    Case(
        "DynamicQuantizeLinear",
        ((4,),),
        outputs=3,
        seeded=(1,),
        domain=(1.0, 2.0),
        **COARSE,
        name="DynamicQuantizeLinear-positive",
    ),
]
