"""Model-local functions: made by a builder, kept with the graph that calls them, moved into the model on export."""

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Protocol, cast

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.ir.names import Names, graphs_in
from onnxgrad.engine.ir.outer_values import function_with_outer_values, node_with_outer_names

DOMAIN = "onnxgrad"
FUNCTIONS_KEY = "onnxgrad.functions"

Functions = dict[tuple[str, str, str], ir.Function]


class _FunctionSchema(Protocol):
    """What onnx's type stubs leave out of onnx.defs.OpSchema."""

    attributes: Mapping[str, onnx.defs.OpSchema.Attribute]
    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]

    def get_function_with_opset_version(self, version: int, /) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, input_types: list[bytes], /
    ) -> bytes: ...


def functions_of(graph: ir.Graph) -> Functions:
    """The functions that nodes of the root graph `graph` and its sub-graphs may call."""
    found: Functions = graph.meta.setdefault(FUNCTIONS_KEY, {})
    return found


def link_functions(model: ir.Model) -> None:
    """Let builders on `model.graph` see the model's functions and add to them."""
    known: Functions = model.graph.meta.get(FUNCTIONS_KEY, {})
    if known is not model.functions:
        for identifier, function in known.items():
            model.functions.setdefault(identifier, function)
        model.graph.meta[FUNCTIONS_KEY] = model.functions


def adopt_functions(model: ir.Model) -> None:
    """Make `model.functions` hold what the nodes call, drop unused ones of domain onnxgrad, import the domain."""
    link_functions(model)
    called: set[tuple[str, str, str]] = set()
    pending: list[Iterable[ir.Node]] = list(graphs_in(model.graph))
    while pending:
        for node in pending.pop():
            identifier = node.op_identifier()
            if identifier in model.functions and identifier not in called:
                called.add(identifier)
                pending.append(model.functions[identifier].all_nodes())
    for identifier in [key for key in model.functions if key[0] == DOMAIN and key not in called]:
        del model.functions[identifier]
    if any(domain == DOMAIN for domain, _, _ in model.functions):
        model.opset_imports[DOMAIN] = 1
    for function in model.functions.values():
        for node in function.all_nodes():
            if node.domain == DOMAIN:
                function.opset_imports[DOMAIN] = 1


def add_function(functions: Functions, name: str, body: ir.Graph) -> ir.Function:
    """The function of domain onnxgrad with this body: an equal one that exists, else a new one.

    The first body of a name keeps the name; others get a number: `ConvWeightGrad_2`.
    """
    for value in (*body.inputs, *(output for node in body.all_nodes() for output in node.outputs)):
        value.type = value.shape = None
        value.metadata_props.clear()
        if value.producer() is None or value.producer().op_type != "Constant":  # type: ignore[union-attr]
            value.const_value = None
    number = 1
    while True:
        spelled = name if number == 1 else f"{name}_{number}"
        function = ir.Function(DOMAIN, spelled, graph=body, attributes=[])
        existing = functions.get(function.identifier())
        if existing is None:
            functions[function.identifier()] = function
            return function
        if _content(existing) == _content(function):
            return existing
        number += 1


def _content(function: ir.Function) -> bytes:
    content: bytes | None = function.meta.get("onnxgrad.content")
    if content is None:
        proto = ir.to_proto(function)
        content = function.meta["onnxgrad.content"] = proto.SerializeToString(deterministic=True)
    return content


def inline_call(node: ir.Node, function: ir.Function, names: Names) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Replace the call `node` by the nodes of `function`; returns them, and the new value of each output of the call.

    Values take fresh, readable names; outputs keep theirs.
    """
    graph = node.graph
    assert graph is not None
    nodes, replaced = _body_of_call(node, function, names)
    graph.insert_before(node, nodes)
    for old, new in replaced.items():
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        new.name, old.name = old.name, None
    graph.remove(node, safe=True)
    return nodes, replaced


def repeat_call(
    node: ir.Node, function: ir.Function, names: Names, graph: ir.Graph
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Compute what the call `node` computes once more, at the end of `graph`, by the nodes of `function`.

    Returns these nodes, and the other value of each output of the call, which stays as it is.
    """
    nodes, repeated = _body_of_call(node, function, names)
    graph.extend(nodes)
    for inner in nodes:
        inner.name = inner.name or names.fresh_node(f"{node.name}.{inner.op_type}")
    for old, new in repeated.items():
        if not new.name:
            new.name = names.fresh(f"{node.name}.{old.name}")
    return nodes, repeated


