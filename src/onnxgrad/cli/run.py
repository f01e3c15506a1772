"""onnxgrad run."""

from pathlib import Path
from typing import Annotated
import typer

EXAMPLE = "Example: onnxgrad run model.onnx"


def run(file: Annotated[Path, typer.Argument()]) -> None:
    """Show."""
