"""onnxgrad check: whether a file is a model that runs, and whether two files give the same outputs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgrad.cli.inputs import FORMS, read_inputs
from onnxgrad.cli.tables import print_table

if TYPE_CHECKING:
    from onnxgrad.engine.compare import Agreement

EXAMPLE = "Example: onnxgrad check before.onnx after.onnx --runs 5 --input x:1,3,224,224"


def check(
    file: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(help="A file that should give the same outputs.", show_default=False)
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help=f"{FORMS}. Else random.", metavar="INPUT")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="How many random inputs to compare on.")] = 3,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, help="Largest difference, as a part of the largest number; by dtype without it."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Check a model: that it is valid and runs; with two files, that both give the same outputs.

    Exits with 1 where it is not so.
    """
    from onnxgrad.engine.compare import agreements
    from onnxgrad.engine.compile import compile
    from onnxgrad.importers.onnx import load

    model = load(file)
    call = compile(model)
    second = None if other is None else compile(load(other))
    worst: dict[str, Agreement] = {}
    for run in range(runs):
        values = {name: given.value for name, given in read_inputs(model, inputs or (), seed + run, low=-1.0).items()}
        outputs = call(values)
        for row in () if second is None else agreements(outputs, second(values), tolerance):
            worst[row.output] = max(worst.get(row.output, row), row, key=lambda found: found.excess)
    if as_json:
        rows = {name: row.to_dict() for name, row in worst.items()}
        files = [str(path) for path in (file, other) if path is not None]
        typer.echo(json.dumps({"files": files, "runs": runs, "outputs": rows}, indent=2))
    elif other is None:
        typer.echo(f"{file} is valid, and ran on {runs} inputs\n{call.signature}")
    else:
        shown = [(r.output, r.kind, f"{r.error:.1e}", f"{r.allowed:.1e}", r.verdict) for r in worst.values()]
        print_table(("output", "type", "worst error", "allowed", ""), shown)
    if not all(row.holds for row in worst.values()):
        raise typer.Exit(1)
