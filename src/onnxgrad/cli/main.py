"""The `onnxgrad` program: the table of commands, and what all of them share.

A command is a function in a file of its own, which imports what is heavy inside the function, and an EXAMPLE. It
raises OnnxGradError where it cannot go on, and `typer.Exit(1)` where a check that it made has failed.
"""

from typing import Annotated

import typer
from typer.core import TyperGroup

from onnxgrad import __version__
from onnxgrad.cli import bench, check, demo, finetune, grad, inspect, models, optimize, quantize, run
from onnxgrad.engine.errors import OnnxGradError


class Commands(TyperGroup):
    """Shows an OnnxGradError as its message, with exit status 1; with --debug, as a traceback."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # the base class of a private module
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except OnnxGradError as error:
            if ctx.params["debug"]:
                raise
            typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=Commands,
    name="onnxgrad",
    help="Load, optimize, run, differentiate and fine-tune ONNX models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("inspect", epilog=inspect.EXAMPLE)(inspect.inspect)
app.command("optimize", epilog=optimize.EXAMPLE)(optimize.optimize)
app.command("quantize", epilog=quantize.EXAMPLE)(quantize.quantize)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("grad", epilog=grad.EXAMPLE)(grad.grad)
app.command("finetune", epilog=finetune.EXAMPLE)(finetune.finetune)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(models.app, name="models")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onnxgrad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options that stand before the command; `Commands` reads them."""


def main() -> None:
    """The entry point of the installed program."""
    app()
