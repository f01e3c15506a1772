"""Writing texts that people asked for: pages, graphs."""

from pathlib import Path

from onnxgrad.engine.errors import OptionError


def write_text(path: Path, text: str) -> None:
    """Write a file that appears when it is complete. Raises: OptionError where it cannot be written."""
    from onnxgrad.exporters.atomic import write_atomically

    try:
        write_atomically(path, lambda file: file.write(text.encode()))
    except OSError as error:
        raise OptionError("The file cannot be written.", where=str(path), why=str(error)) from error
