"""From a model to the plan that runs it: one session where onnxruntime takes it, else mended, cut and put together."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, ModelError, OnnxGradError, OpsetError
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.engine.ir.serialize import detach_weights, serialize
from onnxgrad.engine.partition.bodies import bodies_of
from onnxgrad.engine.partition.known_bad import find_known_bad, is_suspect
from onnxgrad.engine.partition.mend import Mended, mend
from onnxgrad.engine.partition.prepare import annotate, inline_functions
from onnxgrad.engine.partition.regions import Cut, captured_values, cut
from onnxgrad.engine.partition.report import Explanation, RegionReport
from onnxgrad.engine.runtime.call_signature import read_signature
from onnxgrad.engine.runtime.host import HostNode, HostRegion
from onnxgrad.engine.runtime.plan import Plan, Region, SessionRegion
from onnxgrad.engine.runtime.probe import Probe, newest_ir_version
from onnxgrad.engine.runtime.providers import Provider, choose_providers
from onnxgrad.engine.runtime.session import DEFAULT_TUNING, Session, Tuning, create_session
from onnxgrad.engine.runtime.source import INLINE_LIMIT, ModelSource
from onnxgrad.engine.runtime.values import Array


@dataclass(frozen=True)
class SessionOptions:
    """What `compile` was asked for."""

    providers: Provider | Sequence[Provider] | None
    threads: int | None
    level: str
    cached: bool = False
    profile: str = ""
    spinning: bool = True
    shared_arena: bool = False
    tuning: Tuning = DEFAULT_TUNING

    def open(self, source: ModelSource) -> Session:
        """A session with these options."""
        return create_session(
            source,
            self.providers,
            self.threads,
            self.level,
            self.spinning,
            cached=self.cached,
            profile=self.profile,
            shared_arena=self.shared_arena,
            tuning=self.tuning,
        )


def assemble(
    source: ModelSource, model: ir.Model, outputs: Sequence[str] | None, options: SessionOptions
) -> tuple[Plan, Callable[[], Explanation]]:
    """The plan of a model, and what explains it; `source` is `model` with these outputs.

    A model that onnxruntime loads, without nodes that it is known to get wrong, is one session and pays for no more.

    Raises: ModelError, OpsetError, ExecutionError.
    """
    counts, nodes = Counter(node.op_type for node in model.graph), sum(1 for _ in _all_nodes(model))
    target = Probe(choose_providers(options.providers))
    if not _has_known_bad(model, target):
        try:
            session = options.open(source)
        except (ExecutionError, ModelError, OpsetError) as error:
            refusal: OnnxGradError | None = error
        else:
            region = SessionRegion(session)
            return Plan((region,), region.outputs), partial(_explain_whole, region, counts, nodes)
    else:
        refusal = None
    model = clone(model)
    if outputs is not None:
        _select(model.graph, outputs)
    mended = mend(model, target)
    if refusal is not None and not mended.remedies and not isinstance(refusal, OpsetError):
        raise refusal
    plan, reports = _assemble_mended(mended, options)
    on_host = sum(1 + sum(1 for body in bodies_of(node) for _ in body.all_nodes()) for node in mended.hosted_nodes())
    explanation = Explanation(tuple(reports), tuple(mended.remedies), nodes, on_host)
    return plan, lambda: explanation


def _select(graph: ir.Graph, outputs: Sequence[str]) -> None:
    """Make these values the outputs; that they exist was checked when the source was read."""
    values = {value.name: value for value in (*graph.inputs, *graph.initializers.values())}
    values |= {output.name: output for node in graph for output in node.outputs}
    chosen = [values[name] for name in outputs]
    graph.outputs.clear()
    graph.outputs.extend(chosen)


def _has_known_bad(model: ir.Model, target: Probe) -> bool:
    if not any(is_suspect(node) for node in _all_nodes(model)):
        return False
    typed = clone(model)
    try:
        inline_functions(typed)  # what is inside of functions has types only where they are called
    except OpsetError:
        return False  # functions that cannot be read here are onnxruntime's to run or to refuse
    annotate(typed)
    return any(find_known_bad(node, target.on_cpu) for node in _all_nodes(typed))


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    graphs = (model.graph, *(function.graph for function in model.functions.values()))
    return (node for root in graphs for graph in graphs_in(root) for node in graph)


def _explain_whole(region: SessionRegion, counts: Mapping[str, int], nodes: int) -> Explanation:
    return Explanation((RegionReport(region.providers, dict(counts), region.why),), (), nodes)


def _assemble_mended(mended: Mended, options: SessionOptions) -> tuple[Plan, list[RegionReport]]:
    model = mended.model
    cuts = cut(model.graph, mended.hosted)
    nodes = list(model.graph)
    domains = {node.domain for node in model.graph.all_nodes() if node not in mended.hosted}
    newest = Probe(choose_providers(options.providers)).newest
    opsets = {domain: min(model.graph.opset_imports.get(domain, 1), newest(domain)) for domain in domains} | {
        "": mended.opset
    }
    slim, weights = detach_weights(model, INLINE_LIMIT)
    proto = serialize(slim)
    parts = _Parts(proto, weights, opsets)
    regions: list[Region] = []
    reports: list[RegionReport] = []
    for part in cuts:
        why = _why(part, nodes, mended.hosted)
        region: Region
        if part.on_host:
            region = _host_region(part, parts, nodes, mended, why)
        else:
            session = options.open(parts.source_of(part, whole=len(cuts) == 1))
            region = SessionRegion(session, _passed_on(part, cuts, model.graph))
        regions.append(region)
        counts = Counter(nodes[index].op_type for index in part.nodes)
        reports.append(RegionReport(region.providers, dict(counts), why or region.why))
    outputs = tuple(value.name for value in proto.graph.output)
    direct = {name for name in outputs if name in parts.tensors}
    return Plan(tuple(regions), outputs, parts.constants_of(direct)), reports


def _passed_on(part: Cut, cuts: Sequence[Cut], graph: ir.Graph) -> set[str]:
    """The outputs of a session that only other sessions read."""
    others = [cut for cut in cuts if cut is not part]
    by_sessions = {name for cut in others if not cut.on_host for name in cut.inputs}
    by_host = {name for cut in others if cut.on_host for name in cut.inputs}
    return (set(part.outputs) & by_sessions) - by_host - {value.name or "" for value in graph.outputs}


def _why(part: Cut, nodes: list[ir.Node], hosted: Mapping[ir.Node, str]) -> str:
    reasons = [f"{nodes[i].op_type} {nodes[i].name!r}: {hosted[nodes[i]]}" for i in part.nodes if nodes[i] in hosted]
    return "; ".join(dict.fromkeys(reasons))


class _Parts:
    """The mended model as protos that are dealt out to regions."""

    def __init__(
        self, proto: onnx.ModelProto, weights: Mapping[str, ir.TensorProtocol], opsets: Mapping[str, int]
    ) -> None:
        self.proto, self._weights, self._opsets = proto, weights, opsets
        graph = proto.graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._known = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}

    def source_of(self, part: Cut, whole: bool) -> ModelSource:
        """A part as a model of its own; `whole` when it is all there is."""
        graph = self.proto.graph
        proto = onnx.ModelProto(ir_version=min(max(self.proto.ir_version, 8), newest_ir_version()))
        proto.graph.name = graph.name or "graph"
        for domain, version in self._opsets.items():
            proto.opset_import.add(domain=domain, version=version)
        proto.graph.node.extend(graph.node[index] for index in part.nodes)
        if whole:
            used = set(self.tensors)
            proto.graph.input.extend(graph.input)
            proto.graph.output.extend(graph.output)
        else:
            used = set(part.inputs) | {name for node in proto.graph.node for name in _names_read(node)}
            proto.graph.input.extend(self._value(name) for name in part.inputs)
            proto.graph.output.extend(self._value(name) for name in part.outputs)
        proto.graph.initializer.extend(tensor for name, tensor in self.tensors.items() if name in used)
        weights = {
            name: (tensor.numpy(), ir.DataType(tensor.dtype)) for name, tensor in self._weights.items() if name in used
        }
        return ModelSource(proto.SerializeToString(), read_signature(proto), weights)

    def constants_of(self, names: Iterable[str]) -> dict[str, Array]:
        """The initializers among `names`, as arrays."""
        found: dict[str, Array] = {}
        for name in names:
            if name in self._weights:
                found[name] = self._weights[name].numpy()
            elif name in self.tensors:
                array = onnx.numpy_helper.to_array(self.tensors[name])
                found[name] = array.astype(object) if array.dtype.kind in "UST" else array
        return found

    def _value(self, name: str) -> onnx.ValueInfoProto:
        value: onnx.ValueInfoProto = self._known.get(name, onnx.ValueInfoProto(name=name))
        return value


def _names_read(node: onnx.NodeProto) -> set[str]:
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            names |= {name for inner in graph.node for name in _names_read(inner)}
            names |= {value.name for value in graph.output}
    return names


def _host_region(part: Cut, parts: _Parts, nodes: list[ir.Node], mended: Mended, why: str) -> HostRegion:
    steps = []
    for index in part.nodes:
        node = nodes[index]
        reads = tuple(dict.fromkeys(value.name or "" for value in captured_values(node)))
        version = mended.versions.get(node, mended.opset)
        domain = node.domain if node.domain != "ai.onnx" else ""
        opsets = {"": mended.opset, **mended.model.graph.opset_imports, domain: version}
        steps.append(HostNode(parts.proto.graph.node[index], reads, opsets))
    read = {name for step in steps for name in step.reads}
    return HostRegion(steps, part.inputs, part.outputs, parts.constants_of(read), why)
