"""Sub-graphs in a gradient: copies of bodies that run again, builders that write into them, what they return."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.bodies import add_input, add_output, body_builder
from onnxgrad.engine.ir.builder import Builder, describe
from onnxgrad.engine.ir.conditions import known_condition
from onnxgrad.engine.ir.names import Names
from onnxgrad.grad.registry import GradientBuilder

RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)


@dataclass(frozen=True)
class Replay:
    """A copy of a body, to run again in the backward pass, with the builder that writes its gradient behind it.

    inputs, outputs: the copies of the body's inputs and outputs, in order; the graph has none until they are chosen.
    """

    op: GradientBuilder
    inputs: list[ir.Value]
    outputs: list[ir.Value]

    def pull_back(
        self, cotangents: Iterable[tuple[ir.Value, ir.Value]], wrt: Collection[ir.Value]
    ) -> dict[ir.Value, ir.Value]:
        """The gradients of `wrt` from pairs (output, its gradient); one output may come several times."""
        summed: dict[ir.Value, ir.Value] = {}
        for value, grad in cotangents:
            summed[value] = add(self.op, summed[value], grad) if value in summed else grad
        return self.op.pull_back(self.op, list(self.op.graph), summed, wrt)

    def finish(self) -> ir.Graph:
        """The graph, without nodes that its outputs do not need.

        Raises: GradientError if one that they need draws random numbers: run again, it draws others.
        """
        remove_dead(self.op.graph)
        for node in self.op.graph.all_nodes():
            trains = node.op_type == "Dropout" and len(node.inputs) > 2 and known_condition(node.inputs[2]) is not False
            if node.domain in ("", "ai.onnx") and (node.op_type in RANDOM or trains):
                raise GradientError(
                    f"the gradient needs the random numbers that {node.op_type} drew inside a sub-graph",
                    where=describe(node),
                    why="the backward pass runs the body of If, Loop and Scan again, and would draw others",
                    fix="draw the numbers outside of the body, and use them there",
                )
        return self.op.graph


def replay(op: GradientBuilder, body: ir.Graph, label: str) -> Replay:
    """Copy `body` under fresh names; values of outer graphs stay shared."""
    copy = body.clone(allow_outer_scope_values=True)
    _rename(copy, label, op.names)
    copy.name = label
    inputs, outputs = list(copy.inputs), list(copy.outputs)
    copy.inputs.clear()
    copy.outputs.clear()
    inner = GradientBuilder(copy, parent=op, share=True)
    inner.pull_back, inner.scope = op.pull_back, label
    return Replay(inner, inputs, outputs)


def remove_dead(
    graph: ir.Graph, kept: Collection[ir.Node | None] = (), needed: Iterable[ir.Value] = ()
) -> set[ir.Node]:
    """Take out the nodes whose outputs nobody uses, except `kept` ones and producers of `needed` values."""
    wanted, gone = set(needed), set()
    for node in reversed(list(graph)):
        if node not in kept and not any(v in wanted or v.uses() or v.is_graph_output() for v in node.outputs):
            take_out(node)
            gone.add(node)
    return gone


def take_out(node: ir.Node) -> None:
    """Remove a node whose outputs nobody uses from its graph; what its bodies use is used no more."""
    for inner in _below(node):
        for index in range(len(inner.inputs)):
            inner.replace_input_with(index, None)
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def is_sequence(value: ir.Value) -> bool:
    """Whether `value` is a sequence of tensors."""
    return isinstance(value.type, ir.SequenceType)


def add(op: Builder, *grads: ir.Value) -> ir.Value:
    """The sum of gradients of one value: of tensors, or of sequences, element by element."""
    if not is_sequence(grads[0]):
        return op.Add(*grads) if len(grads) == 2 else op.Sum(*grads)
    total = grads[0]
    for grad in grads[1:]:
        total = map_sequence(op, lambda inner, a, b: inner.Add(a, b), total, grad)
    return total


def zeros(op: Builder, value: ir.Value) -> ir.Value:
    """Zeros of the shape of `value`; for a sequence, a sequence of zeros of the shapes of its elements."""
    if not is_sequence(value):
        return op.zeros_like(value)
    return map_sequence(op, lambda inner, item: inner.zeros_like(item), value)


def map_sequence(
    op: Builder, each: Callable[..., ir.Value], *sequences: ir.Value, dtype: ir.DataType | None = None
) -> ir.Value:
    """The sequence of each(builder, *items) over sequences of equal length; dtype: of the results, if another one."""
    inner = body_builder(op, op.names.fresh_node(f"{op.scope}.each" if op.scope else "each"))
    kind = sequences[0].type
    assert isinstance(kind, ir.SequenceType)
    items = [add_input(inner, "item", kind.elem_type, sequence.shape) for sequence in sequences]
    add_output(inner, each(inner, *items))
    result = op.SequenceMap(*sequences, body=inner.graph)
    result.type = kind if dtype is None else ir.SequenceType(ir.TensorType(dtype))
    return result


def all_inputs(node: ir.Node) -> Iterator[ir.Value]:
    """The inputs of `node`, then the outer values that its sub-graphs capture."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from captured(attribute.as_graph())


def captured(graph: ir.Graph) -> dict[ir.Value, None]:
    """The values of outer graphs that `graph` uses, in order of use."""
    own = {*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)}
    used = [value for node in graph for value in all_inputs(node)]
    return dict.fromkeys(value for value in (*used, *graph.outputs) if value not in own)


def _below(node: ir.Node) -> list[ir.Node]:
    graphs: Sequence[ir.Graph] = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    return [inner for graph in graphs for inner in graph.all_nodes()]


def _rename(graph: ir.Graph, label: str, names: Names) -> None:
    for value in (*graph.inputs, *list(graph.initializers.values())):
        value.name = names.fresh(f"{label}.{value.name}")
    for node in graph:
        node.name = names.fresh_node(f"{label}.{node.name or node.op_type}")
        for output in node.outputs:
            if output.name:
                output.name = names.fresh(f"{label}.{output.name}")
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                _rename(attribute.as_graph(), label, names)
