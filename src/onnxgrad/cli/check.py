"""onnxgrad check: whether a file is a model that runs, and whether two files give the same outputs."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgrad.cli.inputs import FORMS, read_inputs
from onnxgrad.cli.tables import print_table
from onnxgrad.engine.errors import EquivalenceError, ExecutionError, OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import onnx_ir as ir

    from onnxgrad.engine.compare import Agreement
    from onnxgrad.engine.compile import CompiledFunction

    Arrays = dict[str, npt.NDArray[np.generic]]

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
    from onnxgrad.engine.compile import compile
    from onnxgrad.importers.onnx import load

    model, second = load(file), None if other is None else load(other)
    call = compile(model)
    results = (_first_run(model, call, inputs or (), seed + run) for run in range(runs))
    worst: dict[str, Agreement] = {}
    if second is None:
        deque(results, maxlen=0)
    else:
        for row in _agreements(call, second, compile(second), results, tolerance):
            worst[row.output] = max(worst.get(row.output, row), row, key=lambda found: found.excess)
    same = all(row.holds for row in worst.values())
    if as_json:
        report: dict[str, object] = {"files": [str(path) for path in (file, other) if path is not None], "runs": runs}
        if other is not None:
            report |= {"same": same, "outputs": {name: row.to_dict() for name, row in worst.items()}}
        typer.echo(json.dumps(report, indent=2))
    elif other is None:
        typer.echo(f"{file} is valid, and ran on {runs} inputs\n{call.signature}")
    else:
        shown = [(r.output, r.kind, f"{r.error:.1e}", f"{r.allowed:.1e}", r.verdict) for r in worst.values()]
        print_table(("output", "type", "worst error", "allowed", ""), shown)
    if not same:
        raise typer.Exit(1)


def _first_run(
    model: "ir.Model", call: "CompiledFunction", arguments: Sequence[str], seed: int
) -> "tuple[Arrays, Arrays]":
    """Inputs, and the outputs for them. Open dims have size 2, or 1 where the model does not take 2."""
    for size in (2, 1):
        given = read_inputs(model, arguments, seed, low=-1.0, size=size)
        values = {name: item.value for name, item in given.items()}
        try:
            return values, call(values)
        except ExecutionError:
            if size == 1:
                raise
    raise AssertionError


def _agreements(
    first: "CompiledFunction",
    second: "ir.Model",
    call: "CompiledFunction",
    results: "Iterable[tuple[Arrays, Arrays]]",
    tolerance: float | None,
) -> "Iterator[Agreement]":
    """How `call`, of the second model, agrees with the inputs and outputs of the first.

    Raises: EquivalenceError for other inputs or outputs; OptionError for outputs that differ from run to run.
    """
    from onnxgrad.engine.compare import agreements

    for run, (values, outputs) in enumerate(results):
        wanted = {value.name for value in second.graph.inputs if not value.is_initializer()}
        if wanted - set(values) or set(values) - set(call.input_names):
            raise EquivalenceError(
                "The models have other inputs.",
                where=f"{', '.join(first.input_names)} against {', '.join(call.input_names)}",
                fix="onnxgrad optimize --rename OLD=NEW, or --constant NAME=VALUE, makes them the same",
            )
        if run == 0 and not all(row.holds for row in agreements(outputs, first(values))):
            raise OptionError("A model whose outputs differ from run to run, as random ones do, cannot be compared.")
        yield from agreements(outputs, call(values), tolerance)
