"""The type stubs of og.op: they are what the generator writes, and say what the functions take."""

import ast
import inspect
from pathlib import Path

import pytest

import onnxgrad as og
from onnxgrad.engine.graph import stubs
from onnxgrad.engine.graph.signature import operators

FILE = Path(inspect.getfile(stubs)).with_name("op.pyi")
TREE = ast.parse(FILE.read_text(encoding="utf-8"))
FUNCTIONS = [node for node in TREE.body if isinstance(node, ast.FunctionDef)]


def test_the_stubs_are_what_the_generator_writes():
    assert FILE.read_text(encoding="utf-8") == stubs.stub_text() + "\n", "python -m onnxgrad.engine.graph.stubs"


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
