"""ONNX graphs run by torch, node by node: the other side of comparisons with PyTorch.

It knows the operators of the models that are compared, in the attributes that they have.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional

Operands = Sequence[Tensor | None]


class TorchModel:
    """The main graph of a model, with its initializers as tensors that can be trained.

    BatchNormalization is in training mode and does not move its running statistics, which training does not read.
    """

    def __init__(self, model: ir.Model, dtype: torch.dtype = torch.float32) -> None:
        self._nodes = list(model.graph)
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}
        for name, value in model.graph.initializers.items():
            assert value.const_value is not None
            self.tensors[name] = self._own(value.const_value)

    def run(self, feeds: Mapping[str, Tensor], wanted: str) -> Tensor:
        """The value called `wanted`."""
        values: dict[str, Tensor] = {**self.tensors, **feeds}
        for node in self._nodes:
            operands = [None if value is None else values[value.name or ""] for value in node.inputs]
            values[node.outputs[0].name or ""] = self._run_node(node, operands)
            if wanted in values:
                return values[wanted]
        raise KeyError(wanted)

    def _run_node(self, node: ir.Node, operands: Operands) -> Tensor:
        if node.op_type == "Constant":
            return self._own(node.attributes["value"].as_tensor())
        if node.op_type == "Cast":
            (x,) = operands
            assert x is not None
            return x.to(self.dtype if node.attributes.get_int("to", 0) == 1 else torch.int64)
        return OPERATORS[node.op_type](node.attributes, *operands)

    def _own(self, tensor: ir.TensorProtocol) -> Tensor:
        array = np.array(tensor.numpy())
        return torch.from_numpy(array).to(self.dtype) if array.dtype.kind == "f" else torch.from_numpy(array)


def batch_norm(a, x, scale, bias, mean, var):
    return functional.batch_norm(x, None, None, scale, bias, training=True, eps=a.get_float("epsilon", 1e-5))


def conv(a, x, w, b=None):
    pads = a.get_ints("pads", [0, 0, 0, 0])
    assert pads[:2] == pads[2:]
    return functional.conv2d(
        x, w, b, a.get_ints("strides", [1, 1]), pads[:2], a.get_ints("dilations", [1, 1]), a.get_int("group", 1)
    )


def gather(a, x, index):
    return x[(slice(None),) * a.get_int("axis", 0) + (index,)]


def gemm(a, x, w, b=None):
    y = x @ (w.T if a.get_int("transB", 0) else w)
    return y if b is None else y + b


def layer_norm(a, x, scale, bias=None):
    return functional.layer_norm(x, scale.shape, scale, bias, a.get_float("epsilon", 1e-5))


def reduce_sum(a, x, axes):
    return x.sum(axes.tolist(), keepdim=bool(a.get_int("keepdims", 1)))


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape.tolist())])


def cut(a, x, starts, ends, axes, steps=None):
    index = [slice(None)] * x.ndim
    by = [1] * len(axes) if steps is None else steps.tolist()
    for axis, start, end, step in zip(axes.tolist(), starts.tolist(), ends.tolist(), by, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def unsqueeze(a, x, axes):
    for axis in sorted(axes.tolist()):
        x = x.unsqueeze(axis)
    return x


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": lambda a, x, y: x + y,
    "BatchNormalization": batch_norm,
    "Clip": lambda a, x, low=None, high=None: torch.clamp(x, low, high),
    "Concat": lambda a, *xs: torch.cat(xs, a.get_int("axis", 0)),
    "ConstantOfShape": lambda a, shape: torch.full(shape.tolist(), int(a["value"].as_tensor().numpy()[0])),
    "Conv": conv,
    "Div": lambda a, x, y: x / y if x.is_floating_point() else x // y,
    "Equal": lambda a, x, y: x == y,
    "Erf": lambda a, x: torch.erf(x),
    "Expand": lambda a, x, shape: torch.broadcast_tensors(x, torch.empty(shape.tolist()))[0],
    "Gather": gather,
    "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda a, x: torch.clamp(a.get_float("alpha", 0.2) * x + a.get_float("beta", 0.5), 0, 1),
    "HardSwish": lambda a, x: functional.hardswish(x),
    "Identity": lambda a, x: x,
    "LayerNormalization": layer_norm,
    "MatMul": lambda a, x, y: x @ y,
    "Mul": lambda a, x, y: x * y,
    "ReduceSum": reduce_sum,
    "Relu": lambda a, x: functional.relu(x),
    "Reshape": reshape,
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Slice": cut,
    "Softmax": lambda a, x: torch.softmax(x, a.get_int("axis", -1)),
    "Sub": lambda a, x, y: x - y,
    "Transpose": lambda a, x: x.permute(a.get_ints("perm", [])),
    "Unsqueeze": unsqueeze,
    "Where": lambda a, c, x, y: torch.where(c, x, y),
}
