"""The backend interface of the onnx package."""

import numpy as np
from onnx import parser

import onnxgrad.backend

ADD = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, float[N] z) => (float[N] y, float[N] d) '
    "{ y = Add(x, z) d = Sub(x, z) }"
)


def test_a_prepared_model_takes_its_inputs_in_order():
    x, z = np.asarray([1, 2], np.float32), np.asarray([3, 5], np.float32)
    y, d = onnxgrad.backend.prepare(ADD).run([x, z])
    np.testing.assert_array_equal(y, [4, 7])
    np.testing.assert_array_equal(d, [-2, -3])


def test_the_cpu_is_a_device_and_unknown_ones_are_not():
    assert onnxgrad.backend.supports_device("CPU")
    assert onnxgrad.backend.is_compatible(ADD)
