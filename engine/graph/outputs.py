"""What runs return: arrays, at once or later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.executor import as_array
from onnxgrad.engine.runtime.values import Array

if TYPE_CHECKING:
    from onnxgrad.engine.graph.source import Source


R = TypeVar("R")


class PendingRun(Generic[R]):
    """A run that was started: it has its result when it is over (`function.wait()`)."""

    def __init__(self) -> None:
        self._result: tuple[R] | None = None
        self._failure: BaseException | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the result has arrived."""
        return self._result is not None

    def get(self) -> R:
        """What the call would have returned. Raises: GraphError if it has not arrived, or the run failed."""
        if self._result is None:
            if self._failure is not None:
                raise GraphError("the result did not arrive: the run failed") from self._failure
            raise GraphError("the result has not arrived yet", fix="function.wait() first")
        return self._result[0]

    def arrive(self, result: R) -> None:
        """Take the result."""
        self._result = (result,)

    def fail(self, error: BaseException) -> None:
        """There will be no result."""
        self._failure = error

    def __repr__(self) -> str:
        return f"<PendingRun, {'ready' if self.is_ready else 'not ready'}>"


@dataclass(frozen=True)
class OutputReader:
    """Takes the values of variables out of what a run gave. `names`: of the outputs of the model.

    `borrowed`: variables that are inputs or parameters, and are returned as the memory of these.
    """

    names: Mapping[Var, str]
    borrowed: Mapping[Var, Source] = field(default_factory=dict)

    def taker(self, vars: Sequence[Var]) -> Callable[[Mapping[str, Feed], Mapping[str, Feed]], list[Array]]:
        """What takes the values of these variables from the outputs and the feeds of a run."""
        if not self.borrowed:
            names = [self.names[var] for var in vars]
            return lambda values, feeds: [_array(values[name]) for name in names]
        return lambda values, feeds: [self.read(var, values, feeds) for var in vars]

    def read(self, var: Var, values: Mapping[str, Feed], feeds: Mapping[str, Feed]) -> Array:
        """The value of `var`. Lists, for sequences, are given as they are."""
        source = self.borrowed.get(var)
        value: Feed
        if isinstance(source, HostTensor):
            value = feeds[var.name]
        elif source is not None:
            value = source.ort_value  # type: ignore[attr-defined]  # every other source holds a tensor
        else:
            value = values[self.names[var]]
        return _array(value)


def _array(value: Feed) -> Array:
    return value if isinstance(value, np.ndarray) else as_array(value)
