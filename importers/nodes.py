"""Check what the text of a proto is made of, and that attributes have the types that their operators give them."""

import functools
from collections.abc import Iterable, Mapping

import onnx

from onnxgrad.engine.errors import ModelError
from onnxgrad.importers.protos import all_graphs, all_nodes, bodies, describe_node

_NUMBERS: Mapping[onnx.defs.OpSchema.AttrType, int] = {
    getattr(onnx.defs.OpSchema.AttrType, name): number
    for name, number in onnx.AttributeProto.AttributeType.items()
    if name != "UNDEFINED"
}


def check_nodes(proto: onnx.ModelProto, where: str) -> None:
    """Every name is text, and every attribute that an operator of the standard defines has the type it defines.

    Raises: ModelError, with the node.
    """
    _check_texts((proto.graph.name, proto.producer_name, *(entry.domain for entry in proto.opset_import)), where)
    _check_attributes(proto.graph.node, _versions(proto.opset_import), where)
    _check_values(all_graphs(proto.graph), where)
    for function in proto.functions:
        inside = f"a function of {where}"
        _check_texts((function.name, function.domain, *function.input, *function.output), inside)
        _check_attributes(function.node, _versions(function.opset_import), inside)
        _check_values(bodies(function.node), inside)


def _check_values(graphs: Iterable[onnx.GraphProto], where: str) -> None:
    for graph in graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            _check_texts((value.name,), where)
            kind = value.type.WhichOneof("value")
            if kind in ("tensor_type", "sparse_tensor_type"):
                _check_texts((dim.dim_param for dim in getattr(value.type, kind).shape.dim), where)
        _check_texts((tensor.name for tensor in graph.initializer), where)


def _check_attributes(nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], where: str) -> None:
    for node in all_nodes(nodes):
        _check_texts((node.name, node.op_type, node.domain, *node.input, *node.output), where)
        if not node.attribute:
            continue
        domain = "" if node.domain == "ai.onnx" else node.domain
        defined = _attribute_types(domain, node.op_type, versions.get(domain, 0))
        for attribute in node.attribute:
            _check_texts((attribute.name,), where)
            wanted = defined.get(attribute.name, attribute.type)
            if attribute.type not in (wanted, onnx.AttributeProto.UNDEFINED):
                names = onnx.AttributeProto.AttributeType
                why = f"it is {names.Name(attribute.type)}, and the operator defines {names.Name(wanted)}"
                place = f"attribute '{attribute.name}' of {describe_node(node)}"
                raise ModelError("An attribute has the wrong type.", where=place, why=why)


def _check_texts(texts: Iterable[object], where: str) -> None:
    """protobuf gives bytes for what is not UTF-8."""
    for text in texts:
        if not isinstance(text, str):
            raise ModelError("A name in the model is not UTF-8 text.", where=where, why=f"it is {str(text)[:80]}")


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in imports}


@functools.lru_cache(maxsize=4096)
def _attribute_types(domain: str, op_type: str, version: int) -> dict[str, int]:
    """Attribute name -> type; nothing for an operator that the standard does not define."""
    if not 0 < version < 2**31:
        return {}
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {name: _NUMBERS[attribute.type] for name, attribute in schema.attributes.items()}
