"""Runs of a compiled function: sources are read, the model runs, updates are stored, callbacks are called."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

import onnx_ir as ir

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.callback import CallbackSlot
from onnxgrad.engine.graph.first_run import FirstRun
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.lowering import Lowered
from onnxgrad.engine.graph.shared_tensor import SharedTensor, VolatileTensor
from onnxgrad.engine.graph.storage import Storage, all_locked
from onnxgrad.engine.graph.worker import Worker, is_worker
from onnxgrad.engine.partition.report import Explanation
from onnxgrad.engine.runtime.arena import shrink_shared_arena
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.call_signature import CallSignature, Feed
from onnxgrad.engine.runtime.executor import Executor, Wiring, as_array, make_executor
from onnxgrad.engine.runtime.plan import Plan, SessionRegion
from onnxgrad.engine.runtime.profile import Profile, profile_plan
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import Array, DeviceValue, to_numpy

logger = logging.getLogger("onnxgrad.graph")

Feeds = Mapping[str, Feed]
Observer = Callable[[ir.Node, Sequence[Array]], None]


class Held(Protocol):
    """A source whose value is a tensor that outlasts runs."""

    @property
    def ort_value(self) -> DeviceValue:
        """The tensor as it is now."""


@dataclass(frozen=True)
class Observation:
    """Nodes of the graph with the outputs of the model that are theirs, and who is shown them after each run."""

    nodes: Sequence[tuple[ir.Node, tuple[str, ...]]] = ()
    observers: Sequence[Observer] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs that are shown."""
        return tuple(name for _, names in self.nodes for name in names)

    def show(self, values: Feeds) -> None:
        """Call every observer for every node, in the order of the graph."""
        if not self.observers:
            return
        for node, names in self.nodes:
            shown = [as_array(values[name]) for name in names]
            for observer in self.observers:
                observer(node, shown)


