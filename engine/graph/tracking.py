"""Where in the program a node of a graph was made."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.engine.graph.marks import TRACEBACK

if TYPE_CHECKING:
    from onnxgrad.engine.graph.graph import Graph
    from onnxgrad.engine.graph.node import Node

_PACKAGE = str(Path(__file__).resolve().parents[2])
_NODE = re.compile(r"node '([^']+)'")


def note_origin(node: ir.Node) -> None:
    """Let a node remember the calls that it is made in, without those of this package."""
    if TRACEBACK not in node.meta:
        frames = [frame for frame in traceback.extract_stack() if not _is_ours(frame.filename)]
        node.meta[TRACEBACK] = tuple(frames)


def _is_ours(file: str) -> bool:
    path = str(Path(file).resolve())
    return path.startswith(_PACKAGE) and not path.startswith(str(Path(_PACKAGE, "tests")))


@contextmanager
def track_nodes(graph: Graph) -> Iterator[None]:
    """While the block runs, nodes that are added to the graph remember where; and an error that names such a node has a
    note that says so, also one of a function that is called in the block."""
    graph.tracks += 1
    try:
        yield
    except OnnxGradError as error:
        for name in dict.fromkeys(_NODE.findall(str(error))):
            if found := origin(graph, name):
                error.add_note(f"node {name!r} was made here (most recent call last):\n{found}")
        raise
    finally:
        graph.tracks -= 1


def origin(graph: Graph, node: Node | str) -> str:
    """Where a node was made, as Python prints it; "" for one that does not remember.

    A node, or the name of one: that of a node of a gradient means the node that it is of.
    """
    if not isinstance(node, str):
        return _printed(node.ir)
    names = {node, *(node[: match.start()] for match in re.finditer(r"\.grad\.", node))}
    found = {other.name: other for other in graph.ir.all_nodes() if other.name in names}
    by_length = sorted(found, key=lambda name: -len(name or ""))
    return next((text for name in by_length if (text := _printed(found[name]))), "")


def _printed(node: ir.Node) -> str:
    frames = node.meta.get(TRACEBACK, ())
    return "".join(traceback.format_list(list(frames)))
