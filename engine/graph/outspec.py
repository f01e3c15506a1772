"""What a function is compiled for: values to return, callbacks, and variables computed for their side effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.callback import CallbackFunction, as_callback
from onnxgrad.engine.graph.var import Var

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph


@dataclass(frozen=True)
class CopyOutput:
    """A variable whose value a function returns. Made by `copy_output`."""

    var: Var
    borrow_mem: bool = False


Effect: TypeAlias = "Var | tuple[Var, Callable[..., object] | CallbackFunction]"
Outspec: TypeAlias = "CopyOutput | Effect"


def copy_output(var: Var, borrow_mem: bool = False) -> CopyOutput:
    """In an outspec: return the value of `var` as a numpy array.

    borrow_mem: a variable that is itself an input or a parameter is returned as its own memory, without a copy, and
    changes when that does. Everything else that a run computes is in new memory, which is the caller's in any case.
    """
    if not isinstance(var, Var):
        raise OptionError(f"{var!r} is no Var")
    return CopyOutput(var, borrow_mem)


@dataclass(frozen=True)
class Targets:
    """An outspec, sorted. `single`: one copy_output was given outside of a list, and is returned outside of one."""

    outputs: tuple[CopyOutput, ...]
    callbacks: tuple[tuple[Var, CallbackFunction], ...]
    effects: tuple[Var, ...]
    single: bool

    @property
    def vars(self) -> tuple[Var, ...]:
        """All variables that are to be computed, each once."""
        found = [output.var for output in self.outputs] + [var for var, _ in self.callbacks]
        return tuple(dict.fromkeys([*found, *self.effects]))


def read_outspec(graph: Graph, outspec: Outspec | Sequence[Outspec]) -> Targets:
    """The outspec of a call of `graph.compile`.

    Raises: GraphError for an empty one and for variables of another graph; OptionError for what is none.
    """
    single = not isinstance(outspec, list | tuple) or _is_callback(outspec)
    entries: Sequence[object] = [outspec] if single else list(outspec)  # type: ignore[arg-type]
    if not entries:
        raise GraphError(
            "there is nothing to compute: the outspec is empty", fix="og.copy_output(var), (var, callback) or a var"
        )
    outputs: list[CopyOutput] = []
    callbacks: list[tuple[Var, CallbackFunction]] = []
    effects: list[Var] = []
    for entry in entries:
        if isinstance(entry, CopyOutput):
            outputs.append(entry)
        elif isinstance(entry, Var):
            effects.append(entry)
        elif isinstance(entry, tuple) and _is_callback(entry):
            callbacks.append((entry[0], as_callback(entry[1])))
        else:
            raise OptionError(
                f"{entry!r} is no part of an outspec", fix="og.copy_output(var), (var, callback), or a var to compute"
            )
    targets = Targets(tuple(outputs), tuple(callbacks), tuple(effects), single and bool(outputs))
    for var in targets.vars:
        graph.check_own(var)
        if var.value.graph is not graph.ir:
            raise GraphError(f"{var!r} belongs to a body that is being written", fix="compile when the body is done")
    return targets


def _is_callback(entry: object) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Var) and not isinstance(entry[1], Var)
