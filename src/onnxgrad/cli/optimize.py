"""onnxgrad optimize: a smaller, faster file with the same answers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxgrad.engine.optimize import Optimization
    from onnxgrad.exporters.report import Summary

EXAMPLE = "Example: onnxgrad optimize in.onnx out.onnx --check 3 --input-shape x:1,3,224,224"


def optimize(
    source: Annotated[Path | None, typer.Argument(help="An ONNX file.", show_default=False)] = None,
    target: Annotated[Path | None, typer.Argument(help="The file to write.", show_default=False)] = None,
    check: Annotated[
        int, typer.Option("--check", metavar="N", help="Compare both models on N random inputs.", min=0)
    ] = 0,
    input_shape: Annotated[
        list[str] | None,
        typer.Option(
            "--input-shape", metavar="NAME:DIM,DIM,...", help="Fix the shape of an input; ? leaves a dim open."
        ),
    ] = None,
    opset: Annotated[int | None, typer.Option("--opset", help="Raise the model to this opset first.")] = None,
    disable: Annotated[
        list[str] | None, typer.Option("--disable", metavar="NAME", help="Leave out a pass; may be repeated.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="NAME", help="f16_io_f32_comp (weights only), f16_io_comp or bfloat16."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="SIZE", help="Another first dim for all inputs: a number or a name."),
    ] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option("--constant", metavar="NAME=VALUE", help="Fix an input: a number, true, false or a .npy file."),
    ] = None,
    add_output: Annotated[
        list[str] | None, typer.Option("--add-output", metavar="NAME", help="Make a value an output.")
    ] = None,
    remove_output: Annotated[
        list[str] | None, typer.Option("--remove-output", metavar="NAME", help="Drop an output.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Rename an input or output.")
    ] = None,
    fuse_preprocess: Annotated[
        str | None,
        typer.Option(
            "--fuse-preprocess", metavar="[NAME:]LAYOUT", help="Take images as bytes, NHWC or NCHW, and normalize them."
        ),
    ] = None,
    mean: Annotated[str, typer.Option(help="Of these images, by channel: (pixel / 255 - mean) / std.")] = "0",
    std: Annotated[str, typer.Option(help="Of these images, by channel.")] = "1",
    reverse_channels: Annotated[
        bool, typer.Option("--reverse-channels", help="These images are BGR, and the model wants RGB, or so.")
    ] = False,
    fuse_conv_bias_nonlinearity: Annotated[
        bool,
        typer.Option(
            "--fuse-conv-bias-nonlinearity",
            help="Conv and activation as one node; for onnxruntime only: not portable.",
        ),
    ] = False,
    fuse_conv_bias_with_z: Annotated[
        bool,
        typer.Option("--fuse-conv-bias-with-z", help="Relu(Conv + z) as one node; for onnxruntime only: not portable."),
    ] = False,
    weight_preprocess: Annotated[bool, typer.Option("--weight-preprocess", hidden=True)] = False,
    layout: Annotated[str | None, typer.Option("--layout", hidden=True)] = None,
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write what was done, and both graphs, as an HTML page."),
    ] = None,
    list_passes: Annotated[bool, typer.Option("--list-passes", help="Show all passes and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Make a model smaller and faster; its outputs stay the same up to rounding."""
    from onnxgrad.engine.optimize import optimization_report, optimize_for_inference, pass_names

    if list_passes:
        _show_passes(pass_names(), as_json)
        return
    if source is None or target is None:
        raise OptionError("Two files are needed: the model, and the file to write.", fix=EXAMPLE.partition(": ")[2])
    from onnxgrad.cli.image_input import read_image_input
    from onnxgrad.cli.interface import Interface
    from onnxgrad.exporters.atomic import check_targets
    from onnxgrad.exporters.onnx import save
    from onnxgrad.exporters.report import summary
    from onnxgrad.importers.onnx import load

    check_targets(target, page)
    interface = Interface(batch, constant or (), add_output or (), remove_output or (), rename or ())
    model = interface.apply(load(source))
    shapes = dict(_read_shape(text) for text in input_shape or ())
    result = optimize_for_inference(
        model,
        disable=disable or (),
        opset=opset,
        input_shapes=shapes or None,
        check=check,
        precision=precision,
        fuse_preprocess=read_image_input(fuse_preprocess, mean, std, reverse_channels),
        fuse_conv_bias_nonlinearity=fuse_conv_bias_nonlinearity,
        fuse_conv_bias_with_z=fuse_conv_bias_with_z,
        weight_preprocess=weight_preprocess,
        layout=layout,
    )
    save(result, target)
    before, after, report = summary(model), summary(result), optimization_report(result)
    if page is not None:
        _write_page(page, model, result, f"{source.name} \u2192 {target.name}", check)
    if as_json:
        content = {"before": before.to_dict(), "after": after.to_dict(), "optimization": report.to_dict()}
        typer.echo(json.dumps({**content, "checked": check}, indent=2))
    else:
        _show_result(before, after, report, check)


def _write_page(page: Path, before: "ir.Model", after: "ir.Model", title: str, check: int) -> None:
    from onnxgrad.cli.text_files import write_text
    from onnxgrad.engine.optimize import optimization_report
    from onnxgrad.exporters.html_report import html_report

    report = optimization_report(after)
    write_text(page, html_report(before, after, report.hits, report.seconds, title, check))


def _show_passes(names: dict[str, str], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(names, indent=2))
        return
    width = max(map(len, names))
    for name, description in names.items():
        typer.echo(f"{name:{width}}  {description}")


def _read_shape(text: str) -> tuple[str, list[int | str | None]]:
    """`x:1,3,?,N` -> name, dimensions; the name may hold colons."""
    name, colon, dims = text.rpartition(":")
    parts = [part.strip() for part in dims.split(",")] if dims else []
    if not colon or not all(parts):
        raise OptionError(f"{text!r} is not a shape of an input.", fix="--input-shape NAME:DIM,DIM,...")
    return name, [int(part) if part.isdecimal() else None if part == "?" else part for part in parts]


def _show_result(before: "Summary", after: "Summary", report: "Optimization", check: int) -> None:
    from onnxgrad.cli.tables import print_table

    kinds = sorted({*before.operators, *after.operators}, key=lambda kind: -before.operators.get(kind, 0))
    rows = [(kind, before.operators.get(kind, 0), after.operators.get(kind, 0)) for kind in kinds]
    totals = [
        ("nodes", before.nodes, after.nodes),
        ("parameters", before.parameter_count, after.parameter_count),
        ("bytes", before.file_bytes, after.file_bytes),
        ("MACs", before.macs, after.macs),
        ("bytes of values at one time", before.peak_bytes, after.peak_bytes),
    ]
    print_table(("", "before", "after"), [(name, f"{a:,}", f"{b:,}") for name, a, b in (*rows, *totals)])
    if report.hits:
        print_table(("pass", "changes"), [(name, str(count)) for name, count in report.hits.items()])
    if report.errors:
        print_table(("output", "largest error"), [(name, f"{error:.2e}") for name, error in report.errors.items()])
    checked = f", checked on {check} random inputs" if check else ""
    typer.echo(f"{report.seconds:.2f} s in {report.rounds} rounds{checked}")
