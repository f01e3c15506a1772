"""A whole model in float64: what it stores, reads, casts to and gives, in all graphs."""

from collections.abc import Iterator
from itertools import count

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, numpy_helper
from onnx import helper as oh

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)
FLOAT32_OPERAND = {"Resize": 2, "Upsample": 1}  # the scales, whatever the type of the rest
TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype")


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose float16 and float32 tensors are float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graphs = list(_graphs(wide.graph))
    for graph in graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            _widen_type(value.type)
        for tensor in graph.initializer:
            _widen_tensor(tensor)
        for node in graph.node:
            _widen_node(node)
    fresh = (f"float32.{i}" for i in count())
    for graph in graphs:
        _narrow_operands(graph, fresh)
    return wide


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _widen_type(kind: TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in NARROW:
        kind.tensor_type.elem_type = TensorProto.DOUBLE
    elif which in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, which).elem_type)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in NARROW:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f8"), tensor.name))


def _widen_node(node: NodeProto) -> None:
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(oh.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    for attribute in node.attribute:
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            attribute.CopyFrom(oh.make_attribute("value", numpy_helper.from_array(np.array(value, "f4").astype("f8"))))
        elif attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.name in TYPE_ATTRIBUTES and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE


def _narrow_operands(graph: GraphProto, fresh: Iterator[str]) -> None:
    """Cast what an operator takes in float32 only."""
    nodes = []
    for node in graph.node:
        index = FLOAT32_OPERAND.get(node.op_type, len(node.input))
        if index < len(node.input) and node.input[index]:
            nodes.append(oh.make_node("Cast", [node.input[index]], [next(fresh)], to=TensorProto.FLOAT))
            node.input[index] = nodes[-1].output[0]
        nodes.append(node)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
