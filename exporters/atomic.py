"""Files that are complete or not there at all."""

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from onnxgrad.engine.errors import OptionError


def check_targets(*paths: Path | None) -> None:
    """Raises: OptionError for a path where no file can be written: what takes long asks before it starts."""
    for path in paths:
        if path is not None:
            _check_target(path)


def _check_target(path: Path) -> None:
    if not path.parent.is_dir():
        raise OptionError("The folder of the file does not exist.", where=str(path), fix=f"create '{path.parent}'")
    if path.is_dir():
        raise OptionError("The path is a folder.", where=str(path), fix="name a file in it")
    try:
        _refuse_devices(path)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OptionError("The file could not be written.", where=str(path), why=str(error)) from error


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], before: Callable[[], object] = lambda: None
) -> None:
    """Write next to `path`, down to the disk, and take its place when complete; `before` runs just before that.

    Whatever goes wrong, what was there before stays. Raises: OSError; what `write` and `before` raise.
    """
    _refuse_devices(path)
    temporary = temporary_name(path)
    try:
        write_through(temporary, write)
        before()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """The name that a file has until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")


def _refuse_devices(path: Path) -> None:
    """A file would take the place of what is no file, such as /dev/null."""
    if path.exists() and not path.is_file():
        raise FileExistsError("it is there already, and is no file")


def write_through(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file down to the disk."""
    with open(path, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
