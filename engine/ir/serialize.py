"""ir.Model -> ModelProto: functions adopted, dimensions spelled as in the file they came from."""

import re
from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.ir.functions import adopt_functions
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.engine.ir.nesting import check_nesting

DIM_NAMES = "onnxgrad.dim_names"  # key in model.graph.meta: dict, legal symbol -> spelling in the file
_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_PART_OF_EXPRESSION = re.compile(r"[A-Za-z_][\w.:]*")


def serialize(model: ir.Model) -> onnx.ModelProto:
    """The model as a ModelProto. Tensors whose data is in a file stay references to that file.

    Functions that nodes call are put into `model.functions`; nothing else of `model` changes.

    Raises: ModelError for what a file cannot hold, such as graphs that are nested too deep.
    """
    check_nesting(model)
    adopt_functions(model)
    try:
        proto: onnx.ModelProto = ir.to_proto(model)
    except (ir.serde.SerdeError, ValueError, TypeError) as error:  # a value that no field can hold
        raise ModelError("The model cannot be written as ONNX.", why=_root_cause(error)) from error
    spellings: Mapping[str, str] = model.graph.meta.get(DIM_NAMES, {})
    if any(symbol != spelling for symbol, spelling in spellings.items()):
        for shape in _shapes_in(proto):
            _spell(shape, spellings)
    return proto


def _root_cause(error: BaseException) -> str:
    """The innermost message of a chain of errors; the outer ones repeat the whole model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def detach_weights(model: ir.Model, inline_limit: int) -> tuple[ir.Model, dict[str, ir.TensorProtocol]]:
    """A copy of `model` without the data of its weights, and that data by initializer name.

    Detached are the initializers of the main graph that lie in a file, and, when all data together has more than
    `inline_limit` bytes, those of 1 MiB and more. The copy refers to a file named "weights" in their place. What
    sub-graphs and attributes hold in files is read into the copy. `model` itself is returned when nothing is detached.
    """
    check_nesting(model)
    tensors = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    sized = [tensor for tensor in tensors if tensor.dtype != ir.DataType.STRING]
    too_big = sum(tensor.nbytes for tensor in sized) > inline_limit
    if not too_big and not any(isinstance(tensor, ir.ExternalTensor) for tensor in _all_tensors(model)):
        return model, {}
    adopt_functions(model)
    copy = model.clone()
    weights: dict[str, ir.TensorProtocol] = {}
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            continue
        if isinstance(tensor, ir.ExternalTensor) or (too_big and tensor.nbytes >= 1 << 20):
            weights[name] = tensor
            value.const_value = _placeholder(name, tensor)
    _read_inner_files(copy, weights)
    return copy, weights


def _placeholder(name: str, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor("weights", 0, tensor.nbytes, tensor.dtype, shape=shape, name=name, base_dir="")


def _in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=tensor.name)


def _read_inner_files(model: ir.Model, detached: Mapping[str, ir.TensorProtocol]) -> None:
    for graph in _graphs_of(model):
        for name, value in graph.initializers.items():
            inner = graph is not model.graph or name not in detached
            if inner and isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = _in_memory(value.const_value)
        for node in graph:
            for key, attribute in list(node.attributes.items()):
                if isinstance(attribute.value, ir.ExternalTensor):
                    node.attributes[key] = ir.Attr(key, ir.AttributeType.TENSOR, _in_memory(attribute.value))


def _graphs_of(model: ir.Model) -> Iterator[ir.Graph]:
    yield from graphs_in(model.graph)
    for function in model.functions.values():
        yield from graphs_in(function.graph)


def _all_tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in _graphs_of(model):
        yield from (value.const_value for value in graph.initializers.values() if value.const_value is not None)
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield attribute.as_tensor()


def _spell(shape: onnx.TensorShapeProto, spellings: Mapping[str, str]) -> None:
    for dim in shape.dim:
        if dim.dim_param in spellings:
            dim.dim_param = spellings[dim.dim_param]
            if not dim.dim_param:  # it had no name
                dim.ClearField("value")
        elif dim.dim_param:  # an expression of symbols, such as 2*batch_1
            dim.dim_param = _SYMBOL.sub(lambda found: _spell_inside(found[0], spellings), dim.dim_param)


def _spell_inside(symbol: str, spellings: Mapping[str, str]) -> str:
    spelling = spellings.get(symbol, symbol)
    return spelling if _PART_OF_EXPRESSION.fullmatch(spelling) else symbol


def _shapes_in(proto: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto]:
    yield from _shapes_in_graph(proto.graph)
    for function in proto.functions:
        yield from _shapes_in_values(function.value_info)
        yield from _shapes_in_nodes(function.node)


def _shapes_in_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorShapeProto]:
    for values in (graph.input, graph.output, graph.value_info):
        yield from _shapes_in_values(values)
    yield from _shapes_in_nodes(graph.node)


def _shapes_in_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorShapeProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _shapes_in_graph(attribute.g)
            for inner in attribute.graphs:
                yield from _shapes_in_graph(inner)
            types = [attribute.tp] if attribute.type == onnx.AttributeProto.TYPE_PROTO else []
            for kind in (*types, *attribute.type_protos):
                yield from _shapes_in_type(kind)


def _shapes_in_values(values: Iterable[onnx.ValueInfoProto]) -> Iterator[onnx.TensorShapeProto]:
    for value in values:
        yield from _shapes_in_type(value.type)


def _shapes_in_type(kind: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto]:
    match kind.WhichOneof("value"):
        case "tensor_type":
            yield kind.tensor_type.shape
        case "sparse_tensor_type":
            yield kind.sparse_tensor_type.shape
        case "sequence_type":
            yield from _shapes_in_type(kind.sequence_type.elem_type)
        case "optional_type":
            yield from _shapes_in_type(kind.optional_type.elem_type)
        case "map_type":
            yield from _shapes_in_type(kind.map_type.value_type)
        case _:
            pass
