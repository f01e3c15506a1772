"""Optimized graphs on disk: what onnxruntime's optimizer made of a model is found again by the next process.

An entry is a checksum and the graph. It is written to a temporary file and moved into place, so that a reader sees
all of it or nothing; two processes that write the same entry write the same. What does not match its checksum is no
entry. The folder is kept below a number of bytes: what was not used for the longest time goes first.
"""

import functools
import hashlib
import os
import platform
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path

LIMIT = 2 * 2**30
_SUM = 12
_MARK = b"onnxgrad session 1\n"


class DiskCache:
    """Entries in `folder`, at most `limit` bytes together. A folder that cannot be written to is an empty cache."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder, self.limit = folder, limit

    def get(self, key: str) -> bytes | None:
        """The content of an entry; None where there is none, or a damaged one, which is removed."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MARK) + _SUM
        content = data[start:]
        if not data.startswith(_MARK) or data[len(_MARK) : start] != _checksum(content):
            self.discard(key)
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep an entry; one that is larger than the limit, or cannot be written, is not kept."""
        if len(content) > self.limit // 2:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MARK + _checksum(content))
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self._path(key))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        self._shrink()

    def discard(self, key: str) -> None:
        """Remove an entry."""
        with suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _shrink(self) -> None:
        files = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                with suppress(OSError):  # another process removed it
                    status = path.stat()
                    files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if total <= self.limit:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.session"


def session_cache_folder() -> Path:
    """`$ONNXGRAD_CACHE/sessions`; without the variable, the folder of caches of the user's system."""
    root = os.environ.get("ONNXGRAD_CACHE")
    return Path(root).expanduser() / "sessions" if root else Path.home() / ".cache" / "onnxgrad" / "sessions"


def session_key(*parts: object) -> str:
    """A name for what was made of `parts` with these versions of the software, on this kind of CPU."""
    text = "\0".join(map(repr, (*parts, _surroundings())))
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


@contextmanager
def written_model() -> Iterator[tuple[str, Callable[[], bytes | None]]]:
    """A path that a graph may be written to, and what reads it back: None if nothing was written."""
    with tempfile.TemporaryDirectory(prefix="onnxgrad-") as folder:
        path = Path(folder) / "optimized.onnx"
        yield str(path), lambda: path.read_bytes() if path.is_file() else None


def _checksum(content: bytes | memoryview) -> bytes:
    """Against damage, not against people: who can write here can change the models too. A digest would cost more."""
    return zlib.crc32(content).to_bytes(4, "big") + len(content).to_bytes(8, "big")


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """The graphs hold layouts that suit one CPU and kernels of one version."""
    import onnxruntime

    version = ""
    with suppress(PackageNotFoundError):
        version = metadata.version("onnxgrad")
    features = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return (version, onnxruntime.__version__, platform.machine(), platform.processor(), features)
