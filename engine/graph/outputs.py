"""What runs return: arrays, or outputs that have them later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.executor import as_array
from onnxgrad.engine.runtime.values import Array

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Source


class PendingOutput:
    """One output of one run: it has its value when the run is over (`function.wait()`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._array: Array | None = None
        self._failure: BaseException | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the value has arrived."""
        return self._array is not None

    def get(self) -> Array:
        """The value. Raises: GraphError if it has not arrived, or the run failed."""
        if self._array is None:
            if self._failure is not None:
                raise GraphError(f"output {self.name!r} did not arrive: the run failed") from self._failure
            raise GraphError(f"output {self.name!r} has not arrived yet", fix="function.wait() first")
        return self._array

    def arrive(self, array: Array) -> None:
        """Take the value."""
        self._array = array

    def fail(self, error: BaseException) -> None:
        """There will be no value."""
        self._failure = error

    def __repr__(self) -> str:
        return f"<PendingOutput {self.name!r}, {'ready' if self.is_ready else 'not ready'}>"


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
