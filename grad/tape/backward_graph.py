"""Backward graphs: the gradient of one operator as a graph that reads no more than it needs.

A graph is made once for an operator with these attributes, types and ranks, and is used for tensors of all shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError, GradientRuleMissing, InputError
from onnxgrad.engine.ir.builder import is_float
from onnxgrad.grad.registry import GradientBuilder
from onnxgrad.grad.reverse import gradients
from onnxgrad.grad.subgraphs import remove_dead
from onnxgrad.grad.tape.one_node import Composite, OneNode, Spec, one_node

_QUERIES = ("Shape", "Size")
"""Operators that read only the shape of their input: they run right after the forward operator."""


@dataclass(frozen=True)
class ShapeQuery:
    """What the backward graph wants to know of the shape of one of (inputs..., outputs...)."""

    op_type: str
    place: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, eq=False)
class BackwardGraph:
    """The gradient of an operator.

    body: None where no node is needed; its inputs are the results of `queries`, then what `save` marks among
    (inputs..., outputs..., gradients of outputs...). input_has_grad: which inputs get a gradient, in the order of
    inputs. results: for each of these the output of `body`, or of gradient k where it is that itself as -1 - k.
    """

    body: Composite | None
    queries: tuple[ShapeQuery, ...]
    save: tuple[bool, ...]
    input_has_grad: tuple[bool, ...]
    results: tuple[int, ...]

    def reads_gradient(self, output: int) -> bool:
        """Whether the gradient of this output matters."""
        count = (len(self.save) - len(self.input_has_grad)) // 2
        return self.save[len(self.input_has_grad) + count + output]


@dataclass(frozen=True)
class Operator:
    """What a backward graph is made for. outputs: type and rank of each, or sizes where they are known to agree."""

    op_type: str
    domain: str
    attributes: Mapping[str, object]
    inputs: tuple[Spec | None, ...]
    outputs: tuple[Spec, ...]


def make_backward_graph(
    operator: Operator, requires_grad: Sequence[bool], has_grad: Sequence[bool] | None = None
) -> BackwardGraph | None:
    """The graph that computes the gradients of those inputs; None where there is nothing to compute.

    has_grad: which outputs have a gradient; all by default. Inputs that have no gradient although they require one
    (integers, choices) are marked in `input_has_grad`.

    Raises: GradientRuleMissing where an operator on the way has no rule; InputError for masks of a wrong length.
    """
    if len(requires_grad) != len(operator.inputs):
        raise InputError(f"{len(operator.inputs)} inputs need as many marks, not {len(requires_grad)}")
    if has_grad is not None and len(has_grad) != len(operator.outputs):
        raise InputError(f"{len(operator.outputs)} outputs need as many marks, not {len(has_grad)}")
    marks = [True] * len(operator.outputs) if has_grad is None else list(has_grad)
    floats = [mark and spec.kind.is_floating_point() for mark, spec in zip(marks, operator.outputs, strict=True)]
    if not any(floats) or not any(requires_grad):
        return None
    try:
        return _Maker(operator, requires_grad, floats).make()
    except GradientRuleMissing:
        raise
    except GradientError:
        if has_grad is not None or not floats[0] or sum(floats) == 1:
            raise
    # Some operators have no gradient through their later outputs, which most programs do not use.
    return make_backward_graph(operator, requires_grad, [True] + [False] * (len(floats) - 1))


class _Maker:
    """The making of one backward graph."""

    def __init__(self, operator: Operator, requires_grad: Sequence[bool], has_grad: Sequence[bool]) -> None:
        self._forward = _forward_graph(operator)
        self._graph, self._op = self._forward.graph, self._forward.op
        self._requires = [
            value if wanted and value is not None and value.producer() is None and is_float(value) else None
            for value, wanted in zip(self._forward.inputs, requires_grad, strict=True)
        ]
        self._has_grad = has_grad

    def make(self) -> BackwardGraph | None:
        graph = self._graph
        wrt = list(dict.fromkeys(value for value in self._requires if value is not None))
        seeds = [
            self._seed(i, v) if mark else None
            for i, (v, mark) in enumerate(zip(graph.outputs, self._has_grad, strict=True))
        ]
        targets = [value for value, seed in zip(graph.outputs, seeds, strict=True) if seed is not None]
        found = (
            dict(zip(wrt, gradients(targets, wrt, [seed for seed in seeds if seed is not None]), strict=True))
            if wrt
            else {}
        )
        grads = [None if value is None else found.get(value) for value in self._requires]
        if not any(grad is not None for grad in grads):
            return None
        self._op = GradientBuilder(graph, share=True)
        saved = [self._read_from_outside(value) for value in list(graph.outputs)]
        results = self._settle(grads, seeds)
        places: list[ir.Value | None] = [*self._forward.inputs, *saved, *seeds]
        queries = self._split(places[: len(self._forward.inputs) + len(saved)])
        used = {value for value in graph.inputs if value.uses() or value.is_graph_output()}
        save = tuple(value in used or any(value is seeds[-1 - k] for k in results if k < 0) for value in places)
        kept = [value for value in places if value is not None and value in used]
        body = self._body([value for _, value in queries], kept)
        has = tuple(grad is not None for grad in grads)
        return BackwardGraph(body, tuple(query for query, _ in queries), save, has, tuple(results))

    def _seed(self, index: int, output: ir.Value) -> ir.Value:
        shape = None if output.shape is None else output.shape.copy()
        value = ir.Value(name=self._op.names.fresh(f"dy{index}"), type=output.type, shape=shape)
        self._graph.inputs.append(value)
        return value

    def _read_from_outside(self, output: ir.Value) -> ir.Value:
        """An input of the graph in the place of an output of the operator."""
        value = ir.Value(name=self._op.names.fresh(f"{output.name}.saved"), type=output.type, shape=output.shape)
        self._graph.inputs.append(value)
        for node, index in tuple(output.uses()):
            node.replace_input_with(index, value)
        return value

    def _settle(self, grads: Sequence[ir.Value | None], seeds: Sequence[ir.Value | None]) -> list[int]:
        """Make the gradients the outputs of the graph, each once; returns where each is."""
        self._graph.outputs.clear()
        places: dict[ir.Value, int] = {}
        for value in [grad for grad in grads if grad is not None]:
            if value in places:
                continue
            if value in seeds:
                places[value] = -1 - seeds.index(value)
                continue
            places[value] = len(self._graph.outputs)
            self._graph.outputs.append(value if value.producer() is not None else self._op.Identity(value))
        remove_dead(self._graph)
        return [places[grad] for grad in grads if grad is not None]

    def _split(self, places: Sequence[ir.Value | None]) -> list[tuple[ShapeQuery, ir.Value]]:
        """Take out the queries of shapes of values of which nothing else is read; each becomes an input."""
        queries: list[tuple[ShapeQuery, ir.Value]] = []
        if len(self._graph) <= 1:
            return queries
        for place, value in enumerate(places):
            users = [] if value is None else [node for node, _ in value.uses()]
            if value is None or value.is_graph_output() or not all(_is_query(node, self._graph) for node in users):
                continue
            for node in dict.fromkeys(users):
                queries.append((_query(node, place), self._read_from_outside(node.outputs[0])))
        remove_dead(self._graph)
        return queries

    def _body(self, asked: Sequence[ir.Value], kept: Sequence[ir.Value]) -> Composite | None:
        graph = self._graph
        if not graph.outputs:
            return None
        graph.inputs.clear()
        graph.inputs.extend([*asked, *kept])
        return Composite(f"{graph.name}.grad", graph)


def _forward_graph(operator: Operator) -> OneNode:
    made = one_node(operator.op_type, operator.domain, operator.attributes, len(operator.outputs), operator.inputs)
    for value, spec in zip(made.graph.outputs, operator.outputs, strict=True):
        value.type = value.type or ir.TensorType(spec.kind)
        if spec.dims is not None and (value.shape is None or not _agrees(value.shape, spec)):
            value.shape = ir.Shape([dim if isinstance(dim, int) else ir.SymbolicDim(dim) for dim in spec.dims])
            made.op.context.name_anonymous_dims(value)
    return made


def _agrees(shape: ir.Shape, spec: Spec) -> bool:
    """Whether what was inferred says all that is known from the outputs themselves."""
    assert spec.dims is not None
    return len(shape) == len(spec.dims) and all(dim is None for dim in spec.dims)


def _is_query(node: ir.Node, graph: ir.Graph) -> bool:
    return node.op_type in _QUERIES and node.domain == "" and node.graph is graph


def _query(node: ir.Node, place: int) -> ShapeQuery:
    return ShapeQuery(node.op_type, place, node.attributes.get_int("start", 0), node.attributes.get_int("end", None))
