"""Whether a node means the same in another version of its operator, by the schemas and the known changes."""

from functools import cache

import onnx
import onnx_ir as ir

from onnxgrad.engine.ir.opset import is_compatible
from onnxgrad.engine.ir.opset_changes import CHANGES

Schema = onnx.defs.OpSchema

_SINCE_THEN = {"AveragePool": (19,), "GridSample": (20,), "GroupNormalization": (21,), "BitShift": (28,)}
"""Operators that mean something else since an opset, without a trace in the schema."""


@cache
def schema_at(domain: str, op_type: str, version: int) -> Schema | None:
    """The schema of an operator in a version of its domain; None where the standard has none."""
    try:
        return onnx.defs.get_schema(op_type, version, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None


def translation_gap(node: ir.Node, version: int, target: int) -> str:
    """Why `node`, written in `version` of its domain, cannot stand as it is in version `target`; "" if it can."""
    old, new = (schema_at(node.domain, node.op_type, number) for number in sorted((version, target)))
    if new is None:
        return ""  # not of the standard: the runtime knows it or does not
    if old is None:
        return f"{node.op_type} is new in opset {new.since_version}"
    if old.since_version == new.since_version:
        return ""
    changes = (*CHANGES.get(node.op_type, ((), None))[0], *_SINCE_THEN.get(node.op_type, ()))
    broken = [since for since in changes if old.since_version < since <= new.since_version]
    if broken or not is_compatible(old, new):
        return f"{node.op_type} changed in opset {max(broken, default=new.since_version)}"
    return "" if version < target else _too_new(node, old, new)


def _too_new(node: ir.Node, old: Schema, new: Schema) -> str:
    """What the node uses of the newer schema that the older one lacks."""
    for name, attribute in node.attributes.items():
        if name not in old.attributes and not _is_default(attribute, new):
            return f"the attribute {name} of {node.op_type} is new in opset {new.since_version}"
    for what, used, formal in (
        ("input", len(node.inputs), old.max_input),
        ("output", len(node.outputs), old.max_output),
    ):
        if used > formal:
            return f"{what} {formal} of {node.op_type} is new in opset {new.since_version}"
    return ""


def _is_default(attribute: ir.Attr, schema: Schema) -> bool:
    known = schema.attributes.get(attribute.name)
    if known is None or not known.default_value.name or attribute.is_ref():
        return False
    default = ir.serde.deserialize_attribute(known.default_value)
    return bool(default.value == attribute.value)


def drop_unknown_attributes(node: ir.Node, target: int) -> None:
    """Take out the attributes that version `target` does not know; `translation_gap` found them to be defaults."""
    schema = schema_at(node.domain, node.op_type, target)
    for name in [] if schema is None else [name for name in node.attributes if name not in schema.attributes]:
        del node.attributes[name]
