"""The rules of style that ruff cannot check: length of files and functions, docstrings, names of modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import all_python_files, label, module_name, source_files

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    """Lines of the body. Its docstring does not count, nor the signature, which for a command is a table of options."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def is_overload(function: Function) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[2] == "overload" for decorator in function.decorator_list)


def is_override(function: Function) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[2] == "override" for decorator in function.decorator_list)


def public_definitions(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Public functions and classes of a module, and the public methods of those classes."""
    for node in body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            yield node
            yield from public_definitions(node.body)
        elif not (is_overload(node) or is_override(node)):
            yield node


@pytest.mark.parametrize("path", all_python_files(), ids=label)
def test_a_file_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", all_python_files(), ids=label)
def test_a_function_fits_a_screen(path):
    too_long = {f.name: lines_of(f) for f in functions(parse(path)) if lines_of(f) > MAX_FUNCTION_LINES}
    assert not too_long


@pytest.mark.parametrize("path", source_files(), ids=label)
def test_what_is_public_has_a_docstring(path):
    tree = parse(path)
    assert ast.get_docstring(tree), "the module has none"
    if any(part.startswith("_") for part in module_name(path).split(".")):
        return
    without = {node.name for node in public_definitions(tree.body) if not ast.get_docstring(node)}
    if "passes" in path.parts:
        without -= {"pattern", "check", "rewrite"}  # the class says what its rewrite does
    assert not without


@pytest.mark.parametrize("path", all_python_files(), ids=label)
def test_a_module_is_named_for_what_it_holds(path):
    assert not {path.stem.strip("_"), path.parent.name} & BANNED_NAMES
    assert path.stem == path.stem.lower()


def test_a_long_function_is_seen():
    source = "def f():\n    '''Say\n    what.'''\n" + "    x = 1\n" * (MAX_FUNCTION_LINES + 1)
    (function,) = functions(ast.parse(source))
    assert lines_of(function) == MAX_FUNCTION_LINES + 1


def test_signature_and_docstring_are_not_counted():
    (function,) = functions(ast.parse("def f(\n    a,\n    b,\n):\n    '''Say\n    what.'''\n    x = 1\n    return x"))
    assert lines_of(function) == 2


def test_a_missing_docstring_is_seen():
    tree = ast.parse("class A:\n    def b(self): ...\n    def _c(self): ...\ndef _d(): ...\ndef e(): ...")
    assert [node.name for node in public_definitions(tree.body)] == ["A", "b", "e"]
