"""Gradients while a function is traced: the rules write them into its graph, which knows sizes and shares nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.operand import Call, Operand
from onnxgrad.engine.graph.var import Var
from onnxgrad.grad.reverse import may_have_gradient, pull_back
from onnxgrad.grad.symbolic.walk import builder_for
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.tape import Backward, Grads, untracked
from onnxgrad.grad.tape.tensor import Tensor

General = Callable[[], Backward | None]
"""The gradient that a tape outside can differentiate in its turn."""


class TracedBackward:
    """The gradient of an operator that became these nodes of the graph."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[ir.Node],
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[ir.Value],
        general: General,
    ) -> None:
        """inputs: those that a gradient is wanted of; None for others."""
        self._graph, self._nodes, self._inputs, self._outputs = graph, nodes, inputs, outputs
        self._general = general
        self.input_has_grad = [value is not None and may_have_gradient(value) for value in inputs]
        self.reads_output_grad = [may_have_gradient(value) for value in outputs]

    def run(self, dys: Grads) -> Grads:
        """See Backward."""
        tracer = STATE.tracer
        if STATE.recorders or tracer is None:
            return self._run_general(dys)
        given = zip(self._outputs, dys, strict=True)
        cotangents = {value: tracer.value_of(dy).value for value, dy in given if dy is not None}
        wanted = [value for value, has in zip(self._inputs, self.input_has_grad, strict=True) if has]
        sought = [value for value in wanted if value is not None]
        found = pull_back(builder_for(self._graph), self._nodes, cotangents, sought)
        return [Tensor._of(Var(self._graph, found[value])) if value in found else None for value in sought]

    def _run_general(self, dys: Grads) -> Grads:
        backward = self._general()
        if backward is None:
            return [None for has in self.input_has_grad if has]
        read = [dy if reads else None for dy, reads in zip(dys, backward.reads_output_grad, strict=True)]
        found = iter(backward.run(read) if any(dy is not None for dy in read) else ())
        every = [next(found, None) if has else None for has in backward.input_has_grad]
        return [grad for grad, has in zip(every, self.input_has_grad, strict=True) if has]


def traced_backward(
    graph: Graph,
    nodes: Sequence[ir.Node],
    inputs: Sequence[ir.Value | None],
    requires: Sequence[bool],
    outputs: Sequence[ir.Value],
    general: General,
) -> TracedBackward | None:
    """The gradient of an operator in the graph, with respect to the inputs that `requires` marks.

    None where operands that are two tensors are one value of the graph, or where one is also computed by the nodes, for
    equal nodes are shared: the graph does not tell the two from each other.
    """
    wanted = [value if requires[index] else None for index, value in enumerate(inputs)]
    read = Counter(value for value in (*inputs, *outputs) if value is not None)
    if any(value is not None and read[value] > 1 for value in (*wanted, *outputs)):
        return None
    operands = {value for value in inputs if value is not None}
    if any(value in operands for node in nodes for value in node.outputs):
        return None
    return TracedBackward(graph, nodes, wanted, outputs, general)


def kept(call: Call, level: int) -> Call:
    """The call with tensors that a tape may keep."""
    inputs: tuple[Operand | object, ...] = tuple(
        untracked(value, level) if isinstance(value, Tensor) else value for value in call.inputs
    )
    return Call(call.op_type, inputs, call.attributes, call.outputs, call.domain)  # type: ignore[arg-type]
