"""Before nodes are mended: known versions, no functions, types everywhere, and the opset to run as."""

import logging
from collections.abc import Iterable
from importlib import import_module

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ModelError, OpsetError
from onnxgrad.engine.ir.functions import Functions, inline_call, link_functions
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.names import Names, graphs_in
from onnxgrad.engine.ir.opset import opset_of, raise_opset
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.partition.bodies import bodies_of
from onnxgrad.engine.partition.report import Remedy
from onnxgrad.engine.partition.target import Target
from onnxgrad.engine.partition.versions import schema_at, translation_gap

_LOG = logging.getLogger(__name__)
OLDEST = 7
"""Models of older opsets are raised: no runtime of today has their kernels."""
GRAPH_OPERATORS = {("ai.onnx.preview.training", "Gradient"): ("onnxgrad.grad.gradient_operator", "expand_gradients")}
"""Operators and who replaces them, by name: grad is a layer above, loaded only for a model that holds such a node."""
_CALLS = 64  # of model-local functions inside each other


def require_known_versions(model: ir.Model) -> None:
    """What is newer than the installed onnx may mean anything. Raises: OpsetError."""
    if (model.ir_version or 0) > onnx.IR_VERSION:
        raise OpsetError(
            f"the model has IR version {model.ir_version}",
            why=f"onnx {onnx.__version__} knows IR versions up to {onnx.IR_VERSION}",
            fix="update onnx, or export the model with an older IR version",
        )
    if opset_of(model) > onnx.defs.onnx_opset_version():
        raise OpsetError(
            f"the model uses opset {opset_of(model)} of ai.onnx",
            why=f"onnx {onnx.__version__} knows opsets up to {onnx.defs.onnx_opset_version()}",
            fix="update onnx, or convert the model to an older opset",
        )


def expand_graph_operators(model: ir.Model, remedies: list[Remedy]) -> None:
    """Replace the nodes that stand for a function of their whole graph."""
    found = [node for node in model.graph if (node.domain, node.op_type) in GRAPH_OPERATORS]
    for node in found:
        remedies.append(Remedy(node.name or "", node.op_type, "expanded", "no runtime has a kernel for it"))
    for key in dict.fromkeys((node.domain, node.op_type) for node in found):
        module, function = GRAPH_OPERATORS[key]
        getattr(import_module(module), function)(model)


def raise_ancient(model: ir.Model, remedies: list[Remedy]) -> None:
    """Bring a model of an opset before 7 to 7; where that fails it stays, for the host, and the remedies say so."""
    version = opset_of(model)
    if 0 < version < OLDEST:
        try:
            raise_opset(model, OLDEST)
        except OpsetError as error:
            remedies.append(Remedy("", "model", "opset", f"opset {version} stays: {error.what} {error.why}"))
            return
        remedies.append(Remedy("", "model", "opset", f"opset {version} is run as opset {OLDEST}"))


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of model-local functions in the place of their calls, in all graphs."""
    link_functions(model)
    if not model.functions:
        return
    newest = max((f.opset_imports.get("", 0) for f in model.functions.values()), default=0)
    if opset_of(model):
        raise_opset(model, max(newest, opset_of(model)))
    else:
        model.graph.opset_imports[""] = newest
    for function in model.functions.values():
        for domain, version in function.opset_imports.items():
            model.graph.opset_imports.setdefault(domain, version)
    names = Names(model.graph)
    for graph in list(graphs_in(model.graph)):
        _inline_calls(list(graph), model.functions, names)
    model.functions.clear()


def _inline_calls(nodes: Iterable[ir.Node], functions: Functions, names: Names, depth: int = 0) -> None:
    if depth > _CALLS:
        raise ModelError("functions of the model call each other without end", where=f"{len(functions)} functions")
    for node in nodes:
        function = functions.get(node.op_identifier())
        if function is not None:
            inner, _ = inline_call(node, function, names)
            _inline_calls(inner, functions, names, depth + 1)
            for body in (body for child in inner for body in bodies_of(child)):
                _inline_calls(list(body.all_nodes()), functions, names, depth + 1)


def annotate(model: ir.Model) -> None:
    """Set the types of all values: by our inference, and where that knows no type by that of onnx."""
    infer_shapes(model)
    outputs = (output for graph in graphs_in(model.graph) for node in graph for output in node.outputs)
    untyped = {output.name: output for output in outputs if output.type is None and output.name}
    if untyped:
        try:
            inferred = onnx.shape_inference.infer_shapes(serialize(model))
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:  # ValueError: thrown in C++
            _LOG.debug("no types from onnx: %s", error)  # they stay unknown
            return
        for info in inferred.graph.value_info:
            if info.name in untyped:
                value = ir.serde.deserialize_value_info_proto(info, None)
                untyped[info.name].type, untyped[info.name].shape = value.type, value.shape


def choose_opset(graph: ir.Graph, version: int, target: Target) -> int:
    """The opset to run a model of `version` as: the newest one with the fewest nodes that need another remedy."""
    first = min(version, target.newest(""))
    nodes = [node for inner in graphs_in(graph) for node in inner if node.domain == "" and not bodies_of(node)]
    refused = [node for node in nodes if _refusal(node, version, first, target)]
    best, least = first, len(refused)
    schemas = [schema_at("", node.op_type, first) for node in refused]
    lower = {schema.since_version - 1 for schema in schemas if schema is not None}
    for opset in sorted((opset for opset in lower if OLDEST <= opset < first), reverse=True)[:6]:
        count = sum(bool(_refusal(node, version, opset, target)) for node in nodes) if least else 0
        if count < least:
            best, least = opset, count
    return best


def _refusal(node: ir.Node, version: int, opset: int, target: Target) -> str:
    return translation_gap(node, version, opset) or target.refusal(node, opset)