@dataclass
class Execution:
    """A model that runs, one run at a time. It knows nothing of who waits for the results.

    returned: outputs that become arrays. kept: outputs that stay where they were computed. worker: does runs that
    nobody waits for. guard: held while one runs. first_run: what the first one verifies.
    """

    lowered: Lowered
    options: Callable[[], SessionOptions]
    returned: Sequence[str] = ()
    kept: Sequence[str] = ()
    observation: Observation = field(default_factory=Observation)
    worker: Worker = field(default_factory=lambda: Worker("onnxgrad runs"))
    guard: threading.Lock = field(default_factory=threading.Lock)
    first_run: FirstRun | None = None

    def __post_init__(self) -> None:
        lowered = self.lowered
        self.seconds = 0.0
        self.callbacks = Worker("onnxgrad callbacks")
        self._running_in: int | None = None
        self._held_names = [name for name, source in lowered.sources.items() if not isinstance(source, HostTensor)]
        self._held: list[Held] = [lowered.sources[name] for name in self._held_names]  # type: ignore[misc]
        self._updated = [_tensor(lowered.sources[name]) for name in lowered.updates]
        self._read_only = [
            (index, _tensor(source))
            for index, source in enumerate(self._held)
            if isinstance(source, SharedTensor | VolatileTensor) and _tensor(source) not in self._updated
        ]
        self._reads_only_feeds = not (self._held or self._updated or lowered.given)
        self._slots = [CallbackSlot(function, names) for function, names in lowered.callbacks]
        for slot in self._slots:
            slot.attach(self.callbacks)
        shown = [name for slot in self._slots for name in slot.outputs]
        self._left = tuple(dict.fromkeys([*self.kept, *shown, *self.observation.outputs]))
        self._plan: Plan | None = None
        self._executor: Executor | None = None
        self._explain: Callable[[], Explanation] | None = None
        self.signature = self._assemble()

    @property
    def device(self) -> str:
        """Where the model runs: "cpu", "cuda"."""
        self._ready()
        assert self._plan is not None
        kinds = [region.session.device.kind for region in self._plan.regions if isinstance(region, SessionRegion)]
        return kinds[0] if kinds else "cpu"

    @property
    def host_inputs(self) -> dict[str, HostTensor]:
        """The inputs that calls give, by name, in the order of the graph."""
        found = self.lowered.sources.items()
        return {name: source for name, source in found if isinstance(source, HostTensor)}

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way, nor a callback."""
        return self.worker.is_idle and self.callbacks.is_idle and not self.guard.locked()

    def run(self, feeds: Feeds, given: Mapping[str, Feed]) -> dict[str, Feed]:
        """One run: the arrays to return and what is kept, by name. Lazy callbacks are over, others are on their way.

        given: inputs that another model computed. Raises: ExecutionError, and nothing is updated; what a callback
        raises that is called at once, and everything is.
        """
        with self.guard:
            self._running_in = threading.get_ident()
            try:
                begin = time.perf_counter()
                values = self._run(feeds, given)
                self.seconds = time.perf_counter() - begin
                for slot in self._slots:
                    slot.fire([values[name] for name in slot.outputs])
                return values
            finally:
                self._running_in = None

    def warm_up(self, feeds: Feeds) -> None:
        """A run whose results nobody sees: nothing is updated, and nobody is called. It takes the memory of runs."""
        self.refuse_recursion()
        with self.guard:
            self._run(feeds, {}, for_nobody=True)

    def wait(self) -> None:
        """Return when all is done that was started. Raises: the first error of it, once."""
        self.finish()
        self.worker.raise_error()
        self.callbacks.raise_error()

    def finish(self) -> None:
        """As `wait`, without raising."""
        while True:
            self.worker.drain()
            self.callbacks.drain()
            if self.worker.is_idle or self.worker.is_current:
                return

    def abandon(self) -> None:
        """As `finish`, for a function that nobody can wait for any more: errors go to the log.

        A thread that runs or calls back for functions must not wait: it may be what the runs wait for.
        """
        if not is_worker():
            self.finish()
            self._log_errors()
        elif not self.is_idle:
            self.worker.submit(lambda: self.callbacks.submit(self._log_errors))

    def _log_errors(self) -> None:
        for error in (self.worker.error, self.callbacks.error):
            if error is not None:
                logger.error("a run failed whose function nobody waits for", exc_info=error)

    def clear(self) -> None:
        """Let go of sessions and buffers; the next run makes them again."""
        with self.guard:
            if self._plan is not None:
                self._plan.release()
            self._plan = self._executor = self._explain = None
        shrink_shared_arena()

    def explain(self) -> Explanation:
        """Where each part of the model runs, and why there."""
        self._ready()
        assert self._explain is not None
        return self._explain()

    def profile(self, feeds: Feeds, runs: int) -> Profile:
        """Time per node, by a session of its own; nothing is updated, and nobody is called."""
        source = read_source(self.lowered.model)

        def make(path: str) -> Plan:
            return assemble(source, self.lowered.model, None, replace(self.options(), profile=path))[0]

        held = {name: to_numpy(source.ort_value) for name, source in zip(self._held_names, self._held, strict=True)}
        return profile_plan(make, {**held, **feeds}, runs)

    def refuse_recursion(self) -> None:
        """Raises: GraphError when it is a callback of this function that asks for a run of it."""
        if self._running_in == threading.get_ident() or self.callbacks.is_current:
            raise GraphError(
                "a function is called by one of its own callbacks", fix="call it after wait(), or another function"
            )

    def _run(self, feeds: Feeds, given: Mapping[str, Feed], for_nobody: bool = False) -> dict[str, Feed]:
        """One run of the model: parameters that it only reads keep their elements, those that it updates are locked.

        The first before the second, and the second in one order for all functions: nobody waits for each other.
        """
        executor = self._ready()
        if self._reads_only_feeds and self.first_run is None:
            values = executor.run(feeds, (), ())
            self.observation.show(values)
            return values
        with ExitStack() as stack:
            pinned: list[tuple[int, DeviceValue]] = []
            for index, storage in self._storages():
                value = storage.pin()
                stack.callback(storage.unpin, value)
                pinned.append((index, value))
            stack.enter_context(all_locked(*(tensor.storage for tensor in self._updated)))
            held: list[Feed] = [source.ort_value for source in self._held]
            for index, value in pinned:
                held[index] = value
            buffers = [tensor.spare() for tensor in self._updated]
            if self.first_run is None or for_nobody:
                values = executor.run(feeds, [*held, *given.values()], buffers)
            else:
                values = self._checked(self.first_run, executor, feeds, [*held, *given.values()], buffers)
            if for_nobody:
                return values
            self.observation.show(values)  # an observer that raises keeps the parameters as they were
            for tensor, buffer in zip(self._updated, buffers, strict=True):
                tensor.commit(buffer)
        return values

    def _checked(
        self, first: FirstRun, executor: Executor, feeds: Feeds, held: list[Feed], buffers: list[DeviceValue]
    ) -> dict[str, Feed]:
        read = {**dict(zip(self._held_names, held, strict=False)), **feeds}
        written = dict(zip(self.lowered.updates.values(), buffers, strict=True))
        values = first.run(lambda: executor.run(feeds, held, buffers), read, written)
        self.first_run = None
        return values

    def _storages(self) -> list[tuple[int, Storage]]:
        """The memory of parameters that are only read, with their places among what is held."""
        return [(index, tensor.storage) for index, tensor in self._read_only]

    def _ready(self) -> Executor:
        if self._executor is None:
            self._assemble()
        assert self._executor is not None
        return self._executor

    def _assemble(self) -> CallSignature:
        model = self.lowered.model
        source = read_source(model)
        self._plan, self._explain = assemble(source, model, None, self.options())
        returned = tuple(name for name in dict.fromkeys(self.returned) if name not in self._left)
        held = (*self._held_names, *self.lowered.given)
        wiring = Wiring(held, returned, self._left, tuple(self.lowered.updates.values()))
        self._executor = make_executor(self._plan, wiring)
        return source.signature


def _tensor(source: object) -> SharedTensor:
    if isinstance(source, VolatileTensor):
        return source.tensor
    assert isinstance(source, SharedTensor), "AddUpdate was built for something else"
    return source
