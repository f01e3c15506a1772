import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import numpy_helper

from onnxgrad.engine.compile import compile
from onnxgrad.engine.runtime import session as session_module
from onnxgrad.engine.runtime.disk_cache import DiskCache, session_key
from onnxgrad.engine.runtime.session import SESSIONS
from tests.engine.text_models import f32, floats, model_of

FOLDED = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {4, 9, 16}> { r = Sqrt(w) y = Mul(x, r) }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path))
    return tmp_path / "sessions"


def compile_anew(model=None, **options):
    """As a new process would: without the sessions that are in memory."""
    SESSIONS.clear()
    return compile(model or model_of(FOLDED), providers="cpu", threads=1, cache=True, **options)


def check(run):
    np.testing.assert_array_equal(run(floats(2, 3))["y"], floats(2, 3) * f32([2, 3, 4]))


def opened_levels(monkeypatch):
    levels, open_at = [], session_module._open_at

    def record(level, *rest):
        levels.append(level)
        return open_at(level, *rest)

    monkeypatch.setattr(session_module, "_open_at", record)
    return levels


def test_the_second_process_takes_the_optimized_graph(folder, monkeypatch):
    levels = opened_levels(monkeypatch)
    check(compile_anew())
    (entry,) = folder.iterdir()
    assert b"Sqrt" not in entry.read_bytes()
    run = compile_anew()
    check(run)
    assert levels == ["all", "none"]
    assert run.plan.regions[0].session.level == "all"


def test_nothing_is_written_unless_it_is_asked_for(folder):
    SESSIONS.clear()
    check(compile(model_of(FOLDED), providers="cpu", threads=1))
    assert not folder.exists()


def test_other_models_and_levels_have_entries_of_their_own(folder):
    check(compile_anew())
    check(compile_anew(optimize=False))
    other = model_of("g (float[N, 3] x) => (float[N, 3] y) { y = Mul(x, w) }")
    other.graph.initializer.append(numpy_helper.from_array(f32([1, 1, 1]), "w"))
    np.testing.assert_array_equal(compile_anew(other)(floats(1, 3))["y"], floats(1, 3))
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-1], lambda data: data[:40], lambda data: data[:60] + b"\1\2" + data[62:]],
    ids=["empty", "cut short", "only a head", "changed"],
)
def test_a_damaged_entry_is_written_again(damage, folder):
    check(compile_anew())
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    check(compile_anew())
    assert entry.read_bytes() == good


def test_an_entry_that_onnxruntime_cannot_read_is_not_tried_again(folder, monkeypatch):
    check(compile_anew())
    (entry,) = folder.iterdir()
    cache = DiskCache(folder)
    cache.put(entry.stem, b"not a model")
    check(compile_anew())
    levels = opened_levels(monkeypatch)
    check(compile_anew())
    assert levels == ["all"] and cache.get(entry.stem) == b""


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path / "file"))
    check(compile_anew())


def test_the_entries_used_last_are_kept(tmp_path):
    cache = DiskCache(tmp_path, limit=1100)
    for index in range(4):
        cache.put(f"k{index}", bytes(200))
        os.utime(tmp_path / f"k{index}.session", (index, index))
    assert cache.get("k0") == bytes(200)
    cache.put("new", bytes(200))
    kept = {path.stem for path in tmp_path.iterdir()}
    assert "k1" not in kept and {"k0", "new"} <= kept
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1100
    cache.put("large", bytes(900))
    assert cache.get("large") is None


def test_keys_depend_on_every_part():
    assert len({session_key("a", "b"), session_key("ab"), session_key("a", "c"), session_key("a", "b")}) == 3


WRITER = """
import sys
from pathlib import Path
from onnxgrad.engine.runtime.disk_cache import DiskCache
cache = DiskCache(Path(sys.argv[1]))
content = b"x" * 300_000
for _ in range(60):
    assert cache.get("same") in (None, content)
    cache.put("same", content)
"""


def test_two_processes_never_see_half_an_entry(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[1] for process in processes] == [b"", b""]
    assert DiskCache(tmp_path).get("same") == b"x" * 300_000
    assert [path.name for path in tmp_path.iterdir()] == ["same.session"]
