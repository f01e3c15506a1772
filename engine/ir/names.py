"""Unique names: one `Names` holds all value and node names of a model's graph and its sub-graphs."""

from collections.abc import Iterator

import onnx_ir as ir


def graphs_in(graph: ir.Graph) -> Iterator[ir.Graph]:
    """`graph` and every sub-graph below it."""
    yield graph
    yield from graph.subgraphs()


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The sub-graphs that a node holds."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def values_in(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value defined in `graph` and below: inputs, initializers, node outputs (some may come twice)."""
    for inner in graphs_in(graph):
        yield from inner.inputs
        yield from inner.initializers.values()
        for node in inner:
            yield from node.outputs


class Names:
    """The names in use in a root graph and below. `fresh` never gives one of them, and never the same one twice."""

    def __init__(self, graph: ir.Graph) -> None:
        self._values = {value.name for value in values_in(graph) if value.name}
        self._nodes = {node.name for inner in graphs_in(graph) for node in inner if node.name}
        self._last_value: dict[str, int] = {}  # wanted name -> the last number it was given
        self._last_node: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def fresh(self, wanted: str) -> str:
        """A value name: `wanted` itself if it is free, else `wanted_1`, ...; it counts as used from now on."""
        return _pick(wanted, self._values, self._last_value)

    def fresh_node(self, wanted: str) -> str:
        """The same for a node name: nodes and values have a name space each."""
        return _pick(wanted, self._nodes, self._last_node)


def _pick(wanted: str, used: set[str], last: dict[str, int]) -> str:
    name = wanted
    while name in used:
        last[wanted] = last.get(wanted, 0) + 1
        name = f"{wanted}_{last[wanted]}"
    used.add(name)
    return name
