"""Make a model one that a runtime runs: node by node, the first remedy that helps.

The order of remedies: the same meaning in another opset; other operators; a wider type with casts around, if the
operator has a kernel for it; the function body of the schema, mended itself; and last, the host. A wider type comes
before the body: one kernel and one rounding, where a body rounds after each of its nodes. What is valid is mended; what
is not valid is an error.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import inline_call, schema_function, substitute_attributes
from onnxgrad.engine.ir.opset import opset_of
from onnxgrad.engine.ir.opset_changes import CHANGES
from onnxgrad.engine.partition.bodies import bodies_of, discard, keep_bodies, restore
from onnxgrad.engine.partition.known_bad import KnownBad, find_known_bad
from onnxgrad.engine.partition.lowering import LOWERINGS
from onnxgrad.engine.partition.prepare import (
    annotate,
    choose_opset,
    expand_graph_operators,
    inline_functions,
    raise_ancient,
    require_known_versions,
)
from onnxgrad.engine.partition.report import Remedy
from onnxgrad.engine.partition.target import Target
from onnxgrad.engine.partition.validity import require_valid
from onnxgrad.engine.partition.versions import drop_unknown_attributes, translation_gap
from onnxgrad.engine.partition.widen import widen

_DEPTH = 8  # of schema function bodies inside each other


@dataclass
class Mended:
    """A model whose nodes run on the target, but for those in `hosted` (with the reason), which keep their version."""

    model: ir.Model
    opset: int
    hosted: dict[ir.Node, str] = field(default_factory=dict)
    versions: dict[ir.Node, int] = field(default_factory=dict)
    remedies: list[Remedy] = field(default_factory=list)

    def hosted_nodes(self) -> list[ir.Node]:
        """The nodes of the main graph that the host runs, with their bodies."""
        return [node for node in self.model.graph if node in self.hosted]


def mend(model: ir.Model, target: Target) -> Mended:
    """Mend `model` in place for `target`.

    Raises: ModelError for a node that is not valid; OpsetError for a version that nobody knows.
    """
    remedies: list[Remedy] = []
    require_known_versions(model)
    raise_ancient(model, remedies)
    expand_graph_operators(model, remedies)
    inline_functions(model)
    annotate(model)
    version = opset_of(model) or onnx.defs.onnx_opset_version()
    opset = choose_opset(model.graph, version, target)
    if opset != version and opset_of(model):
        remedies.append(Remedy("", "model", "opset", f"opset {version} is run as opset {opset}"))
    mended = Mended(model, opset, remedies=remedies)
    _Mender(mended, model.graph, version, target, dict(model.graph.opset_imports)).mend_graph(model.graph)
    _host_what_reads_untyped(mended)
    return mended


def _host_what_reads_untyped(mended: Mended) -> None:
    """A session needs the types of its inputs: what reads a hosted node's output of unknown type follows it."""
    for node in mended.model.graph:
        makers = {value.producer(): value for value in node.inputs if value is not None and value.type is None}
        source = next((value for maker, value in makers.items() if maker in mended.hosted), None)
        if source is not None and node not in mended.hosted:
            why = f"the type of {source.name!r}, which the host gives, is not known"
            mended.hosted[node], mended.versions[node] = why, mended.opset
            mended.remedies.append(Remedy(node.name or "", node.op_type, "host", why))


