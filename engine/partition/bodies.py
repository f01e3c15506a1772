"""Sub-graphs of nodes: found, kept as they were, put back."""

from collections.abc import Iterable

import onnx_ir as ir

Kept = dict[str, ir.Attr]


def bodies_of(node: ir.Node) -> list[ir.Graph]:
    """The sub-graphs that a node holds itself, not those inside them."""
    found: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if not attribute.is_ref():
            found.extend(_graphs(attribute))
    return found


def keep_bodies(node: ir.Node) -> Kept:
    """Copies of the sub-graphs of `node`, to `restore` or to `discard` later."""
    kept: Kept = {}
    for name, attribute in node.attributes.items():
        graphs = [] if attribute.is_ref() else _graphs(attribute)
        if graphs:
            copies = [graph.clone(allow_outer_scope_values=True) for graph in graphs]
            whole = attribute.type == ir.AttributeType.GRAPHS
            kept[name] = ir.AttrGraphs(name, copies) if whole else ir.AttrGraph(name, copies[0])
    return kept


def restore(node: ir.Node, kept: Kept) -> None:
    """Put the copies in the place of what `node` holds now."""
    _detach(bodies_of(node))
    node.attributes.update(kept)


def discard(kept: Kept) -> None:
    """Take the copies out of the uses of the values that they read."""
    _detach(graph for attribute in kept.values() for graph in _graphs(attribute))


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return list(attribute.as_graphs()) if attribute.type == ir.AttributeType.GRAPHS else []


def _detach(graphs: Iterable[ir.Graph]) -> None:
    for graph in graphs:
        for node in graph.all_nodes():
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
