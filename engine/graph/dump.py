"""A compiled function as JSON: nodes, values, memory, and the order of execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.partition.regions import captured_values

if TYPE_CHECKING:
    from onnxgrad.engine.graph.lowering import Lowered
    from onnxgrad.engine.graph.memory_plan import MemoryPlan


def dump_model(lowered: Lowered, plan: MemoryPlan | None) -> dict[str, object]:
    """The model of a function, before onnxruntime fuses its nodes.

    `nodes`, `values` and `chunks` are dicts by id; `sequence` lists the ids of nodes in the order of execution. A value
    names the node that makes it, if there is one, and its chunk of memory, if the plan is known. What is needed only
    for the shape of another value is there too.
    """
    graph = lowered.model.graph
    chunks = {} if plan is None else {chunk.name: str(index) for index, chunk in enumerate(plan.chunks)}
    ids: dict[ir.Value, str] = {}
    values: dict[str, object] = {}

    def add(value: ir.Value, node: str | None) -> str:
        ids[value] = key = str(len(ids))
        dims = None if value.shape is None else [d if isinstance(d, int) else d.value for d in value.shape]
        values[key] = {
            "name": value.name,
            "dtype": None if value.dtype is None else value.dtype.name.lower(),
            "shape": dims,
            "node": node,
            "chunk": chunks.get(value.name or ""),
        }
        return key

    inputs = [add(value, None) for value in (*graph.inputs, *graph.initializers.values())]
    nodes: dict[str, object] = {}
    for index, node in enumerate(graph):
        nodes[str(index)] = {
            "name": node.name,
            "type": f"{node.domain or 'ai.onnx'}::{node.op_type}",
            "inputs": [ids[value] for value in captured_values(node)],
            "outputs": [add(value, str(index)) for value in node.outputs],
        }
    return {
        "nodes": nodes,
        "values": values,
        "chunks": {} if plan is None else {str(i): _chunk(plan, i) for i in range(len(plan.chunks))},
        "sequence": list(nodes),
        "inputs": inputs[: len(graph.inputs)],
        "outputs": [ids[value] for value in graph.outputs],
        "updates": dict(lowered.updates),
    }


def _chunk(plan: MemoryPlan, index: int) -> dict[str, object]:
    chunk = plan.chunks[index]
    return {
        "device": plan.device,
        "offset": chunk.offset,
        "size": chunk.size,
        "first": chunk.first,
        "last": chunk.last,
    }
