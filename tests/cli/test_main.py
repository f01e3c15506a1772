"""The program: help, version, and errors as messages."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

import onnxgrad
from onnxgrad.cli.main import app
from onnxgrad.engine.errors import ModelError


def commands_of(command: object, *names: str) -> Iterator[tuple[str, bool]]:
    """Each command by its full name, and whether it is a group of commands."""
    if names:
        yield " ".join(names), isinstance(command, TyperGroup)
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from commands_of(inner, *names, name)


FOUND = dict(commands_of(typer.main.get_command(app)))
COMMANDS = [name for name, is_group in FOUND.items() if not is_group]
HEAVY = ("onnxruntime", "torch", "rich", "numpy", "onnx", "onnx_ir")


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments), prog_name="onnxgrad")


def test_the_version_is_the_package_version():
    assert invoke("--version").output == f"onnxgrad {onnxgrad.__version__}\n"


def test_the_commands_are_found():
    assert {"inspect", "run", "models list", "models pull"} <= set(COMMANDS)


@pytest.mark.parametrize("command", FOUND)
def test_every_command_has_help(command):
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Usage: onnxgrad {command}" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_that_names_it(command):
    example = " ".join(invoke(*command.split(), "--help").output.split()).partition("Example: ")[2]
    assert f"onnxgrad {command}" in example


def test_the_help_lists_every_command():
    output = invoke("--help").output
    assert all(command.split()[0] in output for command in COMMANDS)


def test_an_error_is_a_message_and_status_1():
    result = invoke("run", "missing.onnx")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ") and "missing.onnx" in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


def test_debug_shows_where_an_error_was_raised():
    assert isinstance(invoke("--debug", "run", "missing.onnx").exception, ModelError)


@pytest.mark.parametrize("arguments", [("nonsense",), ("run",), ("inspect", "x.onnx", "--nonsense"), ("models", "x")])
def test_a_wrong_call_is_status_2(arguments):
    assert invoke(*arguments).exit_code == 2


def test_the_help_starts_without_heavy_modules():
    code = f"import sys; import onnxgrad.cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
