"""Less memory for more time: what only gradients read is computed a second time, shortly before they need it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.graph.marks import ENDPOINT, OF_GRADIENT
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.ir.work import value_bytes
from onnxgrad.engine.partition.regions import captured_values
from onnxgrad.engine.passes.purity import is_pure


def compute_twice(graph: ir.Graph, tries: int, enough: int) -> int:
    """Split what stands before the gradients, keep what crosses the cuts, and compute the rest again where it is read.

    Values that were marked as endpoints are the cuts; without any, so many numbers of equal parts are tried as `tries`
    says, and the one with the least memory is taken. Nothing is done where `enough` bytes hold all. In place; returns
    the number of nodes that are computed twice.
    """
    plan = _Plan.of(graph)
    if not plan.saved or (enough and sum(map(value_bytes, plan.saved)) <= enough):
        return 0
    marked = [value for node in plan.forward for value in node.outputs if ENDPOINT in value.meta]
    kept = set(marked) if marked else plan.best_cuts(tries)
    return _Repeated(graph, plan, kept).run()


def has_endpoints(graph: ir.Graph) -> bool:
    """Whether a value of the graph was marked as an endpoint."""
    return any(ENDPOINT in value.meta for node in graph for value in node.outputs)


@dataclass(frozen=True)
class _Plan:
    """forward: nodes that are no gradient's, in order. saved: what they make and gradients read."""

    forward: Sequence[ir.Node]
    saved: Sequence[ir.Value]
    last_read: Mapping[ir.Value, int]  # by which of the forward nodes

    @staticmethod
    def of(graph: ir.Graph) -> _Plan:
        """The plan of a graph whose gradients are written out."""
        forward = [node for node in graph if OF_GRADIENT not in node.meta]
        made = {value for node in forward if node.op_type != "Constant" for value in node.outputs}
        read = {value for node in graph if OF_GRADIENT in node.meta for value in captured_values(node)}
        last = {value: place for place, node in enumerate(forward) for value in captured_values(node)}
        saved = [value for node in forward for value in node.outputs if value in made and value in read]
        return _Plan(forward, saved, last)

    def best_cuts(self, tries: int) -> set[ir.Value]:
        """What to keep, for the number of parts that needs the least memory."""
        sizes = [sum(value_bytes(value) for value in node.outputs if value in set(self.saved)) for node in self.forward]
        total = sum(sizes)
        best, least = set(self.saved), total
        for parts in range(2, max(tries, 1) + 2):
            kept: set[ir.Value] = set()
            largest = part = 0
            for place, size in enumerate(sizes):
                part += size
                if part >= total / parts:
                    kept |= self._crossing(place)
                    largest, part = max(largest, part), 0
            needed = sum(map(value_bytes, kept)) + max(largest, part)
            if needed < least:
                best, least = kept, needed
        return best

    def _crossing(self, place: int) -> set[ir.Value]:
        """What the forward nodes up to `place` make and later ones read."""
        made = (value for node in self.forward[: place + 1] if node.op_type != "Constant" for value in node.outputs)
        return {value for value in made if self.last_read.get(value, -1) > place}


class _Repeated:
    """Copies of forward nodes, each made once, in front of the first gradient node that needs it."""

    def __init__(self, graph: ir.Graph, plan: _Plan, kept: Collection[ir.Value]) -> None:
        self._graph, self._forward, self._op = graph, set(plan.forward), Builder(graph)
        self._kept = kept
        self._went: dict[ir.Value, ir.Value] = {}
        self._count = 0

    def run(self) -> int:
        """Let gradients read copies of what is not kept."""
        for node in [node for node in self._graph if OF_GRADIENT in node.meta]:
            for place, value in enumerate(node.inputs):
                again = None if value is None else self._again(value, node)
                if again is not None and again is not value:
                    node.replace_input_with(place, again)
        return self._count

    def _again(self, value: ir.Value, before: ir.Node) -> ir.Value:
        """`value`, computed in front of `before` from what is kept; without recursion: chains are long."""
        pending = [value]
        while pending:
            top = pending[-1]
            if top in self._went:
                pending.pop()
                continue
            node = top.producer()
            if node is None or top in self._kept or not self._may_run_twice(node):
                self._went[top] = top
                continue
            missing = [v for v in node.inputs if v is not None and v not in self._went]
            if missing:
                pending.extend(missing)
            else:
                self._copy(node, before)
        return self._went[value]

    def _may_run_twice(self, node: ir.Node) -> bool:
        return (
            node in self._forward
            and node.op_type != "Constant"
            and not any(bodies(node))
            and is_pure(node, self._op.functions)
        )

    def _copy(self, node: ir.Node, before: ir.Node) -> None:
        inputs = [None if value is None else self._went[value] for value in node.inputs]
        copy = ir.Node(node.domain, node.op_type, inputs, list(node.attributes.values()), num_outputs=len(node.outputs))
        copy.name = self._op.names.fresh_node(f"{node.name}.again")
        copy.meta.update({**node.meta, OF_GRADIENT: True})
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name = self._op.names.fresh(f"{old.name}.again") if old.name else old.name
            new.type, new.shape = old.type, old.shape
            self._went.setdefault(old, new)
        self._graph.insert_before(before, copy)
        self._count += 1
