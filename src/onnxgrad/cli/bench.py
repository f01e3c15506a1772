"""onnxgrad bench: how fast a model is, beside plain onnxruntime."""

import json
from pathlib import Path
from typing import Annotated

import typer

from onnxgrad.cli.inputs import FORMS, read_inputs

EXAMPLE = "Example: onnxgrad bench model.onnx --input x:8,3,224,224 --threads 1"


def bench(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help=f"{FORMS}. Else random.", metavar="INPUT")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to measure.")] = 5.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of one operator; onnxruntime's choice without it.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help='"cpu" or "cuda"; CUDA where it works without it.', show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Time a model against plain onnxruntime: calls of one and the other in turn, with percentiles and their ratio."""
    from onnxgrad.engine.compile import compile
    from onnxgrad.engine.runtime.bench import compare_speed
    from onnxgrad.importers.onnx import load

    model = load(file)
    feeds = {name: given.value for name, given in read_inputs(model, inputs or (), seed).items()}
    call = compile(model, providers=provider, threads=threads)
    found = compare_speed(file, call, feeds, seconds, providers=provider, threads=threads)
    if as_json:
        where = {"file": str(file), "providers": list(call.providers), "threads": threads}
        typer.echo(json.dumps({**where, **found.to_dict()}, indent=2))
        return
    typer.echo(f"{file} on {', '.join(call.providers)}")
    typer.echo(str(found))
