"""Losses on operands: the graph of a loss, called like an operator."""

from __future__ import annotations

import threading
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, ShapeError
from onnxgrad.engine.graph.operand import Call, Operand
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.grad.losses import Loss
from onnxgrad.grad.tape.kernels import LeastRecent, attributes_key
from onnxgrad.grad.tape.one_node import COMPOSITE, Composite
from onnxgrad.grad.tape.tensor import Tensor, run_call

_Kind = TypeVar("_Kind", bound=Operand)
_OPSET = 26
_GRAPHS = 64


class _Cache(threading.local):
    def __init__(self) -> None:
        self.bodies: LeastRecent[_LossGraph] = LeastRecent(_GRAPHS)


CACHE = _Cache()


class _LossGraph:
    """A loss as a graph, for predictions of one dtype, rank and number of classes."""

    def __init__(self, loss: Loss, kind: ir.DataType, rank: int, classes: int | None) -> None:
        dims = [classes if axis == 1 and classes is not None else f"d{axis}" for axis in range(rank)]
        prediction = ir.Value(name="prediction", type=ir.TensorType(kind), shape=ir.Shape(dims))
        self.label_kind, shape = loss.label_like(prediction)
        self.label_rank = len(shape)
        label = ir.Value(name="label", type=ir.TensorType(self.label_kind), shape=shape)
        graph = ir.Graph([prediction, label], [], nodes=[], opset_imports={"": _OPSET}, name=type(loss).__name__)
        graph.outputs.append(loss.build(Builder(graph, share=True), prediction, label))
        self.body = Composite(graph.name or "", graph)


def call_loss(loss: Loss, prediction: _Kind, label: Operand | np.ndarray) -> _Kind:
    """The loss, a scalar, of the kind of the prediction. Labels are cast to what the loss takes, floats to no integers.

    Raises: ShapeError for shapes that do not fit, InputError for labels that are no whole numbers where they must be.
    """
    kind, shape = prediction.element_type, prediction.shape
    if kind is None or shape is None:
        raise ShapeError("a loss needs a prediction of known dtype and rank", where=repr(prediction))
    classes = shape[1] if len(shape) > 1 and isinstance(shape[1], int) else None
    made = _graph_of(loss, kind, len(shape), classes)
    label = _label(made, label, shape)
    if isinstance(prediction, Var) or isinstance(label, Var):
        return _in_graph(loss, prediction, label)  # type: ignore[return-value]
    call = Call(made.body.name, (prediction, label), {"body": made.body}, 1, COMPOSITE)
    return run_call(call)[0]  # type: ignore[return-value]


def _graph_of(loss: Loss, kind: ir.DataType, rank: int, classes: int | None) -> _LossGraph:
    key = (attributes_key({"loss": loss}), kind, rank, classes)
    found = CACHE.bodies.find(key)
    return found or CACHE.bodies.keep(key, _LossGraph(loss, kind, rank, classes))


def _label(made: _LossGraph, label: Operand | np.ndarray, shape: tuple[object, ...]) -> Operand | np.ndarray:
    kind = label.element_type if isinstance(label, Operand) else ir.DataType.from_numpy(label.dtype)
    if kind != made.label_kind:
        if kind is not None and kind.is_floating_point() and made.label_kind.is_integer():
            raise InputError(f"labels must be whole numbers, not {kind.name.lower()}", where=repr(label))
        if isinstance(label, Operand):
            label = label.astype(made.label_kind)
        else:
            label = label.astype(made.label_kind.numpy())
    wanted = [shape[0], *shape[2:]] if made.label_rank == len(shape) - 1 else list(shape)
    given = label.shape
    fits = given is None or (len(given) == len(wanted) and all(map(_agree, given, wanted)))
    if not fits:
        raise ShapeError(f"labels of shape {list(given or ())} do not fit a prediction of shape {list(shape)}")
    return label


def _agree(one: object, other: object) -> bool:
    return one == other or not (isinstance(one, int) and isinstance(other, int))


def _in_graph(loss: Loss, prediction: Operand, label: Operand | np.ndarray) -> Var:
    graph = next(value.graph for value in (prediction, label) if isinstance(value, Var))
    values = []
    for value in (prediction, label):
        if isinstance(value, np.ndarray):
            value = graph.constant(value)
        elif isinstance(value, Tensor):
            value = graph.add_source(value)  # type: ignore[arg-type]  # no traced one: its dtype is known
        assert isinstance(value, Var)
        graph.check_own(value)
        values.append(value.value)
    return Var(graph, loss.build(graph.builder, *values))
