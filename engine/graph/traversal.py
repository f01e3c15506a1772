"""Questions about a graph: what a variable depends on, in which order nodes come, who reads what."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.marks import ENDPOINT, PRIORITY
from onnxgrad.engine.graph.node import Node, list_of, number_of, same_graph
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.partition.regions import captured_values

Reads = Callable[[ir.Node], Iterable[ir.Value]]


def nodes_for(targets: Iterable[ir.Value], reads: Reads = captured_values) -> list[ir.Node]:
    """The nodes that values depend on, in topological order. Raises: GraphError for a cycle."""
    order: dict[ir.Node, None] = {}
    opened: set[ir.Node] = set()
    makers = [value.producer() for value in targets]
    pending = [(node, False) for node in reversed(makers) if node is not None]
    while pending:
        node, is_done = pending.pop()
        if is_done:
            order[node] = None
        elif node not in opened:
            opened.add(node)
            pending.append((node, True))
            for value in reversed(list(reads(node))):
                maker = value.producer()
                if maker is not None and maker not in opened:
                    pending.append((maker, False))
                elif maker is not None and maker not in order:
                    raise GraphError(f"the graph has a cycle through node {maker.name!r}")
    return list(order)


def get_dep_vars(vars: Var | Sequence[Var], op_type: str | None = None) -> list[Var]:
    """All variables that these depend on, themselves included, in topological order; `op_type`: outputs of such only.

    Inputs of the graph come first. Those that stand in bodies are not among them.
    """
    targets = list_of(vars)
    if not targets:
        return []
    graph = same_graph(targets)
    values = [value.value for value in targets]
    nodes = nodes_for(values)
    made = [value for node in nodes for value in node.outputs if value.name]
    read = dict.fromkeys(value for node in nodes for value in captured_values(node))
    given = [value for value in dict.fromkeys([*read, *values]) if value.producer() is None]
    if op_type is not None:
        return [Var(graph, value) for node in nodes if node.op_type == op_type for value in node.outputs if value.name]
    return [Var(graph, value) for value in (*given, *made)]


@dataclass(frozen=True)
class Traversal:
    """A part of a graph as maps. `vars` and `nodes` by their numbers; `node_of`: the node that makes a variable;
    `readers`: the nodes that read it; `inputs_left`: how many nodes each one waits for; `ready`: the nodes by that.
    """

    nodes: Mapping[int, Node]
    vars: Mapping[str, Var]
    node_of: Mapping[Var, Node]
    readers: Mapping[Node, tuple[Node, ...]]
    inputs_left: Mapping[Node, int]
    ready: Mapping[int, tuple[Node, ...]]


def graph_traversal(outputs: Var | Sequence[Var]) -> Traversal:
    """What the outputs depend on, as six maps."""
    targets = list_of(outputs)
    graph = same_graph(targets)
    found = nodes_for([var.value for var in targets])
    nodes = {node: Node(graph, node) for node in found}
    readers: dict[Node, dict[Node, None]] = {node: {} for node in nodes.values()}
    left: dict[Node, int] = {}
    for node, wrapped in nodes.items():
        makers = {maker for value in captured_values(node) if (maker := value.producer()) in nodes}
        left[wrapped] = len(makers)
        for maker in makers:
            if maker is not None:
                readers[nodes[maker]][wrapped] = None
    by_count: dict[int, list[Node]] = {}
    for node_, count in left.items():
        by_count.setdefault(count, []).append(node_)
    return Traversal(
        {node.id: node for node in nodes.values()},
        {var.name: var for var in get_dep_vars(targets)},
        {Var(graph, value): nodes[node] for node in found for value in node.outputs},
        {node: tuple(others) for node, others in readers.items()},
        left,
        {count: tuple(members) for count, members in by_count.items()},
    )


def node_sequence(
    outputs: Var | Sequence[Var], prune_reshape: bool = False, prune_constants: bool = True
) -> list[Node]:
    """The nodes that the outputs depend on, in an order in which they can run: of those that can run next, the one with
    the lowest priority goes first, then the one that was made first.

    prune_reshape: without what only computes the shape of a Reshape. prune_constants: without Constant nodes.
    """
    targets = list_of(outputs)
    graph = same_graph(targets)
    reads = _without_shapes if prune_reshape else captured_values
    found = in_order(nodes_for([var.value for var in targets], reads=reads), reads)
    return [Node(graph, node) for node in found if not (prune_constants and node.op_type == "Constant")]


def _without_shapes(node: ir.Node) -> Iterable[ir.Value]:
    first = node.inputs[0] if node.op_type == "Reshape" else None
    return captured_values(node) if first is None else [first]


def in_order(nodes: Collection[ir.Node], reads: Reads = captured_values) -> list[ir.Node]:
    """Nodes by priority, then by their number and name, each after those that it depends on.

    Raises: GraphError for a cycle.
    """
    present = set(nodes)
    waits = {node: {maker for value in reads(node) if (maker := value.producer()) in present} for node in nodes}
    readers: dict[ir.Node, list[ir.Node]] = {}
    for node, makers in waits.items():
        for maker in makers:
            if maker is not None:
                readers.setdefault(maker, []).append(node)
    left = {node: len(makers) for node, makers in waits.items()}
    keys = {node: (node.meta.get(PRIORITY, 0), number_of(node), node.name or "") for node in nodes}
    ready = [(keys[node], node) for node, count in left.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for reader in readers.get(node, ()):
            left[reader] -= 1
            if left[reader] == 0:
                heapq.heappush(ready, (keys[reader], reader))
    if len(order) != len(left):
        stuck = next(node for node, count in left.items() if count > 0)
        raise GraphError(f"the graph has a cycle through node {stuck.name!r}")
    return order


def set_priority_to_id(outputs: Var | Sequence[Var]) -> None:
    """Give nodes that the outputs depend on, and that have no priority, their number as priority. In place."""
    for node in nodes_for([var.value for var in list_of(outputs)]):
        if not node.meta.get(PRIORITY):
            node.meta[PRIORITY] = number_of(node)


def in_priority_order(graph: ir.Graph) -> bool:
    """Put the nodes of a graph into the order of their priorities; whether any has one. In place."""
    nodes = list(graph)
    if not any(PRIORITY in node.meta for node in nodes):
        return False
    order = in_order(nodes)
    graph.remove(nodes)
    graph.extend(order)
    return True


def set_sublinear_memory_endpoint(var: Var) -> None:
    """Keep a value where others are computed twice: a cut for the option enable_sublinear_memory_opt. In place."""
    var.value.meta[ENDPOINT] = True
