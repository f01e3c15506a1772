"""Gradients of large models are built in seconds: the time is that of the processor, not of the clock."""

import time

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from onnxgrad.grad.gradient_model import gradient_model
from tests.timing import processor_seconds


def tower(layers: int) -> onnx.ModelProto:
    """A network of 9 nodes a layer (attention over itself and a bottleneck), with weights and symbolic dimensions."""
    nodes, weights = [], []
    size, value = 4, "x"
    for k in range(layers):
        names = [f"{name}{k}" for name in ("q", "t", "s", "p", "a", "r", "g", "m", "h")]
        weights += [onnx.numpy_helper.from_array(np.eye(size, dtype=np.float32), f"{name}{k}") for name in ("wq", "wm")]
        q, t, s, p, a, r, g, m, h = names
        nodes += [
            oh.make_node("MatMul", [value, f"wq{k}"], [q]),
            oh.make_node("Transpose", [q], [t], perm=[0, 2, 1]),
            oh.make_node("MatMul", [q, t], [s]),
            oh.make_node("Softmax", [s], [p]),
            oh.make_node("MatMul", [p, value], [a]),
            oh.make_node("Add", [value, a], [r]),
            oh.make_node("Relu", [r], [g]),
            oh.make_node("MatMul", [g, f"wm{k}"], [m]),
            oh.make_node("Add", [m, r], [h]),
        ]
        value = h
    infos = [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", "L", size]) for name in ("x", value)]
    graph = oh.make_graph(nodes, "tower", infos[:1], infos[1:], weights)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("nodes", "seconds"), [(1000, 3), pytest.param(3600, 12, marks=pytest.mark.slow)])
def test_the_gradient_of_a_large_model_is_built_in_seconds(nodes, seconds):
    model = tower(nodes // 9 + 1)
    weights = [tensor.name for tensor in model.graph.initializer]
    gradient_model(tower(1))  # imports what it needs
    start = time.process_time()
    result = gradient_model(model, wrt=["x", *weights])
    assert time.process_time() - start < seconds
    assert len(result.graph.outputs) == 2 + len(weights)


def test_time_grows_with_the_number_of_nodes_only():
    short, long = (tower(layers) for layers in (30, 120))
    assert processor_seconds(lambda: gradient_model(long)) < 8 * processor_seconds(lambda: gradient_model(short))