class _Mender:
    """One walk over a graph of nodes written in `version`; nodes of other versions are in `mended.versions`."""

    def __init__(
        self, mended: Mended, root: ir.Graph, version: int, target: Target, domains: dict[str, int], depth: int = 0
    ) -> None:
        self.mended, self.version, self.target, self.depth = mended, version, target, depth
        self.domains = domains
        self.op = Builder(root, opset=mended.opset)
        self.op.functions = {}

    def mend_graph(self, graph: ir.Graph, op: Builder | None = None) -> None:
        op = op or self.op
        for node in list(graph):
            self.mend_nodes([node], op)

    def mend_nodes(self, nodes: Iterable[ir.Node], op: Builder) -> None:
        for node in nodes:
            kept = keep_bodies(node) if node.graph is self.op.graph else {}
            for body in bodies_of(node):
                self.mend_graph(body, Builder(body, parent=self.op))
            self._mend_node(node, op)
            if node in self.mended.hosted and kept:
                restore(node, kept)  # as a whole it runs in its own version, not in the runtime's
            else:
                discard(kept)

    def _mend_node(self, node: ir.Node, op: Builder) -> None:
        version = self._version(node)
        if node.domain not in ("", "ai.onnx"):
            opset = min(version, self.target.newest(node.domain))
        else:
            opset = self.mended.opset
        inner_nodes = (inner for body in bodies_of(node) for inner in body.all_nodes())
        inside = next((inner for inner in inner_nodes if inner in self.mended.hosted), None)
        if inside is not None:
            self._host(node, version, f"its body holds {inside.op_type} {inside.name!r}: {self.mended.hosted[inside]}")
            return
        gap = translation_gap(node, version, opset)
        nested = bool(bodies_of(node)) and node.graph is not self.op.graph
        why = gap or ("" if nested else self.target.refusal(node, opset))
        bad = None if why else find_known_bad(node, self.target.on_cpu)
        if bad is None and not why:
            drop_unknown_attributes(node, opset)
            return
        if not bodies_of(node):
            require_valid(node, version, why)
        if bad is not None:
            self._avoid(node, version, opset, bad, op)
            return
        if _rounds_inside(node):
            helped = self._rewrite(node, why, op) or self._expand(node, version, why)
            if helped:
                return
        helped = self._raise(node, version, opset, gap, op) or self._rewrite(node, why, op)
        helped = helped or (not gap and self._widen(node, opset, why, op))
        if not (helped or self._expand(node, version, why)):
            self._host(node, version, why)

    def _avoid(self, node: ir.Node, version: int, opset: int, bad: KnownBad, op: Builder) -> None:
        for remedy in bad.remedies:
            if remedy == "rewritten" and self._rewrite(node, bad.why, op):
                return
            if remedy == "expanded" and self._expand(node, version, bad.why):
                return
            if remedy == "widened" and self._widen(node, opset, bad.why, op, bad.to):
                return
            if remedy == "host":
                self._host(node, version, bad.why)

    def _version(self, node: ir.Node) -> int:
        if node in self.mended.versions:
            return self.mended.versions[node]
        return self.version if node.domain in ("", "ai.onnx") else self.domains.get(node.domain, 1)

    def _raise(self, node: ir.Node, version: int, opset: int, gap: str, op: Builder) -> bool:
        """An older node, as it comes out of function bodies, is brought to the opset by the known changes."""
        _, adapt = CHANGES.get(node.op_type, ((), None))
        if not gap or version >= opset or adapt is None or node.domain:
            return False
        op.before = node
        adapt(op, node, version)
        self._note(node, "opset", gap)
        return True

    def _rewrite(self, node: ir.Node, why: str, op: Builder) -> bool:
        lower = LOWERINGS.get((node.domain, node.op_type))
        if lower is None:
            return False
        op.before, name = node, node.name
        made = lower(op, node)
        if made:
            self.mended.remedies.append(Remedy(name or "", node.op_type, "rewritten", why))
            self.mended.versions.update((new, self.mended.opset) for new in made if new is not node)
            self.mend_nodes(made, op)
        return bool(made)

    def _expand(self, node: ir.Node, version: int, why: str) -> bool:
        """By the function body of the schema, mended itself; only if none of it needs the host."""
        if self.depth >= _DEPTH or node.graph is None:
            return False
        function = _function_of(node, version, self.version)
        if function is None:
            return False
        scratch = Mended(self.mended.model, self.mended.opset)
        body_version = function.opset_imports.get("", version if node.domain in ("", "ai.onnx") else self.version)
        domains = {**self.domains, **function.opset_imports}
        mender = _Mender(scratch, function.graph, body_version, self.target, domains, self.depth + 1)
        try:
            mender.mend_graph(function.graph)
        except OnnxGradError:
            return False  # the body is not valid for these types: the next remedy
        if scratch.hosted:
            return False
        inline_call(node, function, self.op.names)
        self._note(node, "expanded", why)
        return True

    def _widen(self, node: ir.Node, opset: int, why: str, op: Builder, to: ir.DataType | None = None) -> bool:
        changed = widen(node, opset, self.target, op, to)
        if changed is None:
            return False
        drop_unknown_attributes(node, opset)
        types = ", ".join(f"{old.name.lower()} as {new.name.lower()}" for old, new in changed.items())
        self._note(node, "widened", f"{types}: {why}")
        self.mended.versions[node] = opset
        self.mend_nodes([node], op)  # the wide kernel may be one that is known to be wrong
        return True

    def _host(self, node: ir.Node, version: int, why: str) -> None:
        self.mended.hosted[node] = why
        self.mended.versions[node] = version
        self._note(node, "host", why)

    def _note(self, node: ir.Node, kind: str, why: str) -> None:
        self.mended.remedies.append(Remedy(node.name or "", node.op_type, kind, why))


def _rounds_inside(node: ir.Node) -> bool:
    """Attention in bfloat16: its body says where it rounds, and a model is trained with that."""
    return node.op_type == "Attention" and any(v is not None and v.dtype == ir.DataType.BFLOAT16 for v in node.inputs)


def _function_of(node: ir.Node, version: int, main: int) -> ir.Function | None:
    """The body of the schema with the attributes of the node put in, and types on its values."""
    if any(value is not None and value.type is None for value in node.inputs):
        return None
    try:
        function = schema_function(node, version)
    except (RuntimeError, ValueError):  # the standard's own builder gives up on these types or attributes
        return None
    if function is None:
        return None
    graph = function.graph
    substitute_attributes(graph, {**function.attributes, **node.attributes})
    for formal, actual in zip(list(graph.inputs), [*node.inputs, *[None] * len(graph.inputs)], strict=False):
        if actual is not None:
            formal.type, formal.shape = actual.type, actual.shape
        else:
            for user, index in tuple(formal.uses()):
                user.replace_input_with(index, None)
    graph.opset_imports.setdefault("", main)
    annotate(ir.Model(graph, ir_version=10))
    return function
