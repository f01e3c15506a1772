"""onnxgrad inspect: what a model holds."""

import json
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: onnxgrad inspect model.onnx"


def inspect(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Show inputs and outputs, operators, parameters, size and multiply-accumulates of a model."""
    from onnxgrad.exporters.report import summary
    from onnxgrad.importers.onnx import load

    report = summary(load(file))
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))
