"""`graph.compile`: from inputs and an outspec to a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.graph.compiled import GraphFunction
from onnxgrad.engine.graph.execution import Execution, Observation
from onnxgrad.engine.graph.lowering import Lowered, lower, needed
from onnxgrad.engine.graph.outputs import OutputReader
from onnxgrad.engine.graph.outspec import Outspec, Targets, read_outspec
from onnxgrad.engine.graph.shared_tensor import SharedTensor
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.optimize import optimize_for_inference as optimize
from onnxgrad.engine.runtime.assemble import SessionOptions

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


def compile_function(
    graph: Graph, inputs: Sequence[Var] | None, outspec: Outspec | Sequence[Outspec], optimize_for_inference: bool
) -> GraphFunction:
    """See Graph.compile."""
    targets = read_outspec(graph, outspec)
    vars = computed_vars(targets, graph)
    shown = _observed(graph, vars)
    values = [var.value for var in vars] + [value for _, outputs in shown for value in outputs]
    positions = {var: index for index, var in enumerate(vars)}
    callbacks = [(function, (positions[var],)) for var, function in targets.callbacks]
    lowered = lower(graph, values, callbacks=callbacks)
    if optimize_for_inference:
        lowered = optimized(lowered)
    names = iter(lowered.targets[len(vars) :])
    observation = Observation([(node, tuple(next(names) for _ in outputs)) for node, outputs in shown], graph.observers)
    reader = output_reader(targets, graph, dict(zip(vars, lowered.targets, strict=False)))
    execution = Execution(
        lowered, lambda: session_options(graph), tuple(reader.names.values()), observation=observation
    )
    outputs = [output.var for output in targets.outputs]
    return GraphFunction(graph, execution, inputs, outputs, reader, single=targets.single)


def session_options(graph: Graph) -> SessionOptions:
    """How functions of a graph are run."""
    del graph
    return SessionOptions(None, None, "all")


def computed_vars(targets: Targets, graph: Graph) -> tuple[Var, ...]:
    """What is to be computed: all but what is returned as memory that is there already."""
    borrowed = _borrowed(targets, graph)
    needed_anyway = {var for var, _ in targets.callbacks} | set(targets.effects)
    found = tuple(var for var in targets.vars if var not in borrowed or var in needed_anyway)
    return found or targets.vars


def output_reader(targets: Targets, graph: Graph, names: dict[Var, str]) -> OutputReader:
    """What takes the outputs of a function out of a run; `names`: the outputs of the model."""
    borrowed = {var: graph.sources[var.value] for var in _borrowed(targets, graph)}
    returned = {output.var: names[output.var] for output in targets.outputs if output.var not in borrowed}
    return OutputReader(returned, borrowed)


def _borrowed(targets: Targets, graph: Graph) -> set[Var]:
    copied = {output.var for output in targets.outputs if not output.borrow_mem}
    return {output.var for output in targets.outputs if output.var.value in graph.sources} - copied


def _observed(graph: Graph, vars: Sequence[Var]) -> list[tuple[ir.Node, tuple[ir.Value, ...]]]:
    """The nodes that observers of the graph are to see, with their outputs."""
    if not graph.observers:
        return []
    nodes, _ = needed([var.value for var in vars], graph.dependencies)
    return [(node, tuple(node.outputs)) for node in graph.ir if node in nodes and node.op_type != "Constant"]


def optimized(lowered: Lowered) -> Lowered:
    """With all passes, and the present values of fixed parameters as constants, unless the function updates them."""
    graph = lowered.model.graph
    sources = dict(lowered.sources)
    for name, source in lowered.sources.items():
        array = source.get() if isinstance(source, SharedTensor) and name not in lowered.updates else None
        if array is None:
            continue
        value = next(value for value in graph.inputs if value.name == name)
        graph.inputs.remove(value)
        value.const_value = ir.tensor(array, dtype=value.dtype, name=name)
        graph.register_initializer(value)
        del sources[name]
    return replace(lowered, model=optimize(lowered.model), sources=sources)
