"""Putting trained tensors back into the model they came from."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import TrainingError
from onnxgrad.engine.ir.clone import clone


def with_weights(model: ir.Model, weights: Mapping[str, np.ndarray]) -> ir.Model:
    """A copy of `model` whose initializers, or Constant nodes of the main graph, hold `weights` by value name.

    Raises: TrainingError if a name, shape or dtype does not fit.
    """
    model = clone(model)
    constants = {
        node.outputs[0].name: node for node in model.graph if node.op_type == "Constant" and "value" in node.attributes
    }
    for name, array in weights.items():
        value, node = model.graph.initializers.get(name), constants.get(name)
        old = value.const_value if value is not None else node.attributes["value"].as_tensor() if node else None
        if old is None or tuple(old.shape) != array.shape:
            raise TrainingError(
                f"the weight {name!r} of shape {list(array.shape)} does not fit the model",
                where=f"the model has {list(old.shape)}" if old is not None else "the model has no such initializer",
            )
        tensor = ir.tensor(np.asarray(array, order="C"), dtype=old.dtype, name=name)
        if value is not None:
            value.const_value = tensor
        elif node is not None:
            node.attributes["value"] = ir.AttrTensor("value", tensor)
    return model
