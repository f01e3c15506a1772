"""docs/semantics.md: every row is there, says where it stands, and names tests that exist."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "semantics.md"
ROWS = {"A": 19, "B": 7, "C": 12, "D": 15, "E": 13, "F": 19, "G": 26, "H": 9, "I": 5, "J": 29, "K": 5, "L": 12} | {
    "P": 14,
    "Q": 28,
}
"""Rows by table; the options of table O go by name."""

STATES = ("done", "near", "left out")
LINE = re.compile(r"^\| ([A-Z]\d+|`[\w.]+`[^|]*) \|([^|]*)\|([^|]*)\|(.*)\|$", re.MULTILINE)
LEFT_OUT = 15


@cache
def rows() -> dict[str, tuple[str, str, str]]:
    """row -> state, tests, note."""
    return {
        row: (state.strip(), tests, note.strip()) for row, state, tests, note in LINE.findall(PAGE.read_text("utf-8"))
    }


@cache
def test_names() -> frozenset[str]:
    names: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        names.update(re.findall(r"^ *def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))
    return frozenset(names)


test_names.__test__ = False  # type: ignore[attr-defined]  # a function that pytest is not to collect


@pytest.mark.parametrize("table", ROWS)
def test_every_row_of_a_table_is_listed(table):
    assert [row for number in range(1, ROWS[table] + 1) if (row := f"{table}{number}") not in rows()] == []


def test_no_row_is_listed_twice():
    found = Counter(row for row, *_ in LINE.findall(PAGE.read_text("utf-8")))
    assert [row for row, count in found.items() if count > 1] == []


def test_states_are_of_three_kinds():
    assert {row: state for row, (state, _, _) in rows().items() if state not in STATES} == {}


def test_few_rows_are_left_out_and_each_says_why():
    left_out = {row: note for row, (state, _, note) in rows().items() if state == "left out"}
    assert len(left_out) <= LEFT_OUT
    assert all(note for note in left_out.values())


def test_every_row_that_is_there_has_a_test_by_its_name():
    names = test_names()
    missing = []
    for row, (state, tests, _) in rows().items():
        named = re.findall(r"\b(test_\w+)(?![\w.*])", tests)
        by_row = [name for name in names if name.startswith(f"test_{row}_")]
        if state != "left out" and not by_row and not any(name in names for name in named):
            missing.append(row)
    assert missing == []


def test_every_test_that_is_named_exists():
    names = test_names()
    text = "\n".join(tests for _, tests, _ in rows().values())
    named = set(re.findall(r"(?<![\w/])(test_[a-zA-Z]\w*)(?![\w.*])", text))
    assert sorted(name for name in named if name not in names) == []
