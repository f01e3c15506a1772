"""onnxgrad quantize: a model in int8, and how far it is from the original."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import onnx_ir as ir

    from onnxgrad.models.quantize import OutputError

    Calls = list[dict[str, npt.NDArray[np.generic]]]

EXAMPLE = (
    "Example: onnxgrad quantize in.onnx out.onnx\n\n"
    "Example: onnxgrad quantize in.onnx out.onnx --static --data photos/ --mean 0.485,0.456,0.406"
)


def quantize(
    source: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    static: Annotated[
        bool, typer.Option("--static", help="Fixed ranges for activations, found on --data; for convolutions.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Inputs to calibrate and measure with: .npz arrays or a folder of images.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples of one call, where the model leaves it open.")] = 8,
    limit: Annotated[int, typer.Option(min=1, help="Take so many examples of the data.")] = 256,
    mean: Annotated[str, typer.Option(help="Of images, by channel: (pixel / 255 - mean) / std.")] = "0.5",
    std: Annotated[str, typer.Option(help="Of images, by channel.")] = "0.5",
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale for a weight, not one for each output channel.")
    ] = False,
    reduce_range: Annotated[
        bool, typer.Option("--reduce-range", help="Weights of 7 bits, for x86 processors without VNNI.")
    ] = False,
    operator: Annotated[list[str] | None, typer.Option(help="Quantize only this operator; may be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this node alone; may be repeated.")] = None,
    max_error: Annotated[
        float | None, typer.Option("--max-error", min=0, help="Fail, and write nothing, above this relative error.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Make a model of int8 weights (dynamic), or weights and activations (static), and show the error per output."""
    from onnxgrad.cli.image_input import read_numbers
    from onnxgrad.exporters.atomic import check_targets
    from onnxgrad.exporters.onnx import save
    from onnxgrad.importers.onnx import load
    from onnxgrad.models.quantize import measure_errors
    from onnxgrad.models.quantize import quantize as to_int8

    if static and data is None:
        raise OptionError("--static needs --data: the ranges of activations are found on it.")
    check_targets(target)
    model = load(source)
    calls = _read_calls(model, data, batch, limit, read_numbers(mean), read_numbers(std))
    result = to_int8(
        model,
        calls if static else None,
        per_channel=not per_tensor,
        reduce_range=reduce_range,
        operators=operator or (),
        exclude=exclude or (),
    )
    errors = measure_errors(model, result, calls)
    bad = [error for error in errors if max_error is not None and not error.relative <= max_error]
    if not bad:
        save(result, target)
    _show(source, target, errors, "random inputs" if data is None else str(data), as_json, bool(bad))
    if bad:
        raise typer.Exit(1)


def _read_calls(
    model: "ir.Model", data: Path | None, batch: int, limit: int, mean: list[float], std: list[float]
) -> "Calls":
    """From the data, or three calls of random inputs."""
    from onnxgrad.cli.inputs import read_inputs
    from onnxgrad.models.calibration import read_calls

    if data is not None:
        return read_calls(data, model, batch, limit, mean, std)
    return [{name: given.value for name, given in read_inputs(model, (), seed).items()} for seed in range(3)]


def _show(
    source: Path, target: Path, errors: "tuple[OutputError, ...]", data: str, as_json: bool, failed: bool
) -> None:
    from onnxgrad.cli.tables import print_table

    sizes = {"before": _file_bytes(source), "after": None if failed else _file_bytes(target)}
    if as_json:
        rows = [error.to_dict() for error in errors]
        typer.echo(json.dumps({"bytes": sizes, "data": data, "errors": rows, "written": not failed}, indent=2))
        return
    head = ("output", "relative error", "largest", "cosine", "same largest entry")
    figures = [
        (
            e.output,
            f"{e.relative:.3g}",
            f"{e.largest:.3g}",
            f"{e.cosine:.5f}",
            "" if e.same is None else f"{e.same:.1%}",
        )
        for e in errors
    ]
    print_table(head, figures)
    typer.echo(f"measured on {data}")
    if failed:
        typer.secho("the error is larger than --max-error: nothing was written", fg=typer.colors.RED, err=True)
    else:
        typer.echo(f"{source} {sizes['before']:,} bytes -> {target} {sizes['after']:,} bytes")


def _file_bytes(file: Path) -> int:
    """With the file of its external data, where there is one beside it."""
    data = file.with_name(f"{file.name}.data")
    return file.stat().st_size + (data.stat().st_size if data.exists() else 0)
