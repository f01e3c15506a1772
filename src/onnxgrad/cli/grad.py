"""onnxgrad grad: the gradient of a model, as a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: onnxgrad grad in.onnx gradient.onnx --wrt x --wrt fc.weight --of logits"


def grad(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    output: Annotated[Path, typer.Argument(help="Where the gradient model goes.", show_default=False)],
    wrt: Annotated[
        list[str] | None, typer.Option(help="An input or weight to differentiate by. Default: all float inputs.")
    ] = None,
    of: Annotated[list[str] | None, typer.Option(help="An output to differentiate. Default: all float ones.")] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="Derivatives along tangents of the inputs, in place of gradients.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Write a model that computes gradients, in standard ONNX.

    It has the inputs of the model and a seed "<output>.grad" for each output; its results are "<name>.grad".
    With --forward these are "<name>.tangent" and "<output>.tangent".
    """
    from onnxgrad.cli.inputs import describe_input
    from onnxgrad.exporters import save
    from onnxgrad.grad.forward import jvp_model
    from onnxgrad.grad.gradient_model import gradient_model

    model = (jvp_model if forward else gradient_model)(file, wrt=wrt, of=of)
    save(model, output)
    if as_json:
        names = {"inputs": [v.name for v in model.graph.inputs], "outputs": [v.name for v in model.graph.outputs]}
        counts = {"nodes": len(model.graph), "functions": len(model.functions)}
        typer.echo(json.dumps({"output": str(output), **names, **counts}, indent=2))
        return
    for kind, values in (("input ", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            typer.echo(f"{kind}  {describe_input(value)}{' (optional)' if value.is_initializer() else ''}")
    typer.echo(f"{len(model.graph)} nodes, {len(model.functions)} functions: wrote {output}")
