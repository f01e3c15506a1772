"""What the nodes of a graph cost: arithmetic, and bytes read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxgrad.engine.graph.node import Node, list_of, same_graph
from onnxgrad.engine.graph.traversal import node_sequence
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.ir.work import node_macs, value_bytes


@dataclass(frozen=True)
class NodeCost:
    """An estimate for one node, with 1 for sizes that are not known.

    flops: two for each multiply-accumulate of products, convolutions and recurrent layers, one for each element that
    any other operator gives; None where a shape is missing. bytes_read, bytes_written: of inputs and outputs. params:
    the attributes as JSON.
    """

    node: Node
    flops: int | None
    bytes_read: int
    bytes_written: int
    params: str

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved."""
        return (self.flops or 0) / max(self.bytes_read + self.bytes_written, 1)


_MOVE_ONLY = frozenset(
    {
        "Constant",
        "Identity",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Transpose",
        "Shape",
        "Size",
        "Concat",
        "Split",
    }
    | {"Slice", "Gather", "GatherND", "GatherElements", "Expand", "Tile", "Cast", "Pad"}
)


def cost_of(vars: Var | Sequence[Var]) -> list[NodeCost]:
    """The cost of each node that the variables depend on, in the order of `node_sequence`.

    Virtual gradients are one node each, of no operations: use_virtual_grad=False writes them out.
    """
    targets = list_of(vars)
    same_graph(targets)
    return [_cost(node) for node in node_sequence(targets)]


def _cost(node: Node) -> NodeCost:
    read = sum(value_bytes(value) for value in node.ir.inputs if value is not None)
    written = sum(value_bytes(value) for value in node.ir.outputs)
    macs = node_macs(node.ir)
    flops = None if macs is None else 2 * macs or _elements(node)
    return NodeCost(node, flops, read, written, node.params)


def _elements(node: Node) -> int | None:
    """One operation for each element that is made, or, of reductions, read."""
    if node.op_type in _MOVE_ONLY or node.domain == "onnxgrad":
        return 0
    values = node.ir.inputs[:1] if node.op_type.startswith("Reduce") else node.ir.outputs[:1]
    total = 0
    for value in values:
        if value is None or value.shape is None or value.dtype is None or not value.dtype.bitwidth:
            return None
        total += value_bytes(value) * 8 // value.dtype.bitwidth
    return total
