"""Plugins of computing graphs: they see what every node gives, in each run of functions compiled while they are on.

    with og.plugins.NumberRangeChecker(graph, 1e4):
        step = graph.compile([x], og.copy_output(loss))
        step(batch)

What nodes give has to be computed and copied for that: nothing is fused, and runs are slow. A plugin is on from when it
is made until `close`, or the end of the block. `profile` and `track_nodes` cost the functions nothing.
"""

from __future__ import annotations

import json
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError
from onnxgrad.engine.graph.tracking import origin, track_nodes
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.runtime.call_signature import describe as describe_array
from onnxgrad.engine.runtime.profile import NodeTime, Profile
from onnxgrad.engine.runtime.values import Array

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph

__all__ = ["BinaryDump", "NodeTime", "NumberRangeChecker", "Observing", "Profile", "TextDump", "origin", "track_nodes"]

_SHOWN = 6  # elements of an array that a text dump prints


class Observing(ABC):
    """What is told of every node and its outputs, in the order of the graph, after each run. For plugins of your own:
    define `observe`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        graph.observers.append(self)

    def __call__(self, node: ir.Node, outputs: Sequence[Array]) -> None:
        """See `observe`."""
        self.observe(node, outputs)

    @abstractmethod
    def observe(self, node: ir.Node, outputs: Sequence[Array]) -> None:
        """A node and the values of its outputs. What it raises, the call of the function raises."""

    def close(self) -> None:
        """See nothing any more; functions that are compiled from now on are as fast as ever."""
        if self in self.graph.observers:
            self.graph.observers.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class NumberRangeChecker(Observing):
    """Raises ExecutionError at the first node, in the order of the graph, that gives NaN, infinity, or a number with
    |x| > limit. Where the node was made is told if the graph tracks its nodes.
    """

    def __init__(self, graph: Graph, limit: float = float("inf")) -> None:
        super().__init__(graph)
        self.limit = limit

    def observe(self, node: ir.Node, outputs: Sequence[Array]) -> None:
        """See Observing."""
        for value, array in zip(node.outputs, outputs, strict=False):
            problem = self._problem(array)
            if problem:
                made = origin(self.graph, node.name or "")
                fix = f"the node was made here:\n{made}" if made else "og.plugins.track_nodes tells where it was made"
                why = f"it is {describe_array(array)}"
                raise ExecutionError(f"{value.name!r} holds {problem}", where=describe(node), why=why, fix=fix)

    def _problem(self, array: Array) -> str:
        if array.dtype.kind in "OSU" or not array.size:
            return ""
        wide = array.astype(np.float64) if array.dtype.kind != "f" else array
        if np.isnan(wide).any():
            return f"NaN ({int(np.isnan(wide).sum())} of {array.size})"
        if np.isinf(wide).any():
            return f"infinity ({int(np.isinf(wide).sum())} of {array.size})"
        largest = float(np.abs(wide).max())
        return f"{largest:.6g}, which is beyond {self.limit:g}" if largest > self.limit else ""


class TextDump(Observing):
    """Writes a line for each output of each node into a file: what it is, least, mean and largest, first elements."""

    def __init__(self, graph: Graph, file: str | Path | TextIO) -> None:
        super().__init__(graph)
        self._owns = isinstance(file, str | Path)
        self._file = open(file, "w", encoding="utf-8") if isinstance(file, str | Path) else file  # noqa: SIM115

    def observe(self, node: ir.Node, outputs: Sequence[Array]) -> None:
        """See Observing."""
        for value, array in zip(node.outputs, outputs, strict=False):
            self._file.write(f"{node.op_type} {value.name}: {describe_array(array)} {_summary(array)}\n")

    def close(self) -> None:
        """See Observing; closes a file that it opened."""
        super().close()
        if self._owns:
            self._file.close()


class BinaryDump(Observing):
    """Writes the outputs of each node of each run into a folder: `000001.npz` holds them by name; a line in
    `index.jsonl` says of which node they are.
    """

    def __init__(self, graph: Graph, folder: str | Path) -> None:
        super().__init__(graph)
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._index = open(self.folder / "index.jsonl", "w", encoding="utf-8")  # noqa: SIM115

    def observe(self, node: ir.Node, outputs: Sequence[Array]) -> None:
        """See Observing."""
        self._count += 1
        name = f"{self._count:06d}.npz"
        arrays = {value.name or "": array for value, array in zip(node.outputs, outputs, strict=False)}
        entry = {"file": name, "node": node.name, "op_type": node.op_type, "domain": node.domain}
        kinds = {key: [array.dtype.name, list(array.shape)] for key, array in arrays.items()}
        with zipfile.ZipFile(self.folder / name, "w") as archive:  # np.savez takes no array that is called "file"
            for key, array in arrays.items():
                with archive.open(f"{key}.npy", "w") as file:
                    np.lib.format.write_array(file, _storable(array), allow_pickle=False)
        self._index.write(json.dumps({**entry, "outputs": kinds}) + "\n")
        self._index.flush()

    def close(self) -> None:
        """See Observing."""
        super().close()
        self._index.close()


def _storable(array: Array) -> Array:
    """What npz files hold without pickle: types that numpy lacks as their bytes, strings as fixed-width text."""
    if array.dtype.kind in "biufcUS":
        return array
    return array.astype(str) if array.dtype == object else np.ascontiguousarray(array).view(np.uint8)


def _summary(array: Array) -> str:
    first = re.sub(r"\s+", " ", np.array2string(array.reshape(-1)[:_SHOWN], threshold=_SHOWN))
    if array.dtype.kind in "OSU" or not array.size:
        return first
    wide = array.astype(np.float64)
    return f"min {wide.min():.6g} mean {wide.mean():.6g} max {wide.max():.6g} {first}"
