"""Bring a model to a newer opset, node by node, with the same meaning."""

import itertools
from functools import cache

import onnx
import onnx.version_converter
import onnx_ir as ir

from onnxgrad.engine.errors import OpsetError
from onnxgrad.engine.ir.builder import Builder, describe
from onnxgrad.engine.ir.functions import link_functions
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.opset_changes import CHANGES
from onnxgrad.engine.ir.serialize import serialize

OLDEST = 7
"""Operators of older opsets are left to the converter of onnx."""


def opset_of(model: ir.Model) -> int:
    """The version of the domain ai.onnx that a model imports; 0 if it uses none."""
    return model.graph.opset_imports.get("", model.graph.opset_imports.get("ai.onnx", 0))


def raise_opset(model: ir.Model, minimum: int) -> None:
    """Bring a model of an older opset to `minimum`, in place, with its bodies and functions. A newer one stays.

    Shapes are inferred on the way. Other domains stay as they are.

    Raises: OpsetError, if an operator has no counterpart in the new opset, or a version is unknown.
    """
    newest = onnx.defs.onnx_opset_version()
    if minimum > newest:
        why = f"onnx {onnx.__version__} knows opsets up to {newest}"
        raise OpsetError(f"Opset {minimum} is unknown.", why=why, fix="update onnx")
    link_functions(model)
    version = opset_of(model)
    outdated = [f for f in model.functions.values() if 0 < f.opset_imports.get("", 0) < minimum]
    if version >= minimum and not outdated:
        return
    if 0 < version < OLDEST:
        _convert_ancient(model)
        version = OLDEST
    if version < minimum:
        infer_shapes(model)
        _raise_graph(model.graph, version, Builder(model.graph, opset=minimum))
        model.graph.opset_imports.pop("ai.onnx", None)
        model.graph.opset_imports[""] = minimum
    for function in outdated:
        _raise_graph(function.graph, function.opset_imports[""], Builder(function.graph, opset=minimum))
        function.opset_imports[""] = minimum


def _raise_graph(graph: ir.Graph, version: int, op: Builder) -> None:
    for node in list(graph):
        for attribute in node.attributes.values():
            if attribute.is_ref() or attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                continue
            for body in [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else attribute.as_graphs():
                _raise_graph(body, version, Builder(body, parent=op))
        if node.domain in ("", "ai.onnx"):
            node.domain = ""
            op.before = node
            _raise_node(op, node, version)


def _raise_node(op: Builder, node: ir.Node, version: int) -> None:
    boundaries, adapt = CHANGES.get(node.op_type, ((), None))
    for since in _breaking_versions(node.op_type, version, op.opset):
        if since not in boundaries:
            why = f"{node.op_type} changed in opset {since} in a way that onnxgrad does not know"
            raise OpsetError("A node cannot be brought to a newer opset.", where=describe(node), why=why)
    if adapt is not None and any(version < since <= op.opset for since in boundaries):
        adapt(op, node, version)


@cache
def _breaking_versions(op_type: str, version: int, target: int) -> tuple[int, ...]:
    """The opsets between the two in which the schema of an operator changed incompatibly."""
    history = sorted(
        (schema for schema in _schemas().get(op_type, ()) if schema.since_version <= target),
        key=lambda schema: schema.since_version,
    )
    known = [schema for schema in history if schema.since_version <= version]
    if not known:
        why = f"ai.onnx has no operator '{op_type}' in opset {version}"
        raise OpsetError("A model uses an operator that its opset does not have.", where=op_type, why=why)
    steps = [known[-1], *(schema for schema in history if schema.since_version > version)]
    pairs = itertools.pairwise(steps)
    return tuple(new.since_version for old, new in pairs if not is_compatible(old, new))


@cache
def _schemas() -> dict[str, list[onnx.defs.OpSchema]]:
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return found


def is_compatible(old: onnx.defs.OpSchema, new: onnx.defs.OpSchema) -> bool:
    """Whether the schemas let every node of the old version stand as one of the new: nothing was taken away or renamed,
    no default is another one, and what was added is optional."""
    inputs = [(formal.name, formal.option) for formal in new.inputs]
    same_inputs = [formal.name for formal in old.inputs] == [name for name, _ in inputs[: len(old.inputs)]]
    added_inputs = all(
        option != onnx.defs.OpSchema.FormalParameterOption.Single for _, option in inputs[len(old.inputs) :]
    )
    same_outputs = [f.name for f in old.outputs] == [f.name for f in new.outputs][: len(old.outputs)]
    kept = all(
        name in new.attributes and new.attributes[name].default_value == attribute.default_value
        for name, attribute in old.attributes.items()
    )
    added = all(name in old.attributes or not attribute.required for name, attribute in new.attributes.items())
    return same_inputs and added_inputs and same_outputs and kept and added and not new.deprecated


# What onnx's converter raises, and what its C++ throws on odd models.
_REFUSALS = (onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError, RuntimeError, ValueError)


def _convert_ancient(model: ir.Model) -> None:
    """Opsets below 7: by onnx's own converter."""
    proto = serialize(model)
    try:
        converted = onnx.version_converter.convert_version(proto, OLDEST)
    except _REFUSALS as error:
        where = f"opset {opset_of(model)}"
        raise OpsetError(f"The model cannot be brought to opset {OLDEST}.", where=where, why=str(error)) from error
    meta = dict(model.graph.meta)
    model.graph = ir.from_proto(converted).graph
    model.graph.meta.update(meta)
    _align_slopes(model)


def _align_slopes(model: ir.Model) -> None:
    """PRelu before 7 has one slope a channel, and the converter does not see it: give it axes to broadcast along."""
    infer_shapes(model)
    op = Builder(model.graph)
    for node in [node for node in model.graph if node.op_type == "PRelu"]:
        x, slope = node.inputs
        if slope is None or slope.shape is None or len(slope.shape) != 1 or slope.shape[0] == 1:
            continue
        if x is None or x.shape is None:
            raise OpsetError(
                "A node cannot be brought to a newer opset.", where=describe(node), why="its rank is unknown"
            )
        op.before = node
        if len(x.shape) > 2:
            node.replace_input_with(1, op.Unsqueeze(slope, list(range(1, len(x.shape) - 1))))
