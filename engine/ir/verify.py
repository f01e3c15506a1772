"""Invariants of a model in memory. Tests call `verify` after every transformation."""

from collections import defaultdict
from collections.abc import Iterable

import onnx_ir as ir

from onnxgrad.engine.errors import VerificationError
from onnxgrad.engine.ir.functions import DOMAIN, functions_of
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.ir.nesting import check_depth
from onnxgrad.engine.ir.virtual_operators import is_virtual


def verify(model: ir.Model) -> None:
    """Check, in one walk:

    - a value is defined before it is used, in its graph or in one around it, and only once;
    - names of values are unique in their graph and hide none of the graphs around it; names of nodes are unique;
    - outputs are produced in their own graph; the model's own inputs and outputs have types;
    - producers and uses point at nodes that are in the model, and back;
    - an initializer has a tensor of its dtype and shape;
    - every domain in use is imported, every function that is called exists.

    Raises: VerificationError, that names the node or value; ModelError where graphs are nested too deep.
    """
    functions = {**functions_of(model.graph), **model.functions}
    for body in (model.graph, *functions.values()):
        check_depth(body)
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.type is None:
            raise VerificationError("An input or output of the model has no type.", where=_describe(value))
    _Walk(model.graph.opset_imports, functions).check(model.graph)
    for function in functions.values():
        if function.graph.initializers:
            raise VerificationError("A function has initializers.", where=f"function '{function.name}'")
        _Walk(function.opset_imports, functions).check(function.graph)


class _Walk:
    """The state of a walk over one graph and its bodies."""

    def __init__(self, opsets: dict[str, int], functions: Iterable[tuple[str, str, str]]) -> None:
        self._opsets = opsets
        self._functions = functions
        self._visible: set[ir.Value] = set()
        self._names: dict[str, ir.Value] = {}
        self._nodes: set[ir.Node] = set()
        self._used: defaultdict[ir.Value, set[tuple[ir.Node, int]]] = defaultdict(set)
        self._node_names: set[str] = set()
        self._values: list[ir.Value] = []

    def check(self, graph: ir.Graph) -> None:
        """Walk the graph, then see that no value is used by a node that the walk did not meet."""
        self._check_graph(graph)
        for value in self._values:
            recorded = {(user, index) for user, index in value.uses()}
            if missing := self._used[value] - recorded:
                raise VerificationError("A value does not know a use.", where=_describe_node(missing.pop()[0]))
            for user, index in recorded:
                if user not in self._nodes:
                    where = f"{_describe(value)}, used as input {index} of '{user.name}' ({user.op_type})"
                    why = "the node was removed from its graph, but it still holds its inputs"
                    raise VerificationError("A value is used by a node that is not in the model.", where=where, why=why)

    def _check_graph(self, graph: ir.Graph) -> None:
        begin = len(self._values)
        for value in dict.fromkeys((*graph.inputs, *graph.initializers.values())):
            if value.producer() is not None:
                raise VerificationError("A graph input or initializer is made by a node.", where=_describe(value))
            self._define(value)
        for key, value in graph.initializers.items():
            _check_initializer(key, value)
        for node in graph:
            self._check_node(graph, node)
        own = self._values[begin:]
        local = set(own)
        for value in graph.outputs:
            if value not in local:
                where = f"{_describe(value)}, output of graph '{graph.name}'"
                raise VerificationError("A graph output is not produced in its graph.", where=where)
        for value in own:
            self._visible.discard(value)
            self._names.pop(value.name or "", None)

    def _check_node(self, graph: ir.Graph, node: ir.Node) -> None:
        if node.graph is not graph:
            raise VerificationError("A node does not know the graph that it is in.", where=_describe_node(node))
        if node.name and node.name in self._node_names:
            raise VerificationError("Two nodes have the same name.", where=_describe_node(node))
        self._node_names.add(node.name or "")
        self._nodes.add(node)
        self._check_operator(node)
        for index, operand in enumerate(node.inputs):
            if operand is None:
                continue
            if operand not in self._visible:
                where = f"input {index} ({_describe(operand)}) of {_describe_node(node)}"
                why = "its definition comes later, is in another branch, or is not in the model"
                raise VerificationError("A value is used where it is not defined.", where=where, why=why)
            self._used[operand].add((node, index))
        for body in bodies(node):
            self._check_graph(body)
        for index, output in enumerate(node.outputs):
            if output.producer() is not node or output.index() != index:
                raise VerificationError("An output does not know its node.", where=_describe_node(node))
            if output.name != "" or output.uses():
                self._define(output)

    def _check_operator(self, node: ir.Node) -> None:
        if node.domain not in self._opsets:
            fix = f"add '{node.domain}' to opset_imports"
            raise VerificationError("The domain of a node is not imported.", where=_describe_node(node), fix=fix)
        if node.domain == DOMAIN and node.op_identifier() not in self._functions and not is_virtual(node):
            raise VerificationError("A node calls a function that does not exist.", where=_describe_node(node))

    def _define(self, value: ir.Value) -> None:
        if not value.name:
            raise VerificationError("A value has no name.", where=_describe(value))
        if value.name in self._names:
            other = self._names[value.name]
            raise VerificationError(
                "Two values have the same name.", where=f"{_describe(value)} and {_describe(other)}"
            )
        self._names[value.name] = value
        self._visible.add(value)
        self._values.append(value)


def _check_initializer(key: str, value: ir.Value) -> None:
    tensor = value.const_value
    if tensor is None:
        raise VerificationError("An initializer has no tensor.", where=_describe(value))
    if key != value.name:
        raise VerificationError("An initializer is kept under another name.", where=f"'{key}': {_describe(value)}")
    if value.dtype is not None and value.dtype != tensor.dtype:
        why = f"its tensor is {tensor.dtype.name.lower()}"
        raise VerificationError("An initializer has another dtype than its tensor.", where=_describe(value), why=why)
    if value.shape is not None:
        sizes, actual = list(value.shape), list(tensor.shape.numpy())
        fits = len(sizes) == len(actual)
        if not fits or any(isinstance(a, int) and a != b for a, b in zip(sizes, actual, strict=True)):
            why = f"its tensor has shape {actual}"
            raise VerificationError(
                "An initializer has another shape than its tensor.", where=_describe(value), why=why
            )


def _describe(value: ir.Value) -> str:
    """'x: float[N, 3]', or as much of that as is known."""
    dtype = "?" if value.dtype is None else value.dtype.name.lower()
    dims = "?" if value.shape is None else ", ".join(str(dim) for dim in value.shape)
    producer = value.producer()
    maker = "" if producer is None else f" made by '{producer.name}' ({producer.op_type})"
    return f"{value.name!r}: {dtype}[{dims}]{maker}"


def _describe_node(node: ir.Node) -> str:
    inputs = ", ".join("-" if value is None else str(value.name) for value in node.inputs)
    outputs = ", ".join(str(value.name) for value in node.outputs)
    return f"{node.domain or 'ai.onnx'}::{node.op_type} '{node.name}' ({outputs} = {node.op_type}({inputs}))"
