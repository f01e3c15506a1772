"""Copies of models: every function that transforms a model works on one."""

import onnx_ir as ir

from onnxgrad.engine.ir.functions import FUNCTIONS_KEY, link_functions
from onnxgrad.engine.ir.nesting import check_nesting


def clone(model: ir.Model) -> ir.Model:
    """A copy with graphs, nodes, values and functions of its own. Tensors are shared: they are never written to."""
    check_nesting(model)
    link_functions(model)
    copy = model.clone()
    copy.meta.update(model.meta)
    for key, value in list(copy.graph.meta.items()):
        if isinstance(value, dict):  # dim names and the like: each model adds to its own
            copy.graph.meta[key] = dict(value)
    copy.graph.meta.pop(FUNCTIONS_KEY)
    link_functions(copy)
    return copy
