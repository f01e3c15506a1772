"""Names of values and nodes: every value has one definition, no name hides another, nodes stand in order."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, MutableSequence

import onnx

from onnxgrad.engine.errors import ModelError
from onnxgrad.importers.protos import all_graphs, all_nodes, describe_node, subgraphs

_SHOWN = 8  # nodes of a cycle


def resolve_names(proto: onnx.ModelProto) -> None:
    """Check and repair, in place, the names in the graph, its sub-graphs and the functions.

    Repaired: values of a sub-graph that hide outer ones are renamed; a branch that returns an outer value gets an
    Identity; nodes are sorted; node names are made unique.

    Raises: ModelError, for a value with two definitions or none, and for a cycle.
    """
    resolver = _Resolver(_value_names(proto.graph))
    resolver.resolve_graph(proto.graph, [])
    _name_nodes(proto.graph.node)
    for function in proto.functions:
        resolver = _Resolver({name for node in all_nodes(function.node) for name in node.output})
        resolver.resolve_function(function)
        _name_nodes(function.node)


def _value_names(graph: onnx.GraphProto) -> set[str]:
    names: set[str] = set()
    for inner in all_graphs(graph):
        names.update(value.name for value in inner.input)
        names.update(tensor.name for tensor in inner.initializer)
        names.update(name for node in inner.node for name in node.output)
    return names


def _name_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Give each node, at any depth, a name of its own; names that are unique stay."""
    every = list(all_nodes(nodes))
    taken = {node.name for node in every}
    seen: set[str] = {""}
    numbers: dict[str, int] = defaultdict(int)
    for node in every:
        if node.name in seen:
            wanted = node.name or node.op_type
            while (name := f"{wanted}_{numbers[wanted]}") in taken:
                numbers[wanted] += 1
            node.name = name
            taken.add(name)
        seen.add(node.name)


class _Resolver:
    """One walk over a graph and its bodies. A scope maps the names in the file to the names in the model."""

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._numbers: dict[str, int] = defaultdict(int)  # wanted name -> the last number it was given

    def resolve_graph(self, graph: onnx.GraphProto, outer: list[dict[str, str]]) -> set[str]:
        """Resolve one graph. Returns the (new) names of the outer values that it uses."""
        scope = self._define(graph, outer)
        for value in (*graph.input, *graph.value_info):
            value.name = scope.get(value.name, value.name)
        for tensor in graph.initializer:
            tensor.name = scope[tensor.name]
        for annotation in graph.quantization_annotation:
            annotation.tensor_name = scope.get(annotation.tensor_name, annotation.tensor_name)
        given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        captured = self._resolve_nodes(graph.node, given, [*outer, scope])
        captured |= self._resolve_outputs(graph, scope, outer)
        return captured

    def resolve_function(self, function: onnx.FunctionProto) -> None:
        """Resolve the body of a model-local function."""
        where = f"function '{function.name}'"
        scope = {name: name for name in function.input}
        for name in _node_outputs(function.node):
            _define_once(scope, name, name, where)
        for name in function.output:
            if name not in scope:
                raise ModelError("An output of a function is never computed.", where=f"output '{name}' of {where}")
        self._resolve_nodes(function.node, set(function.input), [scope])

    def _define(self, graph: onnx.GraphProto, outer: list[dict[str, str]]) -> dict[str, str]:
        scope: dict[str, str] = {}
        where = f"graph '{graph.name}'"
        for value in graph.input:
            _define_once(scope, value.name, self._unhidden(value.name, outer), where)
        inputs, seen = set(scope), set[str]()
        for name in (tensor.name for tensor in graph.initializer):
            if name in seen or not name:
                what = "An initializer has no name." if not name else "Two initializers have the same name."
                raise ModelError(what, where=f"'{name}' in {where}")
            seen.add(name)
            if name not in inputs:  # with the name of an input it is that input's default
                _define_once(scope, name, self._unhidden(name, outer), where)
        for name in _node_outputs(graph.node):
            _define_once(scope, name, self._unhidden(name, outer), where)
        return scope

    def _unhidden(self, name: str, outer: list[dict[str, str]]) -> str:
        """A name for the definition of `name` inside the scopes `outer`: another one if an outer value has it."""
        return self._fresh(name) if any(name in scope for scope in outer) else name

    def _fresh(self, wanted: str) -> str:
        self._numbers[wanted] += 1
        while (name := f"{wanted}_{self._numbers[wanted]}") in self._used:
            self._numbers[wanted] += 1
        self._used.add(name)
        return name

    def _resolve_nodes(
        self, nodes: MutableSequence[onnx.NodeProto], given: set[str], scopes: list[dict[str, str]]
    ) -> set[str]:
        """Rename the values of the nodes, and sort the nodes. Returns the outer names in use."""
        needs = [self._resolve_node(node, scopes) for node in nodes]
        own = set(scopes[-1].values())
        ready = set(given)
        for node, needed in zip(nodes, needs, strict=True):
            if any(name in own and name not in ready for name in needed):
                _sort(nodes, needs, given, own)
                break
            ready.update(node.output)
        return {name for needed in needs for name in needed if name not in own}

    def _resolve_node(self, node: onnx.NodeProto, scopes: list[dict[str, str]]) -> set[str]:
        """Rename inputs and outputs, resolve the bodies. Returns all names that the node needs."""
        needed: set[str] = set()
        for index, name in enumerate(node.input):
            if name:
                node.input[index] = _look_up(name, scopes, node)
                needed.add(node.input[index])
        for index, name in enumerate(node.output):
            if name:
                node.output[index] = scopes[-1][name]
        for body in subgraphs(node):
            needed |= self.resolve_graph(body, scopes)
        return needed

    def _resolve_outputs(self, graph: onnx.GraphProto, scope: dict[str, str], outer: list[dict[str, str]]) -> set[str]:
        captured: set[str] = set()
        for value in graph.output:
            if value.name in scope:
                value.name = scope[value.name]
                continue
            source = next((names[value.name] for names in reversed(outer) if value.name in names), None)
            if source is None:
                where = f"output '{value.name}' of graph '{graph.name}'"
                raise ModelError("A graph output is never computed.", where=where, why="no node or input has that name")
            captured.add(source)
            value.name = self._fresh(value.name)
            graph.node.add(op_type="Identity", input=[source], output=[value.name])
        return captured


