"""Writing texts that people asked for: pages, graphs."""

import os
from pathlib import Path

from onnxgrad.engine.errors import OptionError


def write_text(path: Path, text: str) -> None:
    """Write a file that appears when it is complete. Raises: OptionError where it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise OptionError("The file cannot be written.", where=str(path), why=str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)
