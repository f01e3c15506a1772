"""onnxgrad inspect: what a model holds."""

import json
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: onnxgrad inspect model.onnx"


def inspect(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    dot: Annotated[
        Path | None, typer.Option(help="Write the graph to this file, for Graphviz.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Show inputs and outputs, operators, parameters, size and multiply-accumulates of a model."""
    from onnxgrad.cli.text_files import write_text
    from onnxgrad.exporters.dot import to_dot
    from onnxgrad.exporters.report import summary
    from onnxgrad.importers.onnx import load

    model = load(file)
    report = summary(model)
    if dot is not None:
        write_text(dot, to_dot(model))
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))
