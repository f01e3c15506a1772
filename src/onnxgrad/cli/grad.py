"""onnxgrad grad: the gradient of a model, as a model."""

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
) -> None:
    """Write a model that computes gradients, in standard ONNX.

    It has the inputs of the model and a seed "<output>.grad" for each output; its results are "<name>.grad".
    With --forward these are "<name>.tangent" and "<output>.tangent".
    """
    from onnxgrad.engine.runtime.call_signature import dtype_name
    from onnxgrad.exporters import save
    from onnxgrad.grad.forward import jvp_model
    from onnxgrad.grad.gradient_model import gradient_model

    model = (jvp_model if forward else gradient_model)(file, wrt=wrt, of=of)
    save(model, output)
    for kind, values in (("input ", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            optional = " (optional)" if value.is_initializer() else ""
            dtype = dtype_name(value.dtype) if value.dtype is not None else "?"
            typer.echo(f"{kind}  {value.name}: {dtype}{value.shape if value.shape is not None else ''}{optional}")
    typer.echo(f"{len(model.graph)} nodes, {len(model.functions)} functions: wrote {output}")
