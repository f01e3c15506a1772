"""Rewrites of onnxruntime's own optimizer that change values, for the models in which they would."""

from collections.abc import Iterator

import onnx

from onnxgrad.engine.runtime.source import proto_graphs

_ALWAYS = ("Pad_Fusion",)
_WITH_TRAINING = ("EliminateDropout",)
_TRAINING_MODE = 2  # the input of Dropout


def wrong_rewrites(model: bytes) -> tuple[str, ...]:
    """The names of the rewrites that a session of `model` must do without.

    Zeros that are padded before MaxPool would be dropped, and so would Dropout in training mode, whose third input is
    not looked at; other Dropout may go.
    """
    if b"Dropout" in model and any(map(_may_train, _nodes(onnx.ModelProto.FromString(model)))):
        return (*_ALWAYS, *_WITH_TRAINING)
    return _ALWAYS


def _may_train(node: onnx.NodeProto) -> bool:
    return node.op_type == "Dropout" and len(node.input) > _TRAINING_MODE and bool(node.input[_TRAINING_MODE])


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    of_functions = (onnx.GraphProto(node=function.node) for function in model.functions)
    for root in (model.graph, *of_functions):
        for graph in proto_graphs(root):
            yield from graph.node
