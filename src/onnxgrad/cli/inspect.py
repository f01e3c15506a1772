"""onnxgrad inspect."""

from pathlib import Path
from typing import Annotated
import typer

EXAMPLE = "Example: onnxgrad inspect model.onnx"


def inspect(file: Annotated[Path, typer.Argument()]) -> None:
    """Show."""
