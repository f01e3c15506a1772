"""Files that are complete or not there at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], before: Callable[[], object] = lambda: None
) -> None:
    """Write next to `path`, down to the disk, and take its place when complete; `before` runs just before that.

    Whatever goes wrong, what was there before stays. Raises: OSError; what `write` and `before` raise.
    """
    temporary = temporary_name(path)
    try:
        write_through(temporary, write)
        before()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """The name that a file has until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def write_through(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file down to the disk."""
    with open(path, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
