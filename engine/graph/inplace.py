"""The update of a SharedTensor outside of graphs, in the memory that it has."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.compile import CompiledFunction, compile
from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.given import CallbackValue, natural_array
from onnxgrad.engine.graph.shared_tensor import SharedTensor
from onnxgrad.engine.graph.signature import as_type
from onnxgrad.engine.graph.storage import Storage, all_locked
from onnxgrad.engine.graph.update_formula import next_value, working_type
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.memory import device_holding, device_name, element_type, shape_of
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.engine.runtime.values import Array, DeviceValue, to_numpy, to_ort

_BLOCK = 1 << 16  # elements: three blocks of float32 stay in the cache of a core
_OPSET = 21


def update_in_place(dest: SharedTensor, delta: object, alpha: float, beta: float, bias: float) -> None:
    """dest = alpha * dest + beta * delta + bias; with alpha = 0 what dest holds is not read.

    delta: a SharedTensor, the value of a callback, or an array. Raises: InputError for another dtype, for a shape that
    is not broadcast to that of dest, or numbers that an integer dtype cannot hold; GraphError for another device.
    """
    kind, storage = dest.element_type, dest.storage
    if kind == ir.DataType.BOOL or kind.bitwidth < 8:
        raise InputError(f"{dtype_name(kind)} cannot be updated, which has no arithmetic", where=repr(dest))
    coefficients = tuple(as_type(np.asarray(value), working_type(kind)) for value in (alpha, beta, bias))
    if isinstance(delta, SharedTensor):
        with all_locked(storage, delta.storage):
            _update(dest, delta.ort_value, coefficients)
        return
    if isinstance(delta, CallbackValue):
        tensor = delta.ort_value()
    else:
        array = natural_array(delta)
        given = array if isinstance(delta, np.ndarray | np.generic) else as_type(array, kind, "delta")
        tensor = to_ort(given, device=storage.device)
    with storage.lock:
        _update(dest, tensor, coefficients)


def _update(dest: SharedTensor, delta: DeviceValue, coefficients: tuple[Array, ...]) -> None:
    target = dest.storage.writable()
    if element_type(delta) != dest.element_type:
        raise InputError(f"delta has dtype {dtype_name(element_type(delta))}, which is not that of {dest!r}")
    if device_holding(delta) != dest.storage.device:
        raise GraphError(f"delta is on {device_name(device_holding(delta))}, not where {dest!r} is")
    whole, part = shape_of(target), shape_of(delta)
    if not _broadcasts(part, whole):
        raise InputError(f"delta of shape {list(part)} cannot be broadcast to {dest!r}")
    if dest.storage.device.kind == "cpu":
        _on_host(to_numpy(target), to_numpy(delta), *coefficients)
    else:
        _on_device(dest.storage, delta, coefficients)


def _broadcasts(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return len(part) <= len(whole) and all(p in (1, w) for p, w in zip(reversed(part), reversed(whole), strict=False))


def _on_host(dest: Array, delta: Array, alpha: Array, beta: Array, bias: Array) -> None:
    """By blocks that stay in the cache; halves are computed in float32 and rounded once."""
    if np.may_share_memory(dest, delta):
        delta = delta.copy()
    if delta.shape == dest.shape:
        flat, change = dest.reshape(-1), delta.reshape(-1)
        for begin in range(0, flat.size, _BLOCK):
            _on_block(flat[begin : begin + _BLOCK], change[begin : begin + _BLOCK], alpha, beta, bias)
        return
    rows = max(1, _BLOCK // max(1, math.prod(dest.shape[1:])))
    spread = np.broadcast_to(delta, dest.shape)
    for begin in range(0, len(dest), rows):
        _on_block(dest[begin : begin + rows], spread[begin : begin + rows], alpha, beta, bias)


def _on_block(dest: Array, delta: Array, alpha: Array, beta: Array, bias: Array) -> None:
    work = alpha.dtype
    term = delta if beta == 1 and bias == 0 else np.multiply(delta, beta, dtype=work)
    if bias != 0:
        term += bias
    if alpha == 0:
        np.copyto(dest, term, casting="same_kind")
    elif dest.dtype == work:
        if alpha != 1:
            np.multiply(dest, alpha, out=dest)
        np.add(dest, term, out=dest)
    else:
        dest[...] = np.multiply(dest, alpha, dtype=work) + term


def _on_device(storage: Storage, delta: DeviceValue, coefficients: tuple[Array, ...]) -> None:
    """By operators that run on the device of the tensor; the result is stored there."""
    alpha, beta, bias = coefficients
    function = _function(storage.kind, storage.device)
    found = function.on_device(dest=storage.present(), delta=delta, alpha=alpha, beta=beta, bias=bias)
    storage.commit(found["y"])


@cache
def _function(kind: ir.DataType, device: Device) -> CompiledFunction:
    """The update of tensors of a type on a device."""
    types = {"dest": kind, "delta": kind, **dict.fromkeys(("alpha", "beta", "bias"), working_type(kind))}
    inputs = [ir.Value(name=name, type=ir.TensorType(type_)) for name, type_ in types.items()]
    for value in inputs[2:]:
        value.shape = ir.Shape([])
    graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": _OPSET}, name="add_update")
    y = next_value(Builder(graph, share=True), *inputs)
    y.name = "y"
    graph.outputs.append(y)
    model = ir.Model(graph, ir_version=10)
    if device.kind == "cpu":
        return compile(model, "cpu")
    return compile(model, (device.kind, {"device": device.index}))
