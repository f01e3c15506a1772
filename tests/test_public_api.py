"""The names of `import onnxgrad as og`: all there, documented, typed, and loaded only when used."""

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import onnxgrad as og
from tests.sources import PACKAGE

NAMES = sorted(og._MODULES | og._EXPORTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves_and_is_documented(name):
    value = getattr(og, name)
    assert inspect.getdoc(value)
    assert name in dir(og)


@pytest.mark.parametrize("name", sorted(og._EXPORTS))
def test_a_public_name_is_taken_from_where_it_is_defined(name):
    value = getattr(og, name)
    assert value.__name__ == name
    assert value.__module__ == og._EXPORTS[name]


@pytest.mark.parametrize("name", sorted(og._MODULES))
def test_a_public_module_is_the_module(name):
    assert getattr(og, name) is importlib.import_module(og._MODULES[name])


def test_all_lists_every_public_name_once():
    assert sorted(og.__all__) == sorted(["__version__", *NAMES])


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    assert seen == og._MODULES | {name: f"{module}.{name}" for name, module in og._EXPORTS.items()}


def test_the_version_is_that_of_the_package():
    assert og.__version__ == importlib.metadata.version("onnxgrad")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'onnxgrad' has no attribute 'lod'"):
        og.lod  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_none_of_its_modules():
    code = "import sys, onnxgrad; print([name for name in sys.modules if name.startswith('onnxgrad.')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_every_error_is_an_onnxgrad_error():
    classes = [value for value in vars(og.errors).values() if inspect.isclass(value)]
    assert len(classes) > 10
    assert all(issubclass(value, og.errors.OnnxGradError) for value in classes)
