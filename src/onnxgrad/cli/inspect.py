"""onnxgrad inspect: what a model holds."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import onnx_ir as ir

EXAMPLE = "Example: onnxgrad inspect model.onnx"


def inspect(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    dot: Annotated[
        Path | None, typer.Option(help="Write the graph to this file, for Graphviz.", show_default=False)
    ] = None,
    list_parameters: Annotated[
        bool,
        typer.Option("--parameters", help="Show the parameters that can be trained, by name, in place of all else."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Show inputs and outputs, operators, parameters, size and multiply-accumulates of a model."""
    from onnxgrad.cli.text_files import write_text
    from onnxgrad.exporters.dot import to_dot
    from onnxgrad.exporters.report import summary
    from onnxgrad.importers.onnx import load

    model = load(file)
    if dot is not None:
        write_text(dot, to_dot(model))
    if list_parameters:
        _show_parameters(model, as_json)
        return
    report = summary(model)
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))


def _show_parameters(model: "ir.Model", as_json: bool) -> None:
    """What patterns of names (finetune --trainable) choose from."""
    from onnxgrad.cli.inputs import describe_input
    from onnxgrad.grad.gradient_model import differentiable_copy
    from onnxgrad.grad.parameters import lift_weights, parameters

    graph = differentiable_copy(model).graph
    lift_weights(graph)
    found = parameters(graph)
    if as_json:
        typer.echo(json.dumps([value.name for value in found], indent=2))
    else:
        typer.echo("\n".join(map(describe_input, found)) or "no parameter that can be trained")