def _node_outputs(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return [name for node in nodes for name in node.output if name]


def _define_once(scope: dict[str, str], name: str, new: str, where: str) -> None:
    if name in scope:
        why = "ONNX values are assigned once: inputs, initializers and node outputs need different names"
        raise ModelError("A value is defined twice.", where=f"'{name}' in {where}", why=why)
    scope[name] = new


def _look_up(name: str, scopes: list[dict[str, str]], node: onnx.NodeProto) -> str:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    why = f"no input, initializer or node output is called '{name}'"
    raise ModelError("A node uses a value that does not exist.", where=describe_node(node), why=why)


def _sort(nodes: MutableSequence[onnx.NodeProto], needs: list[set[str]], given: set[str], own: set[str]) -> None:
    """Put the nodes in an order in which values exist before they are used, close to the order they had."""
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    sources = [{producer[name] for name in needed if name in own and name not in given} for needed in needs]
    users: dict[int, list[int]] = defaultdict(list)
    for index, before in enumerate(sources):
        for source in before:
            users[source].append(index)
    waiting = [len(before) for before in sources]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        cycle = _cycle(sources, waiting)
        shown = " <- ".join(describe_node(nodes[index]) for index in cycle[:_SHOWN])
        more = f" <- {len(cycle) - _SHOWN} more" if len(cycle) > _SHOWN else ""
        raise ModelError("The graph has a cycle.", where=shown + more, why="a node needs its own result")
    ordered = [onnx.NodeProto.FromString(nodes[index].SerializeToString()) for index in order]
    del nodes[:]
    nodes.extend(ordered)


def _cycle(sources: list[set[int]], waiting: list[int]) -> list[int]:
    """The nodes of one cycle, each followed by one that it needs."""
    index, path = next(i for i, count in enumerate(waiting) if count), dict[int, None]()
    while index not in path:
        path[index] = None
        index = next(source for source in sorted(sources[index]) if waiting[source])
    found = list(path)
    return found[found.index(index) :]
