"""How much memory a run needs for intermediate values, and where each would be: planned, not allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.ir.input_shapes import with_input_shapes
from onnxgrad.engine.partition.regions import captured_values

if TYPE_CHECKING:
    from onnxgrad.engine.graph.lowering import Lowered

_ALIGNMENT = 64  # bytes
_VIEWS = frozenset({"Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"})
"""Operators whose output is the memory of their first input."""


@dataclass(frozen=True)
class Chunk:
    """A piece of memory: of which value (and those that share it), where, and from which node to which it is needed."""

    name: str
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where intermediate values and outputs of a run would be, in one block of memory of a device.

    Inputs, parameters and constants are not in it, nor what kernels need while they run, nor bodies of control flow.
    """

    device: str
    size: int
    chunks: tuple[Chunk, ...]

    @property
    def bytes_per_device(self) -> dict[str, int]:
        """The size of the block, by device."""
        return {self.device: self.size}


def plan_memory(lowered: Lowered, shapes: Mapping[str, Sequence[int]], device: str) -> MemoryPlan:
    """The plan for inputs of these shapes: each value goes into the smallest gap that holds it.

    Raises: GraphError for a value whose size cannot be known before the run.
    """
    model = lowered.model
    known = {value.name or "" for value in model.graph.inputs}
    given = {name: tuple(shape) for name, shape in shapes.items() if name in known}
    for name, source in lowered.sources.items():
        if not isinstance(source, HostTensor):
            given[name] = tuple(source.ort_value.shape())  # type: ignore[attr-defined]  # it holds a tensor
    graph = with_input_shapes(model, given).graph
    return MemoryPlan(device, *_place(_lifetimes(graph)))


@dataclass
class _Life:
    name: str
    size: int
    first: int
    last: int


def _lifetimes(graph: ir.Graph) -> list[_Life]:
    """The values that need memory, in the order in which they come to be."""
    lives: dict[ir.Value, _Life] = {}
    nodes = [node for node in graph if node.op_type != "Constant"]
    for index, node in enumerate(nodes):
        for value in captured_values(node):
            if value in lives:
                lives[value].last = index
        source = node.inputs[0] if node.inputs else None
        for output in node.outputs:
            if source in lives and node.op_type in _VIEWS and not node.domain and not output.is_graph_output():
                lives[output] = lives[source]
            elif output.uses() or output.is_graph_output():
                lives[output] = _Life(output.name or "", _bytes(output), index, index)
    for output in graph.outputs:
        if output in lives:
            lives[output].last = len(nodes)
    return list({id(life): life for life in lives.values()}.values())


def _bytes(value: ir.Value) -> int:
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        raise GraphError(
            "the memory of a run cannot be planned",
            where=describe_value(value),
            why="the size of this value is not known before the run",
            fix="call the function once, or give the shapes of its inputs: memory_plan({'x': (32, 784)})",
        )
    bits = math.prod(value.shape.numpy()) * value.dtype.bitwidth
    return -(-bits // (8 * _ALIGNMENT)) * _ALIGNMENT


def _place(lives: Sequence[_Life]) -> tuple[int, tuple[Chunk, ...]]:
    """Best fit: the size of the block, and the chunks."""
    chunks: list[Chunk] = []
    live: list[Chunk] = []
    size = 0
    for life in sorted(lives, key=lambda life: life.first):
        live = [chunk for chunk in live if chunk.last >= life.first]
        offset = _gap(live, life.size, size)
        chunk = Chunk(life.name, offset, life.size, life.first, life.last)
        size = max(size, offset + life.size)
        chunks.append(chunk)
        live.append(chunk)
        live.sort(key=lambda chunk: chunk.offset)
    return size, tuple(chunks)


def _gap(live: Sequence[Chunk], size: int, end: int) -> int:
    """Where the smallest gap begins that holds `size` bytes; behind all that is live if there is none."""
    best: tuple[int, int] | None = None
    begin = 0
    for chunk in live:
        room = chunk.offset - begin
        if room >= size and (best is None or room < best[0]):
            best = (room, begin)
        begin = max(begin, chunk.offset + chunk.size)
    if end - begin >= size and (best is None or end - begin < best[0]):
        best = (end - begin, begin)
    return begin if best is None else best[1]
