"""From variables to a model: the part of a graph that they need, with standard nodes only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import onnx_ir as ir

from onnxgrad.engine.graph.expansion import Expanding, expand, expand_gradients
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.functions import FUNCTIONS_KEY, link_functions
from onnxgrad.engine.ir.names import values_in
from onnxgrad.engine.partition.regions import captured_values
from onnxgrad.engine.passes.edit import remove_dead
from onnxgrad.engine.runtime.probe import newest_ir_version

if TYPE_CHECKING:
    from onnxgrad.engine.graph.callback import CallbackFunction
    from onnxgrad.engine.graph.source import Source
    from onnxgrad.engine.ir.functions import Functions

Value: TypeAlias = ir.Value
IrGraph: TypeAlias = ir.Graph
Transform: TypeAlias = Callable[[ir.Model], ir.Model]
Dependencies: TypeAlias = Mapping[ir.Value, Sequence[ir.Value]]


@dataclass(frozen=True)
class Lowered:
    """A model that computes variables of a graph, and what is to be done with its outputs.

    `sources`: what stands behind its inputs. `targets`: the output of each variable that was asked for. `updates`: the
    output that becomes the next value of an input. `callbacks`: the outputs that each function is called with, in the
    order in which they are computed. `given`: the inputs that are computed elsewhere.
    """

    model: ir.Model
    sources: Mapping[str, Source]
    targets: tuple[str, ...]
    updates: Mapping[str, str]
    callbacks: tuple[tuple[CallbackFunction, tuple[str, ...]], ...]
    given: tuple[str, ...] = ()


def needed(
    targets: Sequence[ir.Value], dependencies: Dependencies, given: Collection[ir.Value] = ()
) -> tuple[set[ir.Node], set[ir.Value]]:
    """The nodes that `targets` need, and the values that are read on the way; `given` are not computed.

    `dependencies`: values that are computed whenever another is.
    """
    nodes: set[ir.Node] = set()
    seen: set[ir.Value] = set()
    pending = list(targets)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending.extend(dependencies.get(value, ()))
        node = None if value in given else value.producer()
        if node is not None and node not in nodes:
            nodes.add(node)
            pending.extend(captured_values(node))
    return nodes, seen


class Lowerable(Protocol):
    """What can be lowered: a Graph, or a copy of one."""

    ir: IrGraph
    sources: dict[Value, Source]
    dependencies: dict[Value, list[Value]]


@dataclass
class Copy:
    """A part of a graph in which gradients are written out. `values`: those that it was made for."""

    ir: IrGraph
    sources: dict[Value, Source]
    dependencies: dict[Value, list[Value]]
    values: list[Value]


def with_gradients(graph: Lowerable, targets: Sequence[ir.Value], forward: Transform | None = None) -> Copy:
    """A copy of what computes `targets`, with all gradients written out; `forward`: applied before that."""
    nodes, seen = needed(targets, graph.dependencies)
    links = {value: others for value, others in graph.dependencies.items() if value in seen}
    listed = [*targets, *(value for key, others in links.items() for value in (key, *others))]
    model = _extract(graph, listed, nodes, seen, [])
    work = _begin(graph, listed, [], model if forward is None else forward(model), seen)
    expand_gradients(work)
    values = iter(work.targets)
    found = [next(values) for _ in targets]
    dependencies = {next(values): [next(values) for _ in others] for others in links.values()}
    inputs = {value.name: value for value in work.model.graph.inputs}
    sources = {inputs[name]: source for name, source in work.sources.items()}
    return Copy(work.model.graph, sources, dependencies, found)


def lower(
    graph: Lowerable,
    targets: Sequence[ir.Value],
    *,
    effects: Sequence[ir.Value] = (),
    given: Collection[ir.Value] = (),
    callbacks: Sequence[tuple[CallbackFunction, Sequence[int]]] = (),
    forward: Transform | None = None,
) -> Lowered:
    """The model that computes `targets`; the graph itself is not changed.

    effects: values that are computed, and not read. given: values of the graph that are inputs here. callbacks:
    functions with the positions of the targets that they get. forward: applied before gradients are written out.

    Raises: GraphError for nodes that cannot run.
    """
    nodes, seen = needed([*targets, *effects], graph.dependencies, given)
    extra = [*effects, *(also for value, others in graph.dependencies.items() if value in seen for also in others)]
    others = [value for value in given if value in seen]
    model = _extract(graph, [*targets, *extra], nodes, seen, others)
    if forward is not None:
        model = forward(model)
    work = _begin(graph, targets, extra, model, seen.difference(others))
    expand(work)
    work.callbacks.extend((function, tuple(work.targets[i] for i in places)) for function, places in callbacks)
    lowered = _with_outputs(work)
    remove_dead(list(work.model.graph))  # what only gradients were taken of
    return replace(lowered, given=tuple(value.name or "" for value in others))


def _begin(
    graph: Lowerable,
    targets: Sequence[ir.Value],
    kept: Sequence[ir.Value],
    model: ir.Model,
    seen: Collection[ir.Value],
) -> Expanding:
    """The model, whose outputs are `targets` and `kept`, without outputs, ready to be expanded."""
    outputs = list(model.graph.outputs)
    model.graph.outputs.clear()
    sources = {value.name or "": source for value, source in graph.sources.items() if value in seen}
    work = Expanding(model, sources, Builder(model.graph, share=True))
    work.targets, work.kept = outputs[: len(targets)], outputs[len(targets) : len(targets) + len(kept)]
    return work


def _extract(
    graph: Lowerable,
    targets: Sequence[ir.Value],
    nodes: Collection[ir.Node],
    values: Collection[ir.Value],
    given: Sequence[ir.Value],
) -> ir.Model:
    """These nodes of the graph, copied, as a model of their own."""
    view = ir.GraphView(
        [*(value for value in graph.ir.inputs if value in values and value not in given), *given],
        [],
        nodes=[node for node in graph.ir if node in nodes],
        initializers=[value for value in graph.ir.initializers.values() if value in values],
        opset_imports=dict(graph.ir.opset_imports),
        name=graph.ir.name,
    )
    copy = view.clone()
    for key, entry in graph.ir.meta.items():
        copy.meta[key] = dict(entry) if isinstance(entry, dict) else entry
    functions: Functions = copy.meta.pop(FUNCTIONS_KEY, {})
    model = ir.Model(
        copy, ir_version=newest_ir_version(), functions=[function.clone() for function in functions.values()]
    )
    link_functions(model)
    known = {value.name: value for value in values_in(copy)}
    copy.outputs.extend(known[target.name] for target in targets)
    return model


def _with_outputs(work: Expanding) -> Lowered:
    """Make all that is asked for outputs, each a value of its own that a node computes.

    The next value of a source has memory of its own, and no output is an input or a constant, whose memory others hold.
    """
    graph = work.model.graph
    taken: dict[ir.Value, ir.Value] = {}

    def output(value: ir.Value, own: bool = False) -> str:
        if own or value not in taken:
            producer = value.producer()
            if own or producer is None or producer.op_type == "Constant":
                node = ir.Node("", "Identity", [value], num_outputs=1)
                work.op.insert(node)
                made = node.outputs[0]
            else:
                made = value
            graph.outputs.append(made)
            taken.setdefault(value, made)
        return (made if own else taken[value]).name or ""

    place = {value: index for index, node in enumerate(graph) for value in node.outputs}
    targets = tuple(map(output, work.targets))
    called = sorted(work.callbacks, key=lambda entry: max(place.get(value, -1) for value in entry[1]))
    callbacks = tuple((function, tuple(map(output, values))) for function, values in called)
    updates = {name: output(value, own=value in taken) for name, value in work.updates.items()}
    for value in work.kept:
        output(value)
    return Lowered(work.model, work.sources, targets, updates, callbacks)