def _body_of_call(node: ir.Node, function: ir.Function, names: Names) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """The nodes of a function for the inputs of `node`, in no graph yet, and their value for each of its outputs."""
    body = function.graph.clone(allow_outer_scope_values=True)
    substitute_attributes(body, {**function.attributes, **node.attributes})
    formals, outputs = list(body.inputs), list(body.outputs)
    actuals: dict[ir.Value, ir.Value | None] = dict(zip_longest(formals, node.inputs[: len(formals)]))
    for formal, actual in actuals.items():
        _replace_formal(formal, actual)
    results = [actuals.get(value, value) for value in outputs]
    nodes = list(body)
    body.outputs.clear()
    body.remove(nodes)
    prefix = node.name or node.op_type
    for inner in nodes:
        _rename(inner, prefix, names)
    found: dict[ir.Value, ir.Value] = {}
    for old, new in zip(node.outputs, results, strict=False):
        if not old.name and not old.uses():
            continue  # an optional output that the call leaves out
        if new is None:
            raise ModelError(
                f"function {function.name} gives an input back that the call leaves out", where=f"output {old.name!r}"
            )
        new = found[old] = _own_output(new, nodes, found)
        if new.type is None:
            new.type, new.shape = old.type, old.shape
    return nodes, found


def _own_output(value: ir.Value, nodes: list[ir.Node], taken: dict[ir.Value, ir.Value]) -> ir.Value:
    """`value` itself if the body made it; an Identity of it if it is an argument, or an output already."""
    if value.producer() in nodes and value not in taken.values():
        return value
    identity = ir.node("Identity", [value])
    nodes.append(identity)
    return identity.outputs[0]


def _replace_formal(formal: ir.Value, actual: ir.Value | None) -> None:
    for user, index in tuple(formal.uses()):
        user.replace_input_with(index, actual)


def _rename(node: ir.Node, prefix: str, names: Names) -> None:
    node.name = names.fresh_node(f"{prefix}.{node.name or node.op_type}")
    for output in node.outputs:
        output.name = names.fresh(f"{prefix}.{output.name or node.op_type}")
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            inner = attribute.as_graph()
            for value in (*inner.inputs, *inner.initializers.values()):
                value.name = names.fresh(f"{prefix}.{value.name}")
            for child in inner:
                _rename(child, prefix, names)


def substitute_attributes(graph: ir.Graph, actual: dict[str, ir.Attr]) -> None:
    """Put the attributes of a call in the place of references to them."""
    for node in graph.all_nodes():
        for name, attribute in list(node.attributes.items()):
            if not attribute.is_ref():
                continue
            del node.attributes[name]
            source = actual.get(attribute.ref_attr_name or "")
            if source is not None and (source.is_ref() or source.value is not None):
                node.attributes[name] = ir.Attr(name, source.type, source.value, ref_attr_name=source.ref_attr_name)


def schema_function(node: ir.Node, opset: int) -> ir.Function | None:
    """The function body that the ONNX standard gives for `node` at `opset`, specialised to its input types.

    It reads what the bodies of `node` read from outside, as they do.
    """
    try:
        schema = cast(_FunctionSchema, onnx.defs.get_schema(node.op_type, opset, node.domain))
    except onnx.defs.SchemaError:
        return None
    proto, outer = node_with_outer_names(node)
    if schema.has_function:
        body = _pick(schema.function_opset_versions, opset, schema.get_function_with_opset_version)
    elif schema.has_context_dependent_function:
        types = [b"" if v is None else _type_proto(v).SerializeToString() for v in node.inputs]
        body = _pick(
            schema.context_dependent_function_opset_versions,
            opset,
            lambda v: schema.get_context_dependent_function_with_opset_version(v, proto.SerializeToString(), types),
        )
    else:
        return None
    if not body:
        return None
    function = onnx.FunctionProto.FromString(body)
    if not function.name:
        function.name = node.op_type
    for attribute in schema.attributes.values():  # defaults of the schema stand for attributes the node leaves out
        default = attribute.default_value
        if default.name and default.name not in node.attributes:
            node.attributes[default.name] = ir.serde.deserialize_attribute(default)
    made = {*function.input, *(name for inner in function.node for name in inner.output)}
    present = [name if name in made else function.output[0] for name in function.output[: len(node.outputs)]]
    del function.output[:]
    function.output.extend(present)  # a body leaves out what an output that the node does not ask for would need
    return function_with_outer_values(function, outer)


def _pick(versions: Iterable[int], opset: int, get: Callable[[int], bytes]) -> bytes:
    usable = [version for version in versions if version <= opset]
    return get(max(usable)) if usable else b""


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    if value.type is None:
        raise ModelError(
            f"the type of {value.name!r} is not known", fix="run shape inference first (onnxgrad.engine.ir.infer)"
        )
    info = ir.to_proto(value)
    return info.type
