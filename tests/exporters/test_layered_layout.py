"""Where nodes stand in a drawing."""

from itertools import pairwise

import numpy as np
import pytest

from onnxgrad.exporters.layered_layout import place


def random_graph(seed, count=60):
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(max(0, end - 8), end)), end) for end in range(1, count) for _ in range(2)]
    return rng.uniform(20, 120, count).tolist(), edges


@pytest.mark.parametrize("seed", range(5))
def test_edges_go_down_and_boxes_do_not_overlap(seed):
    widths, edges = random_graph(seed)
    placed = place(widths, edges, gap=10)
    assert all(placed.y[start] < placed.y[end] for start, end in edges)
    for y in set(placed.y):
        row = sorted((placed.x[box], widths[box]) for box in range(len(widths)) if placed.y[box] == y)
        for (left, left_width), (right, right_width) in pairwise(row):
            assert right - left >= (left_width + right_width) / 2 + 10 - 1e-6
    spans = [(x - width / 2, x + width / 2) for x, width in zip(placed.x, widths, strict=True)]
    assert min(left for left, _ in spans) >= -1e-6
    assert max(right for _, right in spans) <= placed.width + 1e-6


def test_a_chain_is_a_straight_line():
    placed = place([50, 90, 30], [(0, 1), (1, 2)])
    assert len(set(placed.x)) == 1


def test_an_edge_over_layers_has_a_lane_beside_the_boxes():
    placed = place([50, 90, 50], [(0, 1), (1, 2), (0, 2)])
    (point,) = placed.routes[2]
    assert point[1] == placed.y[1]
    assert abs(point[0] - placed.x[1]) > 45


def test_crossings_are_undone():
    placed = place([50] * 6, [(0, 5), (1, 4), (2, 3)])
    tops, ends = [placed.x[0], placed.x[1], placed.x[2]], [placed.x[5], placed.x[4], placed.x[3]]
    assert np.argsort(tops).tolist() == np.argsort(ends).tolist()


def test_an_input_stands_right_above_its_reader():
    placed = place([50] * 4, [(0, 2), (2, 3), (1, 3)])
    assert placed.y[1] == placed.y[2]


def test_nothing_and_one_box():
    assert place([], []).width == 0
    assert place([40], []).width == 40
