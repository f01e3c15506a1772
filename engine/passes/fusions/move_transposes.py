"""Transposes move through the nodes between them, where fewer are left then."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.edit import remove_dead, replace_value
from onnxgrad.engine.passes.fusions.permuted import Permuted, permuted
from onnxgrad.engine.passes.queries import constant_value, element_count, is_constant, producer, rank, single_reader
from onnxgrad.engine.passes.scope import RecordingBuilder, Scope

_LARGEST = 256  # nodes of a region
_SHARED_LIMIT = 4096  # elements: constants with other readers are copied up to this size


def move_transposes(scope: Scope) -> int:
    """Nodes between transposes work on the axes as they were before, where that saves transposes."""
    count = 0
    for graph in scope.graphs():
        opset = scope.opset(graph)
        tried: set[tuple[ir.Node, tuple[int, ...]]] = set()
        for node in list(graph) if opset else []:
            for order, seeds in _starts(node, graph):
                region = _Region(scope, graph, order, opset)
                region.grow([seed for seed in seeds if (seed, tuple(order)) not in tried])
                tried.update((member, tuple(order)) for member in region.members)
                region.shrink()
                if region.members and region.cost() < 0:
                    region.rewrite()
                    count += 1
                    break
    return count


def _starts(node: ir.Node, graph: ir.Graph) -> list[tuple[list[int], list[ir.Node]]]:
    """Around a Transpose: the nodes behind it, by its order; the one in front of it, by the order that undoes it."""
    order = _order(node) if node.graph is graph else None
    if order is None or node.inputs[0] is None:
        return []
    maker = node.inputs[0].producer()
    behind = [user for user, _ in node.outputs[0].uses()]
    return [(order, behind), (np.argsort(order).tolist(), [] if maker is None else [maker])]


def _order(node: ir.Node) -> list[int] | None:
    """The permutation of a Transpose, where it is one that moves axes."""
    if node.op_type != "Transpose" or node.domain != "":
        return None
    perm = node.attributes.get("perm")
    if perm is not None and perm.is_ref():
        return None
    size = None if node.inputs[0] is None else rank(node.inputs[0])
    order = list(perm.as_ints()) if perm is not None else None if size is None else list(range(size))[::-1]
    return None if order is None or order == sorted(order) else order


class _Region:
    """Nodes that would work on x' where they work on x = Transpose(x', order) now."""

    def __init__(self, scope: Scope, graph: ir.Graph, order: list[int], opset: int) -> None:
        self._scope, self._graph, self._order, self._opset = scope, graph, order, opset
        self._inverse = np.argsort(order).tolist()
        self.members: dict[ir.Node, Permuted] = {}

    def grow(self, seeds: Sequence[ir.Node]) -> None:
        """Take these nodes, and all that are connected with them, as far as they can be permuted."""
        pending = list(dict.fromkeys(seeds))
        seen = set(pending)
        while pending and len(self.members) < _LARGEST:
            node = pending.pop(0)
            form = self._form(node)
            if form is None:
                continue
            self.members[node] = form
            for near in self._neighbours(node, form):
                if near not in seen:
                    seen.add(near)
                    pending.append(near)

    def _form(self, node: ir.Node) -> Permuted | None:
        if node.graph is not self._graph:
            return None
        form = permuted(node, self._order, self._opset)
        if form is None or not all(self._is_operand(node.inputs[index]) for index in form.operands):
            return None
        return form

    def _is_operand(self, value: ir.Value | None) -> bool:
        if value is None:
            return False
        return rank(value) == len(self._order) or self._is_free(value)

    def _is_free(self, value: ir.Value) -> bool:
        """Whether a value can be permuted without a node: one element, or a constant."""
        size = rank(value)
        if size is None or size > len(self._order):
            return False
        if element_count(value) == 1:
            return True
        return is_constant(value) and (single_reader(value) or (element_count(value) or 0) <= _SHARED_LIMIT)

    def _neighbours(self, node: ir.Node, form: Permuted) -> Iterator[ir.Node]:
        for output in node.outputs:
            yield from (user for user, _ in output.uses())
        for index in form.operands:
            value = node.inputs[index]
            maker = None if value is None else value.producer()
            if maker is not None:
                yield maker

    def shrink(self) -> None:
        """Leave out nodes, one by one, as long as that costs no transposes."""
        pending = list(self.members)
        while pending:
            node = pending.pop()
            form = self.members.get(node)
            if form is None:
                continue
            values = self._values({node: form})
            before = sum(map(self._cost_of, values))
            del self.members[node]
            if sum(map(self._cost_of, values)) > before:
                self.members[node] = form
            else:
                pending.extend(near for near in self._neighbours(node, form) if near in self.members)

    def _values(self, nodes: dict[ir.Node, Permuted]) -> dict[ir.Value, None]:
        """What these nodes read as operands, and their outputs."""
        found: dict[ir.Value, None] = {}
        for node, form in nodes.items():
            operands = (node.inputs[index] for index in form.operands)
            found.update(dict.fromkeys(value for value in operands if value is not None))
            found.update(dict.fromkeys(node.outputs))
        return found

    def cost(self) -> int:
        """How many transposes more there would be."""
        return sum(map(self._cost_of, self._values(self.members)))

    def _cost_of(self, value: ir.Value) -> int:
        """The transposes to be added, less those that go, for one value."""
        readers = list(dict.fromkeys(user for user, _ in value.uses()))
        if value.producer() in self.members:
            cancelled = [user for user in readers if self._cancels(user)]
            others = [user for user in readers if user not in self.members and not self._merges(user)]
            return int(bool(others) or value.is_graph_output()) - len(cancelled)
        if not any(self._reads(user, value) for user in readers) or self._is_free(value):
            return 0
        maker = value.producer()
        is_made = maker is not None and self._merges(maker)
        goes = int(is_made and not value.is_graph_output() and all(self._reads(user, value) for user in readers))
        return int(self._source(value) is None) - goes

    def _reads(self, user: ir.Node, value: ir.Value) -> bool:
        form = self.members.get(user)
        return form is not None and any(user.inputs[index] is value for index in form.operands)

    def _source(self, value: ir.Value) -> ir.Value | None:
        """x', where the value is Transpose(x', order)."""
        node = producer(value, "Transpose")
        return node.inputs[0] if node is not None and _order(node) == self._order else None

    def _merges(self, user: ir.Node) -> bool:
        return user.graph is self._graph and _order(user) is not None

    def _cancels(self, user: ir.Node) -> bool:
        return user.graph is self._graph and _order(user) == self._inverse

    def rewrite(self) -> None:
        """Write the nodes anew, for permuted operands."""
        made: dict[ir.Value, ir.Value] = {}
        old = [node for node in self._graph if node in self.members]
        sources = [maker for value in self._values(self.members) if (maker := value.producer()) is not None]
        for node in old:
            op = self._scope.builder(self._graph, before=node)
            form = self.members[node]
            operands = [self._permuted_value(op, node.inputs[index], made) for index in form.operands]
            for value, new in zip(node.outputs, form.write(op, node, operands), strict=True):
                made[value] = new
            for new_node in op.made:
                new_node.metadata_props.update(node.metadata_props)
        for node in old:
            for value in node.outputs:
                self._hand_over(value, made[value])
        remove_dead([*reversed(old), *sources])

    def _permuted_value(self, op: RecordingBuilder, value: ir.Value | None, made: dict[ir.Value, ir.Value]) -> ir.Value:
        assert value is not None
        if value not in made:
            made[value] = self._new_operand(op, value)
        return made[value]

    def _new_operand(self, op: RecordingBuilder, value: ir.Value) -> ir.Value:
        source = self._source(value)
        if source is not None:
            return source
        if element_count(value) == 1 and (rank(value) or 0) <= len(self._order):
            return value
        array = constant_value(value) if self._is_free(value) else None
        if array is None:
            return self._turned_back(op, value)
        array = array.reshape((1,) * (len(self._order) - array.ndim) + array.shape)
        return op.constant(np.ascontiguousarray(array.transpose(self._inverse)))

    def _turned_back(self, op: RecordingBuilder, value: ir.Value) -> ir.Value:
        """x' for a value from outside: one Transpose of it, or of what it is a Transpose of."""
        node = producer(value, "Transpose")
        order = None if node is None else _order(node)
        if node is None or order is None or node.inputs[0] is None:
            return op.Transpose(value, perm=self._inverse)
        return op.Transpose(node.inputs[0], perm=[order[axis] for axis in self._inverse])

    def _hand_over(self, value: ir.Value, new: ir.Value) -> None:
        """Give the readers outside the region what they read before."""
        node = value.producer()
        assert node is not None
        outside = dict.fromkeys(user for user, _ in value.uses() if user not in self.members)
        for user in outside:
            if self._merges(user):
                order = _order(user) or []
                merged = [self._order[axis] for axis in order]
                op = self._scope.builder(self._graph, before=user)
                moved = new if merged == sorted(merged) else op.Transpose(new, perm=merged)
                replace_value(self._scope, user.outputs[0], moved, fresh=moved is not new)
                remove_dead([user])
        if value.is_graph_output() or any(user not in self.members for user, _ in value.uses()):
            op = self._scope.builder(self._graph, before=node)
            replace_value(self._scope, value, op.Transpose(new, perm=self._order), fresh=True)
