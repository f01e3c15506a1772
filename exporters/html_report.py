"""What an optimization did, as one HTML page that needs nothing else: tables, and both graphs side by side."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise

import onnx_ir as ir

from onnxgrad.exporters.layered_layout import Placement, Point, place
from onnxgrad.exporters.picture import Box, Picture, picture
from onnxgrad.exporters.report import Summary, summary

_CHARACTER = 6.6
"""Width of a letter of a label, in pixels."""
_BOX = 26.0
_LABEL = 28
"""Letters of a label."""


def html_report(
    before: ir.Model,
    after: ir.Model,
    changes: Mapping[str, int],
    seconds: float,
    title: str = "model",
    checked: int = 0,
) -> str:
    """The page. changes: pass -> how often it changed something.  checked: random inputs that gave equal outputs."""
    first, second = summary(before), summary(after)
    facts = f"{seconds:.2f} s" + (f", checked on {checked} random inputs" if checked else "")
    values = {
        "title": escape(title),
        "facts": escape(facts),
        "totals": _table(("", "before", "after", "change"), _totals(first, second)),
        "operators": _table(("operator", "before", "after", "change"), _operators(first, second)),
        "changes": _table(("pass", "changes"), [(name, f"{count:,}") for name, count in changes.items()]),
        "before": _drawing(picture(before)),
        "after": _drawing(picture(after)),
    }
    page = files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    for name, content in values.items():
        page = page.replace(f"<!--{name}-->", content, 1)
    return page


def _totals(before: Summary, after: Summary) -> list[tuple[str, ...]]:
    pairs = [
        ("nodes", before.nodes, after.nodes),
        ("kinds of operators", len(before.operators), len(after.operators)),
        ("parameters", before.parameter_count, after.parameter_count),
        ("bytes of the file", before.file_bytes, after.file_bytes),
        ("multiply-accumulates", before.macs, after.macs),
        ("bytes of values at one time", before.peak_bytes, after.peak_bytes),
    ]
    return [(name, f"{a:,}", f"{b:,}", _change(a, b)) for name, a, b in pairs]


def _operators(before: Summary, after: Summary) -> list[tuple[str, ...]]:
    names = {*before.operators, *after.operators}
    counts = [(name, before.operators.get(name, 0), after.operators.get(name, 0)) for name in names]
    counts.sort(key=lambda row: (-max(row[1:]), row[0]))
    return [(name, str(a), str(b), "" if a == b else f"{b - a:+}") for name, a, b in counts]


def _change(before: int, after: int) -> str:
    return "" if before == after else f"{(after - before) / before:+.1%}" if before else "new"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p>none</p>"
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{titles}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _drawing(drawn: Picture) -> str:
    """An SVG: arrows, then boxes with their details as tooltips."""
    labels = [_shorten(box.label) for box in drawn.boxes]
    widths = [max(len(label), 4) * _CHARACTER + 16 for label in labels]
    edges = [(arrow.start, arrow.end) for arrow in drawn.arrows]
    placed = place(widths, edges)
    arrows = []
    for arrow, route in zip(drawn.arrows, placed.routes, strict=True):
        text = escape(f"{arrow.value} {arrow.shape}".rstrip())
        kind = ' class="captured"' if arrow.captured else ""
        arrows.append(f'<path{kind} d="{_path(placed, arrow.start, arrow.end, route)}"><title>{text}</title></path>')
    boxes = [
        _box(box, label, width, x, y)
        for box, label, width, x, y in zip(drawn.boxes, labels, widths, placed.x, placed.y, strict=True)
    ]
    size = f'data-width="{placed.width:.0f}" data-height="{placed.height:.0f}"'
    return f'<svg role="img" {size}><g><g class="arrows">{"".join(arrows)}</g>{"".join(boxes)}</g></svg>'


def _path(placed: Placement, start: int, end: int, route: Sequence[Point]) -> str:
    """A smooth line from the lower side of a box to the upper side of another; around the side where it is long."""
    half = _BOX / 2
    points = [(placed.x[start], placed.y[start] + half), *route, (placed.x[end], placed.y[end] - half)]
    parts = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    far = 0.0 if route else min((points[1][1] - points[0][1]) / 10, 120.0) - 3
    bulge = far if far > 10 else 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y1 - y0) / 2
        parts.append(f"C{x0 + bulge:.0f} {y0 + bend:.0f} {x1 + bulge:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}")
    return "".join(parts)


def _box(box: Box, label: str, width: float, x: float, y: float) -> str:
    shape = f'x="{x - width / 2:.0f}" y="{y - _BOX / 2:.0f}" width="{width:.0f}" height="{_BOX:.0f}"'
    kind = box.kind if box.kind != "node" else f"k{_colour(box.label)}"
    text = f'<text x="{x:.0f}" y="{y + 4:.0f}">{escape(label)}</text>'
    return f'<g class="box {kind}"><title>{escape(box.details)}</title><rect {shape}/>{text}</g>'


def _shorten(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}\u2026"


def _colour(op_type: str) -> int:
    """Products and convolutions stand out; the rest by what it does."""
    if op_type.startswith(("Conv", "MatMul", "Gemm", "Einsum", "LSTM", "GRU", "RNN", "Attention", "QLinear")):
        return 0
    if "Norm" in op_type:
        return 1
    if op_type in _MOVES:
        return 2
    return 3 if op_type.startswith(("Reduce", "Softmax", "LogSoftmax")) or "Pool" in op_type else 4


_MOVES = frozenset(
    {
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Concat"),
        *("Gather", "Expand", "Tile", "Pad", "Shape", "Identity", "Cast"),
    }
)
