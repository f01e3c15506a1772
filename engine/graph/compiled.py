"""Functions compiled from a graph: called with arrays, they return arrays, call back, and update parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar, cast

import numpy as np

from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.arguments import Arguments
from onnxgrad.engine.graph.dump import dump_model
from onnxgrad.engine.graph.execution import Execution
from onnxgrad.engine.graph.memory_plan import MemoryPlan, plan_memory
from onnxgrad.engine.graph.outputs import OutputReader, PendingRun
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.partition.report import Explanation
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.profile import Profile

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph

R = TypeVar("R")
Hook = Callable[[], object]


class Stage(Protocol):
    """The place of a function among others that run in turn."""

    def admit(self) -> int:
        """Take the turn; the number is that of the round. Raises: GraphError out of turn."""

    def values(self, turn: int) -> Mapping[str, Feed]:
        """The inputs that the functions before have computed. Raises: GraphError if one of them failed."""

    def leave(self, turn: int, values: Mapping[str, Feed] | None) -> None:
        """The end of the run; None for one that failed."""


class GraphFunction(Generic[R]):
    """A part of a graph that can be called: `f(x)` or `f(x=x)`. Made by `graph.compile`.

    A call returns the values of the outspec's copy_outputs: a list, or one value where the outspec is one copy_output.
    It returns when the run and its callbacks are over. `f.start(x)` returns at once: a PendingRun, which has the result
    after `f.wait()`. Runs of one function follow each other in the order of the calls; any number of functions of a
    graph may exist, and run at the same time.

    Raises (when called): InputError for inputs that do not fit; ExecutionError when a node fails: then nothing is
    updated. What callbacks raise is raised by the call, or by `wait`.
    """

    def __init__(
        self,
        graph: Graph,
        execution: Execution,
        inputs: Sequence[Var] | None,
        outputs: Sequence[Var],
        reader: OutputReader,
        *,
        single: bool = False,
        stage: Stage | None = None,
    ) -> None:
        self.graph = graph
        self._execution, self._stage = execution, stage
        by_name = {var.name: var for var in graph.inputs}
        host = {name: (by_name[name], source) for name, source in execution.host_inputs.items()}
        self._arguments = Arguments(host, execution.signature)
        self._arguments.order(inputs)
        self._available, self._outputs, self._reader = tuple(dict.fromkeys(outputs)), list(outputs), reader
        self._single, self._take = single, reader.taker(outputs)
        self._before: Hook | None = None
        self._after: Hook | None = None
        self._shapes: Mapping[str, tuple[int, ...]] = {}
        graph.functions.add(self)  # type: ignore[arg-type]  # whatever it returns
        weakref.finalize(self, execution.abandon)

    def __call__(self, *args: object, **named: object) -> R:
        """Run with these inputs. With the option fake_next_exec: take the memory for it, and return None."""
        feeds = self._arguments.read(args, named)
        execution = self._execution
        execution.refuse_recursion()
        if self.graph.options.fake_next_exec:
            return cast(R, self._take_memory(feeds))
        if self._before is not None:
            self._before()
        if not execution.worker.is_idle:
            execution.worker.drain()
        turn = 0 if self._stage is None else self._stage.admit()
        values = _run_once(execution, self._stage, turn, feeds)
        self._note_shapes(feeds)
        execution.wait()
        result = self._take(values, feeds)
        if self._after is not None:
            self._after()
        return cast(R, result[0] if self._single else result)

    def start(self, *args: object, **named: object) -> PendingRun[R]:
        """Start a run with these inputs, which are copied unless their HostTensor borrows, and do not wait for it.

        Raises: InputError for inputs that do not fit; what happens in the run is raised by `wait`.
        """
        feeds = self._arguments.read(args, named)
        execution, stage = self._execution, self._stage
        execution.refuse_recursion()
        if self._before is not None:
            self._before()
        owned = {name: self._own(name, value) for name, value in feeds.items()}
        turn = 0 if stage is None else stage.admit()
        self._note_shapes(feeds)
        pending: PendingRun[R] = PendingRun()
        take, single = self._take, self._single  # the task does not keep the function alive

        def task() -> None:
            try:
                values = _run_once(execution, stage, turn, owned)
                result = take(values, owned)
            except BaseException as error:
                pending.fail(error)
                raise
            pending.arrive(cast(R, result[0] if single else result))

        execution.worker.submit(task)
        if self._after is not None:
            self._after()
        return pending

    def wait(self) -> Self:
        """Return when all runs are over, and their callbacks. Raises: the first error of them, once."""
        self._execution.wait()
        return self

    @property
    def prev_exec_time(self) -> float:
        """Seconds that the last run took on the device, without callbacks; 0.0 before the first.

        Raises: GraphError while a run is under way.
        """
        if not self._execution.is_idle:
            raise GraphError("the time of a run is known when it is over", fix="wait() first")
        return self._execution.seconds

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The inputs that the function needs, also those of which it needs only the shape, in the order of positional
        arguments (of the graph, where it takes none). Set it to another order of the same, or None for names only.

        Raises (when set): InputError for an input that it does not need, GraphError for one that is missing.
        """
        return self._arguments.needed

    @inputs.setter
    def inputs(self, value: Sequence[Var] | None) -> None:
        """See above."""
        self._arguments.order(value)

    @property
    def available_outputs(self) -> tuple[Var, ...]:
        """The variables that were compiled as copy_outputs."""
        return self._available

    @property
    def outputs(self) -> list[Var] | Var:
        """What calls return: of `available_outputs` any, in any order, also twice; one that is in no list is returned
        in none. Raises (when set): OptionError for others.
        """
        return self._outputs[0] if self._single else list(self._outputs)

    @outputs.setter
    def outputs(self, value: Sequence[Var] | Var) -> None:
        """See above."""
        single = isinstance(value, Var)
        chosen = [value] if isinstance(value, Var) else list(value)
        for var in chosen:
            if var not in self._available:
                known = ", ".join(other.name for other in self._available) or "nothing"
                raise OptionError(f"{var!r} was not compiled as an output", fix=f"og.copy_output; there is {known}")
        self._outputs, self._single, self._take = chosen, single, self._reader.taker(chosen)

    @property
    def before(self) -> Hook | None:
        """A function without arguments that is called before each run is started."""
        return self._before

    @before.setter
    def before(self, value: Hook | None) -> None:
        """See above."""
        self._before = _hook(value)

    @property
    def after(self) -> Hook | None:
        """A function without arguments that is called after each run, or after its start."""
        return self._after

    @after.setter
    def after(self, value: Hook | None) -> None:
        """See above."""
        self._after = _hook(value)

    def memory_plan(self, shapes: Mapping[str, Sequence[int]] | None = None) -> MemoryPlan:
        """How much memory intermediate values need, and where each of them is; nothing is allocated.

        shapes: of inputs, by name; else those of the last call, or of the values that inputs have. Waits first.
        Raises: GraphError where a shape is not known.
        """
        self._execution.finish()
        known = {
            name: source.array.shape for name, source in self._execution.host_inputs.items() if not source.is_empty
        }
        return plan_memory(self._execution.lowered, {**known, **self._shapes, **(shapes or {})}, self._execution.device)

    def clear_device_memory(self) -> None:
        """Wait, and let go of the memory of runs; the next run takes it again. Parameters keep theirs."""
        self._execution.finish()
        self._execution.clear()

    def dump(self) -> dict[str, object]:
        """Nodes, values, pieces of memory and the order of execution, as JSON holds it.

        Memory is there as soon as the shapes of inputs are known.
        """
        try:
            plan = self.memory_plan()
        except GraphError:
            plan = None
        return dump_model(self._execution.lowered, plan)

    def profile(self, *args: object, runs: int = 10, **named: object) -> Profile:
        """Time per node for these inputs, after one run to warm up; has str() and to_dict(). Updates and callbacks do
        not happen. Nodes are those that run, after onnxruntime's optimizer.
        """
        return self._execution.profile(self._arguments.read(args, named), runs)

    def explain(self) -> Explanation:
        """Where each part of the model runs, why there, and what was done so that it runs; has str() and to_dict()."""
        return self._execution.explain()

    def _take_memory(self, feeds: dict[str, Feed]) -> None:
        self.graph.options.fake_next_exec = 0
        self._execution.finish()
        self._execution.warm_up(feeds)

    def _note_shapes(self, feeds: Mapping[str, Feed]) -> None:
        self._shapes = {name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)}

    def _own(self, name: str, value: Feed) -> Feed:
        """What a run may read that the caller does not wait for: a copy, unless the input borrows."""
        if isinstance(value, np.ndarray) and not self._execution.host_inputs[name].borrow_on_cpu:
            return value.copy()
        return value


def _run_once(execution: Execution, stage: Stage | None, turn: int, feeds: dict[str, Feed]) -> dict[str, Feed]:
    if stage is None:
        return execution.run(feeds, {})
    values: dict[str, Feed] | None = None
    try:
        values = execution.run(feeds, stage.values(turn))
    finally:
        stage.leave(turn, values)
    return values


def _hook(function: Hook | None) -> Hook | None:
    if function is not None and not callable(function):
        raise OptionError(f"{function!r} cannot be called", fix="a function without arguments, or None")
    return function
