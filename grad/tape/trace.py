"""`og.trace`: a Python function of tensors as one graph, which runs as a whole."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, ParamSpec, TypeVar, overload

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.graph.signature import OPSET
from onnxgrad.engine.runtime.assemble import SessionOptions
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.trace_arguments import Axes, Reader, described
from onnxgrad.grad.tape.trace_capture import Capture, capture, prepare, run
from onnxgrad.grad.tape.trace_export import check_opset, export_capture

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logging.getLogger("onnxgrad.trace")
_MANY = 8

Dynamic = Mapping[str, Sequence[int] | Axes]


class TracedFunction(Generic[_P, _R]):
    """A function that is captured into a graph and runs as that. Made by `og.trace`."""

    __name__: str

    def __init__(
        self, function: Callable[_P, _R], dynamic: Dynamic | None, threads: int | None, max_captures: int
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        functools.update_wrapper(self, function, updated=())
        self.function = function
        names = _parameter_names(function)
        self._reader = Reader(names, _axes(dynamic or {}, names))
        self._options = SessionOptions(None, threads, "all")
        self._max_captures = max_captures
        self._captures: dict[Hashable, tuple[Capture, ...]] = {}
        self._lock = threading.RLock()
        self._updates = threading.Lock()

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """The result of the function, by a graph that was captured for such arguments, or is now."""
        state = STATE
        if state.tracer is not None or state.recorders:
            return self.function(*args, **kwargs)
        arguments = self._reader.read(args, kwargs)
        if arguments.has_vars:
            return self.function(*args, **kwargs)
        for found in self._captures.get(arguments.key, ()):
            if not found.guards.broken(arguments.leaves):
                return run(found, arguments.leaves)  # type: ignore[return-value]
        found = self._capture(arguments.key, args, kwargs)
        return run(found, arguments.leaves)  # type: ignore[return-value]

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., _R]:
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]

    @property
    def captures(self) -> int:
        """How many graphs there are."""
        return sum(map(len, self._captures.values()))

    def explain(self) -> str:
        """Each capture: for which arguments it is, why it was made, how often it ran."""
        with self._lock:
            found = [known for several in self._captures.values() for known in several]
        lines = [f"{self.name}: {len(found)} captures"]
        for number, known in enumerate(found, 1):
            shown = ", ".join(f"{path}: {what}" for path, what in known.described.items()) or "no arguments"
            counts = f"{known.nodes} nodes, {known.runs} runs"
            changes = f"{len(known.writes)} tensors set, {len(known.grads)} gradients"
            lines += [f"{number}. {shown}", f"   {known.reason}; {counts}; {changes}"]
        return "\n".join(lines)

    def clear(self) -> None:
        """Forget all captures."""
        with self._lock:
            self._captures.clear()

    def export(
        self,
        path: str | os.PathLike[str],
        *example_inputs: object,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        opset: int = OPSET,
        **named_inputs: object,
    ) -> None:
        """Write the function, for arguments like these, as an ONNX model.

        Tensors that it reaches by itself become initializers with the values that they have now; those of a module have
        their names. input_names, output_names: of the tensors of arguments and result, in order. opset: of the ONNX
        standard, from 18 on, for runtimes that are older. What the function sets is not part of the model.

        Raises: OptionError for a wrong number of names, or a function that returns no tensor; OpsetError for an
        operator that the opset does not have.
        """
        check_opset(opset)
        found = capture(self.function, self.name, self._reader, example_inputs, named_inputs, opset)
        export_capture(found, path, input_names, output_names)

    def _capture(self, key: Hashable, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Capture:
        with self._lock:
            leaves = self._reader.read(args, kwargs).leaves
            same = self._captures.get(key, ())
            broken = [known.guards.broken(leaves) for known in same]
            if "" in broken:  # another thread was quicker
                return same[broken.index("")]
            found = capture(self.function, self.name, self._reader, args, kwargs)
            prepare(found, self._options)
            found.lock = self._updates
            found.described = self._described(args, kwargs)
            found.reason = broken[-1] if broken else self._difference(found.described)
            self._keep(key, found)
        return found

    def _keep(self, key: Hashable, found: Capture) -> None:
        self._captures[key] = (*self._captures.get(key, ()), found)
        count = self.captures
        _LOG.info("%s is captured: %s", self.name, found.reason)
        if count == _MANY:
            _LOG.warning(
                "%s has been captured %d times, which takes time; the last reason: %s (dynamic= for axes that differ;"
                " tensors in the place of numbers)",
                self.name,
                count,
                found.reason,
            )
        while count > self._max_captures:
            oldest = next(iter(self._captures))
            self._captures[oldest] = self._captures[oldest][1:]
            if not self._captures[oldest]:
                del self._captures[oldest]
            count -= 1

    def _described(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, str]:
        names = [*self._reader.names, *(f"argument{i}" for i in range(len(self._reader.names), len(args)))]
        pairs = [*zip(names, args, strict=False), *kwargs.items()]
        return dict(part for name, value in pairs for part in described(value, name, self._reader.dynamic.get(name)))

    def _difference(self, given: Mapping[str, str]) -> str:
        """What differs from the capture that is nearest."""
        best: list[str] | None = None
        for known in (known for several in self._captures.values() for known in several):
            before = known.described
            changed = [
                f"{path} is {given.get(path, 'missing')}, was {before.get(path, 'missing')}"
                for path in dict.fromkeys([*given, *before])
                if given.get(path) != before.get(path)
            ]
            if best is None or len(changed) < len(best):
                best = changed
        return "the first call" if best is None else "; ".join(best) or "arguments that read alike and are not equal"


@overload
def trace(
    function: Callable[_P, _R], *, dynamic: Dynamic | None = ..., threads: int | None = ..., max_captures: int = ...
) -> TracedFunction[_P, _R]: ...


@overload
def trace(
    *, dynamic: Dynamic | None = ..., threads: int | None = ..., max_captures: int = ...
) -> Callable[[Callable[_P, _R]], TracedFunction[_P, _R]]: ...


def trace(
    function: Callable[_P, _R] | None = None,
    *,
    dynamic: Dynamic | None = None,
    threads: int | None = None,
    max_captures: int = 32,
) -> TracedFunction[_P, _R] | Callable[[Callable[_P, _R]], TracedFunction[_P, _R]]:
    """Capture a function of tensors into a graph, which calls run as a whole. Also as a decorator: `@og.trace`.

    The function runs once in Python for arguments of new dtypes, shapes or constants; from then on its graph runs.
    Arguments and results may be tensors in tuples, lists and dicts; arrays come in as tensors. Tensors that it reaches
    by itself, such as parameters of modules, are read at each call; those that it sets (an optimizer's step, running
    statistics), and gradients, have their next values after it. Gradients inside are part of the graph. Random
    operators draw new numbers at each call. Elements of a tensor (numpy, item, bool) cannot be read inside, and all
    else that it does in Python happens when it is captured only. It is captured again when an attribute of a module
    that it calls is set. Inside of another traced function, and while gradients are recorded outside, the function
    itself runs.

    dynamic: axes whose sizes may differ, by the name of the parameter: {"x": {0: "batch"}} or {"x": [0]}. threads: of
    one operator. max_captures: when there are more, the oldest goes.
    """
    if function is None:
        return lambda decorated: TracedFunction(decorated, dynamic, threads, max_captures)
    return TracedFunction(function, dynamic, threads, max_captures)


def _parameter_names(function: Callable[..., object]) -> list[str]:
    kinds = inspect.Parameter
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]


def _axes(dynamic: Dynamic, names: Sequence[str]) -> dict[str, Axes]:
    found: dict[str, Axes] = {}
    for name, axes in dynamic.items():
        if names and name not in names:
            raise OptionError(f"the function has no parameter {name!r}", fix=f"one of {', '.join(names)}")
        found[name] = axes if isinstance(axes, Mapping) else {axis: f"{name}_{axis}" for axis in axes}
        if any(axis < 0 for axis in found[name]):
            raise OptionError("dynamic axes are counted from the front", where=name)
    return found
