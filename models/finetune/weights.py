"""Putting trained tensors back into the model they came from."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import TrainingError
from onnxgrad.engine.ir.clone import clone


def with_weights(model: ir.Model, weights: Mapping[str, np.ndarray]) -> ir.Model:
    """A copy of `model` that holds `weights`, by value name.

    They belong to initializers, or to Constant and Identity nodes of the main graph. An Identity node of an initializer
    gives way to an initializer of its own.

    Raises: TrainingError if a name, shape or dtype does not fit.
    """
    model = clone(model)
    graph = model.graph
    producers = {node.outputs[0].name: node for node in graph if node.op_type in ("Constant", "Identity")}
    for name, array in weights.items():
        value, node = graph.initializers.get(name), producers.get(name)
        old = value.const_value if value is not None else _held_by(node)
        if old is None or tuple(old.shape) != array.shape:
            raise TrainingError(
                f"the weight {name!r} of shape {list(array.shape)} does not fit the model",
                where=f"the model has {list(old.shape)}" if old is not None else "the model has no such tensor",
            )
        tensor = ir.tensor(np.asarray(array, order="C"), dtype=old.dtype, name=name)
        if value is not None:
            value.const_value = tensor
        elif node is not None and node.op_type == "Constant":
            node.attributes["value"] = ir.AttrTensor("value", tensor)
        elif node is not None:
            _give_own(graph, node, tensor)
    return model


def _held_by(node: ir.Node | None) -> ir.TensorProtocol | None:
    """The tensor that a Constant node, or an Identity node of an initializer, gives."""
    if node is None:
        return None
    if node.op_type == "Constant":
        attribute = node.attributes.get("value")
        return None if attribute is None else attribute.as_tensor()
    source = node.inputs[0]
    return source.const_value if source is not None and source.is_initializer() else None


def _give_own(graph: ir.Graph, node: ir.Node, tensor: ir.TensorProtocol) -> None:
    value = node.outputs[0]
    own = ir.Value(name=value.name, type=value.type, shape=ir.Shape(tensor.numpy().shape), const_value=tensor)
    value.name = None
    ir.convenience.replace_all_uses_with(value, own)
    graph.remove(node, safe=True)
    graph.register_initializer(own)
