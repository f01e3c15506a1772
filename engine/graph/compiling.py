"""`graph.compile`: from inputs and an outspec to a function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnxgrad.engine.graph.callback import CallbackFunction
from onnxgrad.engine.graph.compiled import GraphFunction
from onnxgrad.engine.graph.execution import Execution, Observation
from onnxgrad.engine.graph.lowering import Lowered, lower, needed
from onnxgrad.engine.graph.optimization import (
    after_gradients,
    before_gradients,
    finish,
    first_run,
    for_inference,
    level_of,
    providers_of,
    tuning_of,
    warm_up,
)
from onnxgrad.engine.graph.options import GraphOptions
from onnxgrad.engine.graph.outputs import OutputReader
from onnxgrad.engine.graph.outspec import Outspec, Targets, read_outspec
from onnxgrad.engine.graph.shared_tensor import SharedTensor
from onnxgrad.engine.graph.update import storage_of
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.assemble import SessionOptions
from onnxgrad.engine.runtime.session import Tuning
from onnxgrad.engine.runtime.values import Array

Result: TypeAlias = Array | list[Array]

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


def compile_function(
    graph: Graph, inputs: Sequence[Var] | None, outspec: Outspec | Sequence[Outspec], optimize_for_inference: bool
) -> GraphFunction[Result]:
    """See Graph.compile."""
    targets = read_outspec(graph, outspec)
    vars = read_vars(targets, graph)
    effects = [var.value for var in targets.effects]
    shown = _observed(graph, [*(var.value for var in vars), *effects])
    values = [var.value for var in vars] + [value for _, outputs in shown for value in outputs]
    callbacks, options = callback_positions(targets, vars), graph.options
    lowered = before_gradients(
        options, lambda forward: lower(graph, values, effects=effects, callbacks=callbacks, forward=forward)
    )
    lowered = after_gradients(options, lowered)
    if optimize_for_inference:
        lowered = optimized(lowered, options)
    tuning = finish(lowered, options)
    names = iter(lowered.targets[len(vars) :])
    observation = Observation([(node, tuple(next(names) for _ in outputs)) for node, outputs in shown], graph.observers)
    reader = output_reader(targets, graph, dict(zip(vars, lowered.targets, strict=False)))
    execution = Execution(
        lowered,
        lambda: session_options(graph, tuning),
        tuple(reader.names.values()),
        observation=observation,
        first_run=first_run(options, lowered, lambda: lower(graph, values, effects=effects, callbacks=callbacks)),
    )
    if options.allocate_static_mem_after_graph_compile:
        warm_up(execution)
    outputs = [output.var for output in targets.outputs]
    return GraphFunction(graph, execution, inputs, outputs, reader, single=targets.single)


def session_options(graph: Graph, tuning: Tuning | None = None) -> SessionOptions:
    """How functions of a graph are run."""
    options = graph.options
    tuning = tuning or tuning_of(options)
    return SessionOptions(providers_of(options), None, level_of(options), shared_arena=True, tuning=tuning)


def read_vars(targets: Targets, graph: Graph) -> tuple[Var, ...]:
    """The variables whose values are returned or called back with, but for those that are there without a run."""
    called = [var for var, _ in targets.callbacks]
    borrowed = _borrowed(targets, graph).difference(called)
    read = [*(output.var for output in targets.outputs), *called]
    found = tuple(dict.fromkeys(var for var in read if var not in borrowed))
    return found if found or targets.effects else tuple(dict.fromkeys(read))


def callback_positions(targets: Targets, vars: Sequence[Var]) -> list[tuple[CallbackFunction, tuple[int]]]:
    """The callbacks with the positions of their variables among `vars`."""
    positions = {var: index for index, var in enumerate(vars)}
    return [(function, (positions[var],)) for var, function in targets.callbacks]


def output_reader(targets: Targets, graph: Graph, names: dict[Var, str]) -> OutputReader:
    """What takes the outputs of a function out of a run; `names`: the outputs of the model."""
    borrowed = {var: graph.sources[var.value] for var in _borrowed(targets, graph)}
    returned = {output.var: names[output.var] for output in targets.outputs if output.var not in borrowed}
    return OutputReader(returned, borrowed)


def _borrowed(targets: Targets, graph: Graph) -> set[Var]:
    copied = {output.var for output in targets.outputs if not output.borrow_mem}
    return {output.var for output in targets.outputs if output.var.value in graph.sources} - copied


def _observed(graph: Graph, values: Sequence[ir.Value]) -> list[tuple[ir.Node, tuple[ir.Value, ...]]]:
    """The nodes that observers of the graph are to see, with their outputs."""
    if not graph.observers:
        return []
    nodes, _ = needed(values, graph.dependencies)
    return [(node, tuple(node.outputs)) for node in graph.ir if node in nodes and node.op_type != "Constant"]


def optimized(lowered: Lowered, options: GraphOptions) -> Lowered:
    """With all passes, and the present values of fixed parameters as constants, unless the function updates them."""
    graph = lowered.model.graph
    sources = dict(lowered.sources)
    updated = {storage_of(lowered.sources[name]) for name in lowered.updates}
    for name, source in lowered.sources.items():
        array = source.get() if isinstance(source, SharedTensor) and not _may_change(source, updated) else None
        if array is None:
            continue
        value = next(value for value in graph.inputs if value.name == name)
        graph.inputs.remove(value)
        value.const_value = ir.tensor(array, dtype=value.dtype, name=name)
        graph.register_initializer(value)
        del sources[name]
    return replace(lowered, model=for_inference(lowered.model, options), sources=sources)


def _may_change(tensor: SharedTensor, updated: Collection[object]) -> bool:
    """Whether a function that updates these storages may change a tensor: it, an alias, or memory that they share."""
    return tensor.storage in updated or (bool(updated) and tensor.storage.stays)
