"""The type stubs of og.op: they are what the generator writes, and say what the functions take."""

import ast
import inspect
from pathlib import Path

import onnx
import pytest

import onnxgrad as og
from onnxgrad.engine.graph import stubs
from onnxgrad.engine.graph.signature import VERSIONS, operators

FILE = Path(inspect.getfile(stubs)).with_name("op.pyi")
TREE = ast.parse(FILE.read_text(encoding="utf-8"))
FUNCTIONS = [node for node in TREE.body if isinstance(node, ast.FunctionDef)]


def test_the_stubs_are_what_the_generator_writes():
    assert FILE.read_text(encoding="utf-8") == stubs.stub_text() + "\n", "python -m onnxgrad.engine.graph.stubs"


def test_P14_there_is_a_function_for_every_operator_of_the_opset():
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain in VERSIONS]
    names = {schema.name for schema in schemas if schema.since_version <= VERSIONS[schema.domain]}
    deprecated = {schema.name for schema in schemas if schema.deprecated}
    assert names - deprecated <= set(operators())
    assert {"Cast", "Einsum", "Mod"} <= set(operators())


def test_every_operator_has_a_stub():
    assert {function.name for function in FUNCTIONS} == {*operators(), "custom"}


@pytest.mark.parametrize("name", ["Conv", "Clip", "TopK", "Split", "Concat", "RandomNormal", "Loop", "Attention"])
def test_a_stub_takes_what_the_function_takes(name):
    stub = next(function for function in FUNCTIONS if function.name == name)
    arguments = [entry.arg for entry in (*stub.args.args, *([stub.args.vararg] if stub.args.vararg else ()))]
    arguments += [entry.arg for entry in stub.args.kwonlyargs]
    assert arguments == list(inspect.signature(getattr(og.op, name)).parameters)


def test_a_stub_has_the_first_sentence_of_the_specification():
    relu = next(function for function in FUNCTIONS if function.name == "Relu")
    assert "rectified linear" in " ".join((ast.get_docstring(relu) or "").split())
