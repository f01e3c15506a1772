"""Four small nets to train, as ONNX models with random weights: a perceptron, a ResNet, a transformer and an LSTM.

Each takes a batch `x` of symbolic size N and gives logits `y`; `batch` gives inputs and labels for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.generic]


@dataclass
class Writer:
    """A graph under construction. Values are names; weights are drawn from one seeded generator."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Add a node; the name of its first output."""
        names = [f"{op_type.lower()}_{len(self.nodes)}{f'_{index}' if index else ''}" for index in range(outputs)]
        node = helper.make_node(op_type, inputs, names)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return names[0]

    def constant(self, values: object, dtype: type[np.generic] = np.int64) -> str:
        """Add an initializer that is no weight."""
        return self._add(np.asarray(values, dtype), "constant")

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Add a weight: normal, divided by the root of the fan-in."""
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
        values = self.random.standard_normal(shape) * (fan_in**-0.5 if scale is None else scale)
        return self._add(values.astype(np.float32), "weight")

    def filled(self, size: int, value: float, kind: str = "weight") -> str:
        """Add a vector of one value."""
        return self._add(np.full(size, value, np.float32), kind)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """x @ w + b over the last axis."""
        product = self.node("MatMul", x, self.weight(inputs, outputs, scale=inputs**-0.5))
        return self.node("Add", product, self.filled(outputs, 0.0))

    def model(self, y: str, shape: Sequence[int | str], dtype: int, classes: int) -> onnx.ModelProto:
        """The model of input x and output y."""
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        x = helper.make_tensor_value_info("x", dtype, shape)
        logits = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", classes])
        graph = helper.make_graph(self.nodes, "net", [x], [logits], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def _add(self, array: Array, kind: str) -> str:
        name = f"{kind}_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name


def mlp(width: int = 1024) -> onnx.ModelProto:
    """784 - width - width - 10 with Relu."""
    net, x = Writer(), "x"
    for inputs in (784, width):
        x = net.node("Relu", net.linear(x, inputs, width))
    return net.model(net.linear(x, width, 10), ["N", 784], TensorProto.FLOAT, 10)


def resnet(widths: Sequence[int] = (32, 64, 128)) -> onnx.ModelProto:
    """Two blocks of two 3x3 convolutions at each width, with batch normalization, on 32x32 images."""
    net = Writer()

    def conv(x: str, inputs: int, outputs: int, size: int, stride: int) -> str:
        pads = [size // 2] * 4
        return net.node("Conv", x, net.weight(outputs, inputs, size, size), strides=[stride] * 2, pads=pads)

    def norm(x: str, width: int) -> str:
        statistics = (net.filled(width, 0.0, "running"), net.filled(width, 1.0, "running"))
        return net.node("BatchNormalization", x, net.filled(width, 1.0), net.filled(width, 0.0), *statistics)

    x, inputs = net.node("Relu", norm(conv("x", 3, widths[0], 3, 1), widths[0])), widths[0]
    for index, width in enumerate(widths):
        for stride in (1 if index == 0 else 2, 1):
            y = net.node("Relu", norm(conv(x, inputs, width, 3, stride), width))
            y = norm(conv(y, width, width, 3, 1), width)
            short = x if stride == 1 and inputs == width else norm(conv(x, inputs, width, 1, stride), width)
            x, inputs = net.node("Relu", net.node("Add", y, short)), width
    pooled = net.node("ReduceMean", x, net.constant([2, 3]), keepdims=0)
    return net.model(net.linear(pooled, inputs, 10), ["N", 3, 32, 32], TensorProto.FLOAT, 10)


def bert(width: int = 256, layers: int = 4, vocabulary: int = 8000, length: int = 64) -> onnx.ModelProto:
    """A transformer encoder with 4 heads on `length` tokens, and the mean of its outputs classified in two."""
    net, heads = Writer(), 4
    split, merge = net.constant([0, length, heads, width // heads]), net.constant([0, length, width])
    scale = net.constant((width // heads) ** -0.5, np.float32)
    half, one, root = (net.constant(value, np.float32) for value in (0.5, 1.0, 2**-0.5))

    def normalize(x: str) -> str:
        return net.node("LayerNormalization", x, net.filled(width, 1.0), net.filled(width, 0.0))

    def part(x: str, order: Sequence[int]) -> str:
        return net.node("Transpose", net.node("Reshape", net.linear(x, width, width), split), perm=order)

    x = net.node("Add", net.node("Gather", net.weight(vocabulary, width, scale=1.0), "x"), net.weight(1, length, width))
    for _ in range(layers):
        query, key, value = (part(x, order) for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = net.node("Softmax", net.node("Mul", net.node("MatMul", query, key), scale), axis=-1)
        seen = net.node("Transpose", net.node("MatMul", scores, value), perm=[0, 2, 1, 3])
        x = normalize(net.node("Add", x, net.linear(net.node("Reshape", seen, merge), width, width)))
        hidden = net.linear(x, width, 4 * width)
        gate = net.node("Add", net.node("Erf", net.node("Mul", hidden, root)), one)
        hidden = net.node("Mul", net.node("Mul", hidden, half), gate)
        x = normalize(net.node("Add", x, net.linear(hidden, 4 * width, width)))
    pooled = net.node("ReduceMean", x, net.constant([1]), keepdims=0)
    return net.model(net.linear(pooled, width, 2), ["N", length], TensorProto.INT64, 2)


def lstm(width: int = 128, features: int = 40, length: int = 50) -> onnx.ModelProto:
    """One LSTM layer, and its last output classified in ten."""
    net = Writer()
    x = net.node("Transpose", "x", perm=[1, 0, 2])
    weights = (
        net.weight(1, 4 * width, features, scale=width**-0.5),
        net.weight(1, 4 * width, width, scale=width**-0.5),
    )
    net.node("LSTM", x, *weights, net.weight(1, 8 * width, scale=width**-0.5), outputs=2, hidden_size=width)
    last = net.node("Squeeze", net.nodes[-1].output[1], net.constant([0]))
    return net.model(net.linear(last, width, 10), ["N", length, features], TensorProto.FLOAT, 10)


NETS: dict[str, Callable[[], onnx.ModelProto]] = {"mlp": mlp, "resnet": resnet, "bert": bert, "lstm": lstm}
_BATCHES = {"mlp": (64, 10), "resnet": (32, 10), "bert": (16, 2), "lstm": (32, 10)}


def batch(name: str, model: onnx.ModelProto, size: int | None = None) -> tuple[Array, Array]:
    """Random inputs and labels for a net; `size` is the number of rows."""
    random, (usual, classes) = np.random.default_rng(1), _BATCHES[name]
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim][1:]
    shape = (size or usual, *dims)
    vocabulary = next(
        (tensor.dims[0] for tensor in model.graph.initializer if name == "bert" and len(tensor.dims) == 2), 0
    )
    x = random.integers(0, vocabulary, shape) if vocabulary else random.standard_normal(shape).astype(np.float32)
    return x, random.integers(0, classes, shape[0])
