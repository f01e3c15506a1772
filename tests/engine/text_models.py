"""Small models, as ONNX text, and what the tests of the runtime do with them."""

import numpy as np
from onnx import parser

from onnxgrad.engine.compile import compile
from onnxgrad.engine.runtime.session import create_session

RELU = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"
ADD = "g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add(x, z) }"


def model_of(graph, opset=21, ir_version=10):
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{graph}')


def session_of(graph, opset=21, **options):
    return create_session(model_of(graph, opset), providers="cpu", threads=1, **options)


def compiled(graph, opset=21, **options):
    return compile(model_of(graph, opset), providers="cpu", threads=1, **options)


def f32(values):
    return np.asarray(values, np.float32)


def f64(values):
    return np.asarray(values, np.float64)


def floats(*shape):
    """-2, -1, 0, ... in float32."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 2
