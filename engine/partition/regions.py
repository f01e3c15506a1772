"""Cut a mended model into regions: as few as possible, none of them depending on itself."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Cut:
    """Some nodes of the main graph, by their index, that run in one place.

    `inputs` are made outside (inputs of the model, initializers excepted, or outputs of regions before it);
    `outputs` are used outside.
    """

    on_host: bool
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def cut(graph: ir.Graph, hosted: Mapping[ir.Node, str]) -> tuple[Cut, ...]:
    """The regions of `graph` in the order they run. Constants are no reason for a cut: each region has its own."""
    nodes = list(graph)
    used_by = {node: list(captured_values(node)) for node in nodes}
    best: list[tuple[bool, list[int]]] = []
    for host_first in (False, True):
        groups = _group(nodes, used_by, hosted, host_first)
        if not best or len(groups) < len(best):
            best = groups
    return tuple(_make_cut(graph, nodes, used_by, on_host, group) for on_host, group in best)


def is_constant(node: ir.Node) -> bool:
    """A Constant node: copied into every region that reads it."""
    return node.op_type == "Constant" and node.domain == ""


def captured_values(node: ir.Node) -> dict[ir.Value, None]:
    """What a node and its bodies read from outside of it, in order."""
    read = {value: None for value in node.inputs if value is not None}
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            bodies = [attribute.as_graph()]
        elif attribute.type == ir.AttributeType.GRAPHS:
            bodies = list(attribute.as_graphs())
        else:
            continue
        for body in bodies:
            read.update(_captured(body))
    return read


def _captured(body: ir.Graph) -> dict[ir.Value, None]:
    own = {*body.inputs, *body.initializers.values()}
    found: dict[ir.Value, None] = {}
    for node in body:
        found.update((value, None) for value in captured_values(node) if value not in own)
        own.update(node.outputs)
    found.update((value, None) for value in body.outputs if value not in own)
    return found


def _group(
    nodes: list[ir.Node],
    used_by: Mapping[ir.Node, list[ir.Value]],
    hosted: Mapping[ir.Node, str],
    host_first: bool,
) -> list[tuple[bool, list[int]]]:
    """Nodes by phase: even phases run in one place, odd ones in the other; a node is as early as its operands allow."""
    free = {node for node in nodes if is_constant(node) and node not in hosted and not _is_given(node)}
    phase: dict[ir.Node, int] = {}
    groups: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        if node in free:
            continue
        parity = int((node in hosted) != host_first)
        makers = (value.producer() for value in used_by[node])
        earliest = max((phase[maker] for maker in makers if maker is not None and maker in phase), default=parity)
        phase[node] = earliest + (earliest % 2 != parity)
        groups.setdefault(phase[node], []).append(index)
    return [((number % 2 == 1) != host_first, groups[number]) for number in sorted(groups)]


def _make_cut(
    graph: ir.Graph,
    nodes: list[ir.Node],
    used_by: Mapping[ir.Node, list[ir.Value]],
    on_host: bool,
    group: list[int],
) -> Cut:
    members = {nodes[index] for index in group}
    read = {value: None for index in group for value in used_by[nodes[index]]}
    constants = {value.producer() for value in read if _is_constant_value(value)}
    members |= {node for node in constants if node is not None}
    inputs = [value for value in read if value.producer() not in members and not _is_fixed(value)]
    outer = {value for node in nodes if node not in members for value in used_by[node]} | set(graph.outputs)
    made = [output for node in nodes if node in members for output in node.outputs]
    outputs = [value for value in made if value in outer and (value.is_graph_output() or not _is_constant_value(value))]
    indices = tuple(index for index, node in enumerate(nodes) if node in members)
    return Cut(on_host, indices, tuple(v.name or "" for v in inputs), tuple(v.name or "" for v in outputs))


def _is_given(node: ir.Node) -> bool:
    return any(output.is_graph_output() for output in node.outputs)


def _is_constant_value(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and is_constant(producer)


def _is_fixed(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()
