"""Constant folding: what depends on constants only is computed now, where that does not make the file bigger."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.engine.ir.builder import is_float
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.passes.edit import remove_dead, replace_value
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.passes.queries import is_constant, quantizes_at_run_time, static_shape
from onnxgrad.engine.passes.scope import Evaluate, Scope

Array = npt.NDArray[np.generic]

_SMALL = 1024  # bytes: results up to this size are always worth it
_LARGEST = 1 << 28  # bytes: nothing larger is computed on the way
_REFUSED = "onnxgrad.not_folded"  # key in node.meta: it was tried
_KEPT = frozenset({"Constant", "DequantizeLinear"})
_FOLDED = frozenset(
    {
        *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.BOOL),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)


def fold_constants(scope: Scope) -> int:
    """Compute what depends on constants only, unless the result is larger than the constants that it makes unnecessary.

    Random nodes, nodes in training mode, DequantizeLinear and what is not a tensor of numbers are left alone.
    """
    if scope.evaluate is None:
        return 0
    exact = quantizes_at_run_time(scope.graphs())
    return sum(_Folding(scope, graph, exact).run() for graph in scope.graphs() if scope.opset(graph))


class _Folding:
    """One graph. exact: floats that are made of shapes are not computed, for the reason that simplify_shapes gives."""

    def __init__(self, scope: Scope, graph: ir.Graph, exact: bool) -> None:
        self._scope, self._graph, self._exact = scope, graph, exact
        self._nodes: dict[ir.Node, None] = {}
        self._spent: dict[ir.Value, int] = {}

    def run(self) -> int:
        """Choose nodes, compute the values that others read, put constants in their place."""
        for node in self._graph:
            if self._can_fold(node):
                self._nodes[node] = None
        while self._drop_what_does_not_pay():
            self._spent.clear()
        results = list(self._results(self._nodes))
        return sum(self._replace(value, array) for value, array in self._compute(results))

    def _drop_what_does_not_pay(self) -> bool:
        """Whether nodes were dropped: the constants that they need are no longer saved by others, then."""
        before = len(self._nodes)
        for node in reversed(list(self._nodes)):
            if not all(self._pays(output) for output in self._results([node])):
                del self._nodes[node]
        return len(self._nodes) < before

    def _can_fold(self, node: ir.Node) -> bool:
        if node.op_type in _KEPT or node.domain != "" or _REFUSED in node.meta or not node.inputs:
            return False
        for value in node.inputs:
            if value is not None and not is_constant(value) and value.producer() not in self._nodes:
                return False
        if not all(_is_foldable(output) for output in node.outputs if output.name):
            return False
        if self._exact and any(is_float(output) for output in node.outputs) and self._takes_shapes(node):
            return False
        return is_pure(node, self._scope.functions) and not any(True for _ in bodies(node))

    def _takes_shapes(self, node: ir.Node) -> bool:
        """Whether an operand is no constant of the file, but known to inference only."""
        makers = [None if value is None else value.producer() for value in node.inputs]
        return any(maker is not None and maker.op_type != "Constant" and maker not in self._nodes for maker in makers)

    def _results(self, nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
        """The outputs of these nodes that others than folded nodes read."""
        for node in nodes:
            for output in node.outputs:
                if output.is_graph_output() or any(user not in self._nodes for user, _ in output.uses()):
                    yield output

    def _pays(self, output: ir.Value) -> bool:
        """Whether a result is small, or no larger than what it makes unnecessary (and nothing else has used up)."""
        size = _bytes(output)
        if size <= _SMALL:
            return True
        freed = [(leaf, _bytes(leaf) - self._spent.get(leaf, 0)) for leaf in self._leaves([output])]
        if sum(left for _, left in freed) < size:
            return False
        for leaf, left in freed:
            taken = min(left, size)
            self._spent[leaf] = self._spent.get(leaf, 0) + taken
            size -= taken
        return True

    def _leaves(self, results: Iterable[ir.Value]) -> Iterator[ir.Value]:
        """The constants that only folded nodes read, below these results."""
        for value in _inputs_of(self._ancestors(results)):
            is_leaf = value.producer() not in self._nodes and not value.is_graph_output()
            if is_leaf and all(user in self._nodes for user, _ in value.uses()):
                yield value

    def _ancestors(self, results: Iterable[ir.Value]) -> dict[ir.Node, None]:
        """The folded nodes that these values depend on, in the order of the graph."""
        pending: list[ir.Value | None] = list(results)
        found: set[ir.Node] = set()
        while pending:
            value = pending.pop()
            node = None if value is None else value.producer()
            if node is None or node in found or node not in self._nodes:
                continue
            found.add(node)
            pending.extend(node.inputs)
        return dict.fromkeys(node for node in self._nodes if node in found)

    def _compute(self, results: list[ir.Value]) -> list[tuple[ir.Value, Array]]:
        """All results at once; one by one where that fails, without those that fail."""
        if not results:
            return []
        evaluate = self._scope.evaluate
        assert evaluate is not None
        try:
            return self._evaluate(results, evaluate)
        except OnnxGradError:
            found = []
            for value in results:
                try:
                    found.extend(self._evaluate([value], evaluate))
                except OnnxGradError:  # what fails now must fail, or not, where the model runs
                    _refuse(value)
            return found

    def _evaluate(self, results: list[ir.Value], evaluate: Evaluate) -> list[tuple[ir.Value, Array]]:
        model, outputs = _constant_model(self._scope, self._graph, self._ancestors(results), results)
        arrays = evaluate(model)
        return [(value, arrays[output.name or ""]) for value, output in zip(results, outputs, strict=True)]

    def _replace(self, value: ir.Value, array: Array) -> int:
        node = value.producer()
        assert node is not None
        if _bytes(value) == 0 and array.nbytes > _SMALL:  # the size is known only now
            freed = sum(_bytes(leaf) - self._spent.get(leaf, 0) for leaf in self._leaves([value]))
            if array.nbytes > freed:
                _refuse(value)
                return 0
        constant = self._scope.builder(self._graph, before=node).constant(array)
        assert constant.dtype == value.dtype
        replace_value(self._scope, value, constant, fresh=True)
        remove_dead([node])
        return 1


def _is_foldable(output: ir.Value) -> bool:
    return isinstance(output.type, ir.TensorType) and output.dtype in _FOLDED and _bytes(output) <= _LARGEST


def _refuse(value: ir.Value) -> None:
    node = value.producer()
    assert node is not None
    node.meta[_REFUSED] = True


def _bytes(value: ir.Value) -> int:
    """The size of a value; 0 where it is not known."""
    if value.const_value is not None:
        return value.const_value.nbytes
    shape = static_shape(value)
    if shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        return 0
    return int(np.prod(shape, dtype=np.int64) * value.dtype.itemsize)


def _inputs_of(nodes: Iterable[ir.Node]) -> dict[ir.Value, None]:
    return dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)


def _constant_model(
    scope: Scope, graph: ir.Graph, nodes: dict[ir.Node, None], results: list[ir.Value]
) -> tuple[ir.Model, list[ir.Value]]:
    """A model of these nodes, without inputs; and its values for `results`."""
    copies: dict[ir.Value, ir.Value] = {}
    initializers: list[ir.Value] = []
    for value in _inputs_of(nodes):
        if value.producer() not in nodes:
            tensor = value.const_value or ir.convenience.get_const_tensor(value)
            assert tensor is not None
            if isinstance(tensor, ir.ExternalTensor):
                tensor = ir.Tensor(tensor.numpy(), dtype=tensor.dtype)
            leaf = ir.Value(name=f"c{len(initializers)}", type=ir.TensorType(tensor.dtype), const_value=tensor)
            leaf.shape = ir.Shape(tensor.shape.numpy())
            copies[value] = leaf
            initializers.append(leaf)
    made: list[ir.Node] = []
    for node in nodes:
        inputs = [None if value is None else copies[value] for value in node.inputs]
        attributes = list(node.attributes.values())
        copy = ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs))
        for index, (old, new) in enumerate(zip(node.outputs, copy.outputs, strict=True)):
            new.name = f"v{len(made)}_{index}" if old.name else ""
            new.type, new.shape = old.type, old.shape
            copies[old] = new
        made.append(copy)
    outputs = [copies[value] for value in results]
    opsets = {"": scope.opset(graph)}
    inner = ir.Graph([], outputs, nodes=made, initializers=initializers, opset_imports=opsets, name="constants")
    return ir.Model(inner, ir_version=max(scope.model.ir_version, 4)), outputs
