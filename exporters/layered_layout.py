"""Where the nodes of a graph stand in a drawing: in layers, from top to bottom, with few crossings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 4
_LONGEST = 30
"""Layers that an edge may pass and still keep a lane of its own between the boxes."""
_LANE = 8.0

Point = tuple[float, float]
_Links = list[list[int]]


@dataclass(frozen=True)
class Placement:
    """x, y: the middle of each box.  routes: for each edge the points between its boxes.

    width, height: of the whole drawing.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def place(widths: Sequence[float], edges: Sequence[tuple[int, int]], row: float = 56.0, gap: float = 18.0) -> Placement:
    """Place boxes of these widths so that every edge (from, to) goes down, around the boxes in between.

    Boxes are numbered in topological order. row: distance of layers.  gap: between boxes side by side.
    """
    assert all(start < end for start, end in edges), "boxes are in topological order"
    count = len(widths)
    depth = _depths(*_links(count, edges))
    parts, lanes = _with_lanes(depth, edges)
    every = [*widths, *(_LANE for _ in range(len(depth) - count))]
    sources, targets = _links(len(every), parts)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for box, level in enumerate(depth):
        layers[level].append(box)
    for sweep in range(_SWEEPS):
        _reorder(layers, sources if sweep % 2 == 0 else targets, downwards=sweep % 2 == 0)
    x = _columns(layers, every, sources, targets, gap)
    left = min((middle - width / 2 for middle, width in zip(x, every, strict=True)), default=0.0)
    right = max((middle + width / 2 for middle, width in zip(x, every, strict=True)), default=0.0)
    points = [(middle - left, (level + 0.5) * row) for middle, level in zip(x, depth, strict=True)]
    routes = tuple(tuple(points[lane] for lane in own) for own in lanes)
    boxes = points[:count]
    return Placement(tuple(p[0] for p in boxes), tuple(p[1] for p in boxes), routes, right - left, len(layers) * row)


def _links(count: int, edges: Sequence[tuple[int, int]]) -> tuple[_Links, _Links]:
    """For each box the boxes above it, and those below."""
    sources: _Links = [[] for _ in range(count)]
    targets: _Links = [[] for _ in range(count)]
    for start, end in dict.fromkeys(edges):
        sources[end].append(start)
        targets[start].append(end)
    return sources, targets


def _with_lanes(depth: list[int], edges: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], _Links]:
    """Edges from layer to layer: those over several layers get a box without content in each, appended to `depth`."""
    parts: list[tuple[int, int]] = []
    lanes: _Links = []
    for start, end in edges:
        passed = range(depth[start] + 1, depth[end])
        own = list(range(len(depth), len(depth) + len(passed))) if len(passed) <= _LONGEST else []
        depth.extend(passed if own else ())
        chain = [start, *own, end]
        if own or not passed:
            parts.extend(pairwise(chain))
        lanes.append(own)
    return parts, lanes


def _depths(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each box: below all its sources; boxes without sources stand right above their first reader."""
    depth: list[int] = []
    for own in sources:
        depth.append(max((depth[source] + 1 for source in own), default=0))
    for box in reversed(range(len(sources))):
        if not sources[box] and targets[box]:
            depth[box] = min(depth[target] for target in targets[box]) - 1
    return depth


def _reorder(layers: list[list[int]], neighbours: Sequence[Sequence[int]], downwards: bool) -> None:
    """Sort each layer by the mean place of the neighbours in the layers before it (the barycentre heuristic)."""
    place: dict[int, float] = {}
    for layer in layers if downwards else reversed(layers):
        own = {box: index / max(len(layer) - 1, 1) for index, box in enumerate(layer)}
        wanted = {
            box: sum(place[other] for other in neighbours[box]) / len(neighbours[box]) if neighbours[box] else own[box]
            for box in layer
        }
        layer.sort(key=lambda box: (wanted[box], own[box]))
        place |= {box: index / max(len(layer) - 1, 1) if len(layer) > 1 else 0.5 for index, box in enumerate(layer)}


def _columns(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    gap: float,
) -> list[float]:
    """Horizontal places: each layer as near below its neighbours as widths allow, in its order."""
    x = [0.0] * len(widths)
    for layer in layers:
        _spread(layer, [_mean(x, sources[box]) for box in layer], widths, x, gap)
    for layer in reversed(layers):
        _spread(layer, [_mean(x, targets[box], x[box]) for box in layer], widths, x, gap)
    for layer in layers:
        _spread(layer, [_mean(x, sources[box], x[box]) for box in layer], widths, x, gap)
    return x


def _mean(x: Sequence[float], boxes: Sequence[int], default: float = 0.0) -> float:
    return sum(x[box] for box in boxes) / len(boxes) if boxes else default


def _spread(layer: Sequence[int], wanted: Sequence[float], widths: Sequence[float], x: list[float], gap: float) -> None:
    """Put a layer's boxes where they want to be; those that would overlap share the shift.

    Groups of boxes that touch are merged, each around the mean of what its members want (pool adjacent violators).
    """
    offsets, end = [], 0.0
    for box in layer:
        offsets.append(end + widths[box] / 2)
        end += widths[box] + gap
    groups: list[tuple[float, int]] = []  # mean of (wanted - offset), members
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while groups and groups[-1][0] > mean:
            before, size = groups.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        groups.append((mean, count))
    shifts = [mean for mean, count in groups for _ in range(count)]
    for box, offset, shift in zip(layer, offsets, shifts, strict=True):
        x[box] = offset + shift
