"""Functions of one graph that run in turn, each going on from what those before it have computed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.compiled import GraphFunction
from onnxgrad.engine.graph.compiling import Result, callback_positions, output_reader, read_vars, session_options
from onnxgrad.engine.graph.execution import Execution
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import Copy, lower, needed, with_gradients
from onnxgrad.engine.graph.optimization import after_gradients, before_gradients, finish
from onnxgrad.engine.graph.outspec import Outspec, Targets, read_outspec
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.graph.worker import Worker
from onnxgrad.engine.runtime.call_signature import Feed

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph

Part: TypeAlias = "tuple[Sequence[Var] | None, Outspec | Sequence[Outspec]]"


def compile_parts(graph: Graph, parts: Sequence[Part]) -> list[GraphFunction[Result]]:
    """See Graph.compile_multi_part."""
    if not parts:
        raise GraphError("there are no parts to compile", fix="[(inputs, outspec), ...]")
    targets = [read_outspec(graph, outspec) for _, outspec in parts]
    reads = [read_vars(part, graph) for part in targets]
    wanted = [[*(var.value for var in vars), *_effects(part)] for vars, part in zip(reads, targets, strict=True)]
    every = [value for values in wanted for value in values]
    whole = before_gradients(graph.options, lambda forward: with_gradients(graph, every, forward))
    found = iter(whole.values)
    wanted = [[next(found) for _ in values] for values in wanted]
    cuts = _cut(whole, wanted, [{var.name for var in inputs or ()} for inputs, _ in parts])
    turns = _Turns(len(parts), {key: part for part, cut in enumerate(cuts) for key in map(_name, cut.given)})
    functions: list[GraphFunction[Result]] = []
    for index, (inputs, _) in enumerate(parts):
        piece = _Piece(index, targets[index], reads[index], wanted[index], cuts[index])
        functions.append(_compile_part(graph, whole, piece, inputs, turns))
    return functions


def _effects(targets: Targets) -> list[ir.Value]:
    return [var.value for var in targets.effects]


@dataclass
class _Cut:
    """What a part reads of the parts before it, and what it computes for those behind it."""

    given: list[ir.Value]
    left: list[ir.Value] = field(default_factory=list)


@dataclass
class _Piece:
    index: int
    targets: Targets
    vars: Sequence[Var]
    wanted: Sequence[ir.Value]
    cut: _Cut


def _cut(whole: Copy, wanted: Sequence[Sequence[ir.Value]], listed: Sequence[Collection[str]]) -> list[_Cut]:
    """Every value is computed by the first part that needs it, every input given to the first part that reads it.

    Of a value whose shape alone is read later, only the shape is handed on. `listed`: the inputs that a part names, and
    so is given itself.
    """
    made: dict[ir.Value, int] = {}
    read: dict[ir.Value, int] = {}
    cuts: list[_Cut] = []
    for part, values in enumerate(wanted):
        known = made | {value: before for value, before in read.items() if value.name not in listed[part]}
        nodes, seen = needed(values, whole.dependencies, known)
        while shapes := [node for node in nodes if _asks_shape(node, known)]:
            asked = {node.outputs[0]: known[node.inputs[0]] for node in shapes}  # type: ignore[index]  # not None
            made.update(asked)
            known.update(asked)
            nodes, seen = needed(values, whole.dependencies, known)
        cuts.append(_Cut([value for value in known if value in seen]))
        for value in cuts[-1].given:
            if value not in (left := cuts[known[value]].left):
                left.append(value)
        ordered = [node for node in whole.ir if node in nodes and node.op_type != "Constant"]
        made.update((output, part) for node in ordered for output in node.outputs)
        inputs = [value for value, source in whole.sources.items() if isinstance(source, HostTensor)]
        read.update((value, part) for value in inputs if value in seen and value not in read)
    return cuts


def _asks_shape(node: ir.Node, made: Collection[ir.Value]) -> bool:
    return node.op_type == "Shape" and not node.domain and node.inputs[0] in made


def _compile_part(
    graph: Graph, whole: Copy, piece: _Piece, inputs: Sequence[Var] | None, turns: _Turns
) -> GraphFunction[Result]:
    read = piece.wanted[: len(piece.vars)]
    effects = piece.wanted[len(piece.vars) :]
    callbacks = callback_positions(piece.targets, piece.vars)
    cut = piece.cut
    lowered = lower(whole, [*read, *cut.left], effects=effects, given=cut.given, callbacks=callbacks)
    lowered = after_gradients(graph.options, lowered)
    tuning = finish(lowered, graph.options)
    names = lowered.targets
    left = dict(zip(map(_name, cut.left), names[len(read) :], strict=True))
    reader = output_reader(piece.targets, graph, dict(zip(piece.vars, names, strict=False)))
    execution = Execution(
        lowered,
        lambda: session_options(graph, tuning),
        tuple(reader.names.values()),
        tuple(left.values()),
        worker=turns.worker,
        guard=turns.guard,
    )
    outputs = [output.var for output in piece.targets.outputs]
    stage = _PartStage(turns, piece.index, tuple(map(_name, cut.given)), left)
    return GraphFunction(graph, execution, inputs, outputs, reader, single=piece.targets.single, stage=stage)


def _name(value: ir.Value) -> str:
    return value.name or ""


class _Turns:
    """Whose turn it is, and the values that wait for the parts that read them. All parts run in one thread at a time.

    `last_reader`: the part after which a value is of no use.
    """

    def __init__(self, count: int, last_reader: Mapping[str, int]) -> None:
        self.worker, self.guard = Worker("onnxgrad parts"), threading.Lock()
        self.last_reader = dict(last_reader)
        self.values: dict[str, Feed] = {}
        self.lock = threading.Lock()
        self._count, self._next, self._round = count, 0, 0

    def admit(self, part: int) -> int:
        """Begin a part; part 0 at any time, the others in their order. Raises: GraphError out of turn."""
        if part == 0:
            self.worker.drain()
        with self.lock:
            expected = self._next % self._count
            if part == 0:
                self.values.clear()
                self._round += 1
            elif part != expected:
                raise GraphError(
                    f"expected to execute part {expected}, actual part is {part}",
                    fix="call the parts in their order; part 0 may be called at any time",
                )
            self._next = part + 1
            return self._round

    def fail(self, part: int, turn: int) -> None:
        """Let a part be called again that failed."""
        with self.lock:
            if turn == self._round:
                self._next = min(self._next, part)


@dataclass(frozen=True)
class _PartStage:
    """See compiled.Stage. `left`: the values that later parts read, with the output that gives each."""

    turns: _Turns
    index: int
    given: tuple[str, ...]
    left: Mapping[str, str]

    def admit(self) -> int:
        return self.turns.admit(self.index)

    def values(self, turn: int) -> dict[str, Feed]:
        del turn
        with self.turns.lock:
            missing = [name for name in self.given if name not in self.turns.values]
            if missing:
                raise GraphError(
                    f"part {self.index} cannot run: {missing[0]!r} is not there", why="the part that computes it failed"
                )
            return {name: self.turns.values[name] for name in self.given}

    def leave(self, turn: int, values: Mapping[str, Feed] | None) -> None:
        if values is None:
            self.turns.fail(self.index, turn)
            return
        with self.turns.lock:
            self.turns.values.update((key, values[output]) for key, output in self.left.items())
            for key in self.given:
                if self.turns.last_reader[key] == self.index:
                    self.turns.values.pop(key, None)
