"""Other shapes for the inputs of a model."""

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxgrad.engine.errors import OptionError, ShapeError
from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes


def with_input_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int | str | None]]) -> ir.Model:
    """A copy of `model` whose inputs have these shapes; None keeps a dimension, a string names a free one.

    Shapes of all other values, outputs too, are inferred anew. What the model computes from constants (a Reshape to a
    fixed size, say) is not changed, so a model may fail on other shapes than those it was made for.

    Raises: OptionError for an unknown input; ShapeError for another rank.
    """
    model = clone(model)
    inputs = {value.name: value for value in model.graph.inputs}
    for name, dims in shapes.items():
        value = inputs.get(name)
        if value is None:
            raise OptionError(f"the model has no input {name!r}", fix=f"one of {', '.join(map(str, inputs))}")
        old = list(value.shape) if value.shape is not None else [None] * len(dims)
        if len(old) != len(dims):
            raise ShapeError(f"the new shape has {len(dims)} dimensions", where=describe_value(value))
        value.shape = ir.Shape([was if dim is None else dim for was, dim in zip(old, dims, strict=True)])
    for node in model.graph.all_nodes():
        for output in node.outputs:
            output.shape = None
    infer_shapes(model)
    return model
