"""Operators that onnx's reference implementation lacks or computes otherwise than the standard says."""

import functools

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_pad import Pad_1, Pad_2, Pad_11, Pad_18
from onnx.reference.ops.op_scatter_elements import scatter_elements

from onnxgrad.engine.runtime.host_bodies import Loop, Scan
from onnxgrad.engine.runtime.host_conv import ConvTranspose
from onnxgrad.engine.runtime.host_recurrent import GRU, LSTM, RNN
from onnxgrad.engine.runtime.values import Array


def _flattened_softmax(x: Array, axis: int) -> Array:
    """Before opset 13 softmax goes over all axes from `axis` on, at once."""
    axis += x.ndim if axis < 0 else 0
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    flat = x.reshape(rows, -1).astype(np.float64)
    exponents = np.exp(flat - flat.max(axis=1, keepdims=True, initial=-np.inf)) if x.size else flat
    result: Array = (exponents / exponents.sum(axis=1, keepdims=True)).reshape(x.shape)
    return result


class Scatter(OpRun):
    """Scatter-9, the old name of ScatterElements."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, axis: int | None = None) -> tuple[Array]:
        result: Array = scatter_elements(data, indices, updates, axis=axis or 0)  # type: ignore[no-untyped-call]
        return (result,)


class Softmax(OpRun):
    """Softmax of every opset: over one axis from opset 13 on, over the axes from `axis` on before."""

    op_domain = ""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
        if self.run_params["opsets"].get("", 13) < 13:
            stated = any(attribute.name == "axis" for attribute in self.onnx_node.attribute)
            return (_flattened_softmax(x, axis if stated and axis is not None else 1).astype(x.dtype),)
        wide = x.astype(np.float64) if x.size else x
        exponents = np.exp(wide - wide.max(axis=-1 if axis is None else axis, keepdims=True)) if x.size else wide
        return ((exponents / exponents.sum(axis=-1 if axis is None else axis, keepdims=True)).astype(x.dtype),)


class LogSoftmax(Softmax):
    """log(Softmax(x)), of every opset."""

    op_domain = ""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
        (y,) = super()._run(x.astype(np.float64), axis)
        with np.errstate(divide="ignore"):
            return (np.log(y).astype(x.dtype),)


class Pad(OpRun):
    """Pad of every opset, with negative pads, which cut off."""

    op_domain = ""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, object]) -> None:
        super().__init__(onnx_node, run_params)
        opset = self.run_params["opsets"].get("", 18)
        versions = ((18, Pad_18), (11, Pad_11), (2, Pad_2), (1, Pad_1))
        self._positive = next(cls for since, cls in versions if opset >= since)(onnx_node, run_params)

    def _run(self, data: Array, *inputs: Array, **attributes: object) -> tuple[Array]:
        pads = np.asarray(inputs[0] if inputs else attributes.get("pads", attributes.get("paddings")), np.int64)
        if (pads >= 0).all():
            result: tuple[Array] = self._positive._run(data, *inputs, **attributes)
            return result
        count = pads.size // 2
        axes = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.arange(count)
        slices = [slice(None)] * data.ndim
        for axis, before, after in zip(axes, pads[:count], pads[count:], strict=True):
            slices[int(axis)] = slice(max(0, -int(before)), data.shape[int(axis)] + min(0, int(after)))
        kept = np.maximum(pads, 0)
        if inputs:
            return self._positive._run(data[tuple(slices)], kept, *inputs[1:], **attributes)  # type: ignore[no-any-return]
        name = "pads" if "pads" in attributes else "paddings"
        return self._positive._run(data[tuple(slices)], **{**attributes, name: kept})  # type: ignore[no-any-return]


class GatherElements(OpRun):
    """y[i, j] = x[indices[i, j], j], however long the axis is."""

    op_domain = ""

    def _run(self, x: Array, indices: Array, axis: int | None = None) -> tuple[Array]:
        places: list[Array] = list(np.ogrid[tuple(slice(length) for length in indices.shape)])
        places[axis or 0] = indices
        return (x[tuple(places)],)


class GlobalMaxPool(OpRun):
    """The maximum over all spatial axes, however many they are."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class OneHot(OpRun):
    """OneHot whose depth may also be a list of one number."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int | None = None) -> tuple[Array]:
        place = -1 if axis is None else axis
        place += indices.ndim + 1 if place < 0 else 0
        count = int(np.asarray(depth).item())
        wrapped = np.expand_dims(np.where(indices < 0, indices + count, indices), place)
        classes = np.arange(count).reshape([-1 if i == place else 1 for i in range(indices.ndim + 1)])
        return (np.where(wrapped == classes, values[1], values[0]),)


@functools.cache
def corrected_operators() -> list[type[OpRun]]:
    """The classes to hand to the reference evaluator."""
    simple: list[type[OpRun]] = [GatherElements, GlobalMaxPool, LogSoftmax, OneHot, Pad, Scatter, Softmax]
    return [*simple, ConvTranspose, GRU, LSTM, Loop, RNN, Scan]
