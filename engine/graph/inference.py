"""Values of variables that are known before anything runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import lower, needed
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.virtual_operators import is_virtual
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.runtime.evaluate import evaluate
from onnxgrad.engine.runtime.values import Array


def inferred_value(var: Var) -> Array | None:
    """The value of a variable, if it follows from constants, static shapes, and inputs on the host that have a value.

    An array of its own, or None: where parameters or inputs without a value are needed, and where it cannot be
    computed. Inputs that were declared with `static_infer=False` count as without a value.
    """
    if (constant := var.value.const_value) is not None:
        return constant.numpy().copy()
    known = _from_shapes(var)
    return known if known is not None else _computed(var)


def _from_shapes(var: Var) -> Array | None:
    """What shape inference knows: sizes that were computed with."""
    value = var.value
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    known = var.graph.builder.context.get_symbolic_value(value)
    sizes = [] if known is None else [size for size in known if isinstance(size, int)]
    if known is None or len(sizes) != len(known):
        return None
    return np.asarray(sizes, value.dtype.numpy()).reshape(value.shape.numpy())


def _computed(var: Var) -> Array | None:
    graph = var.graph
    nodes, read = needed([var.value], {})
    sources = [graph.sources[value] for value in read if value in graph.sources]
    given = [source for source in sources if isinstance(source, HostTensor)]
    if len(given) < len(sources) or any(source.is_empty or not source.static_infer for source in given):
        return None
    if any(value.graph is not graph.ir for value in read) or not all(map(_is_fixed(var), nodes)):
        return None
    try:
        lowered = lower(graph, [var.value])
        values = list(lowered.model.graph.inputs)
        lowered.model.graph.inputs.clear()
        for value in values:
            source = lowered.sources[value.name or ""]
            assert isinstance(source, HostTensor)
            value.const_value = ir.tensor(source.array, dtype=value.dtype, name=value.name)
            value.shape = ir.Shape(source.array.shape)
            lowered.model.graph.register_initializer(value)
        return np.array(evaluate(lowered.model)[lowered.targets[0]])
    except OnnxGradError:
        return None


def _is_fixed(var: Var) -> Callable[[ir.Node], bool]:
    functions = var.graph.builder.functions
    return lambda node: is_pure(node, functions) or is_virtual(node)
