"""onnxgrad run: one call of a model."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from onnxgrad.cli.arrays import measure, write_npz
from onnxgrad.cli.inputs import FORMS, read_inputs

EXAMPLE = "Example: onnxgrad run model.onnx --input x:1,3,224,224 --output out.npz"


def run(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help=f"{FORMS}. Else random.", metavar="INPUT")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show where each part runs, why there, and what was changed for it.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show the time of each node, over ten more runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Run a model once, on files or on random inputs, and show what comes out."""
    from onnxgrad.engine.compile import compile
    from onnxgrad.importers.onnx import load

    model = load(file)
    feeds = read_inputs(model, inputs or (), seed)
    call = compile(model)
    start = time.perf_counter()
    values = {name: given.value for name, given in feeds.items()}
    results = call(values)
    milliseconds = (time.perf_counter() - start) * 1e3
    timed = call.profile(values) if profile else None
    if output is not None:
        write_npz(output, results)
    given = {name: measure(source.value, shown=source.source) for name, source in feeds.items()}
    came = {name: measure(value) for name, value in results.items()}
    if as_json:
        rows = {name: {"source": feeds[name].source, **row.to_dict()} for name, row in given.items()}
        outputs = {name: row.to_dict() for name, row in came.items()}
        report = {"file": str(file), "providers": list(call.providers), "milliseconds": milliseconds}
        explanation = {"explanation": call.explain().to_dict()} if explain else {}
        times = {"profile": timed.to_dict()} if timed else {}
        typer.echo(json.dumps({**report, "inputs": rows, "outputs": outputs, **explanation, **times}, indent=2))
        return
    for name, row in given.items():
        typer.echo(f"input   {name}: {row}")
    for name, row in came.items():
        typer.echo(f"output  {name}: {row}")
    typer.echo(f"{milliseconds:.2f} ms on {', '.join(call.providers)}")
    if explain:
        typer.echo(str(call.explain()))
    if timed:
        typer.echo(str(timed))
