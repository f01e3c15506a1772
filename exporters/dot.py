"""A graph as Graphviz text."""

import json
from collections.abc import Iterator

import onnx_ir as ir

from onnxgrad.exporters.picture import Picture, picture


def to_dot(model: ir.Model) -> str:
    """The main graph in the DOT language: a box per node, arrows for values, dashed ones into bodies of nodes."""
    return "\n".join(_lines(picture(model))) + "\n"


def _lines(drawn: Picture) -> Iterator[str]:
    yield f"digraph {_quote(drawn.name)} {{"
    yield "  rankdir=TB;"
    yield '  node [shape=box, style="rounded,filled", fillcolor="#f2f4f8", fontname="sans-serif", fontsize=10];'
    yield '  edge [fontname="sans-serif", fontsize=8, color="#667085"];'
    for index, box in enumerate(drawn.boxes):
        look = ', shape=ellipse, fillcolor="#dbeafe"' if box.kind in ("input", "output") else ""
        yield f"  n{index} [label={_quote(box.label)}, tooltip={_quote(box.details)}{look}];"
    for arrow in drawn.arrows:
        style = ", style=dashed" if arrow.captured else ""
        yield f"  n{arrow.start} -> n{arrow.end} [label={_quote(arrow.shape)}, tooltip={_quote(arrow.value)}{style}];"
    yield "}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
