"""Functions compiled from a graph: called with arrays, they return arrays, call back, and update parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import lower
from onnxgrad.engine.graph.outspec import Outspec, read_outspec
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.call_signature import CallSignature
from onnxgrad.engine.runtime.executor import Wiring, make_executor
from onnxgrad.engine.runtime.feeds import FeedReader
from onnxgrad.engine.runtime.source import read_source

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


class GraphFunction:
    """First version."""

    def __init__(self, graph: Graph, inputs: Sequence[Var] | None, outspec: Outspec | Sequence[Outspec]) -> None:
        self._targets = read_outspec(graph, outspec)
        vars = self._targets.vars
        self._lowered = lowered = lower(graph, [var.value for var in vars])
        by_var = dict(zip(vars, lowered.targets, strict=True))
        self._returned = [by_var[output.var] for output in self._targets.outputs]
        source = read_source(lowered.model)
        plan, _ = assemble(source, lowered.model, None, SessionOptions(None, None, "all"))
        self._updates = [(lowered.sources[name], output) for name, output in lowered.updates.items()]
        held = [name for name, found in lowered.sources.items() if not isinstance(found, HostTensor)]
        self._held = [lowered.sources[name] for name in held]
        arrays = tuple(dict.fromkeys(self._returned))
        wiring = Wiring(tuple(held), arrays, (), tuple(name for _, name in self._updates))
        self._executor = make_executor(plan, wiring)
        self._names = None if inputs is None else [var.name for var in inputs]
        ports = tuple(port for port in source.signature.inputs if port.name not in held)
        self._reader = FeedReader(CallSignature(ports, source.signature.outputs))

    def __call__(self, *args: object, **named: object) -> object:
        """Run."""
        if args:
            if self._names is None:
                raise GraphError("no positional arguments", fix="by name")
            named = dict(zip(self._names, args, strict=True))
        feeds = self._reader.read((), named)
        held = [source.ort_value for source in self._held]
        buffers = [source.spare() for source, _ in self._updates]
        values = self._executor.run(feeds, held, buffers)
        for (source, _), buffer in zip(self._updates, buffers, strict=True):
            source.commit(buffer)
        found = [values[name] for name in self._returned]
        return found[0] if self._targets.single else found
