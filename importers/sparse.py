"""Sparse constants become dense: no operator of the engine computes on sparse storage."""

import math

import numpy as np
import onnx
from onnx import numpy_helper

from onnxgrad.engine.errors import ModelError
from onnxgrad.importers.protos import all_graphs, all_nodes, bodies

_MOST_ELEMENTS = 2**28


def make_dense(proto: onnx.ModelProto) -> None:
    """Replace sparse initializers, and Constant nodes with a sparse value, by dense ones, in place."""
    functions = [node for function in proto.functions for node in function.node]
    for graph in (*all_graphs(proto.graph), *bodies(functions)):
        graph.initializer.extend(_dense(sparse) for sparse in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for node in all_nodes((*proto.graph.node, *functions)):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                dense = _dense(attribute.sparse_tensor)
                attribute.Clear()
                attribute.CopyFrom(onnx.helper.make_attribute("value", dense))


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    name, dims = sparse.values.name, tuple(sparse.dims)
    if any(size < 0 for size in dims) or math.prod(dims) > _MOST_ELEMENTS:
        why = f"its dense form of shape {list(dims)} has more than {_MOST_ELEMENTS} elements"
        raise ModelError("A sparse tensor is too large.", where=f"sparse tensor '{name}'", why=why)
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(math.prod(dims), dtype=values.dtype)
    try:
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
        if flat.size and flat.min() < 0:
            raise IndexError(f"index {flat.min()} is negative")
        dense[flat] = values
    except (IndexError, ValueError) as error:
        raise ModelError("A sparse tensor is damaged.", where=f"sparse tensor '{name}'", why=str(error)) from error
    return numpy_helper.from_array(dense.reshape(dims), name)
