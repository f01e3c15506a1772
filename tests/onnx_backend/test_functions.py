"""The functions of `og.op` give what onnx's backend tests say, for variables of a graph and for tensors."""

import hashlib
import warnings
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
import pytest
from onnx import defs

import onnxgrad as og
from onnxgrad.engine.graph.signature import operators, signature_of
from tests.onnx_backend.expected_failures import EXPECTED_FAILURES

SHARE = 8  # one case in so many is in the quick run


class Case(NamedTuple):
    """One node with inputs and outputs."""

    node: ir.Node
    inputs: dict[str | None, np.ndarray]
    outputs: list[np.ndarray]
    rtol: float
    atol: float


def _cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose while they are made
        from onnx.backend.test.loader import load_model_tests

        found = {case.name: case for case in load_model_tests(kind="node") if case.model is not None}
    return {
        name: case
        for name, case in found.items()
        if name not in EXPECTED_FAILURES and _is_a_call(case.model) and _holds_arrays(case)
    }


def _is_a_call(model):
    """Whether it is one node of an operator as og.op has it, on tensors and without bodies."""
    if len(model.graph.node) != 1 or any(value.type.WhichOneof("value") != "tensor_type" for value in _ports(model)):
        return False
    (node,) = model.graph.node
    if operators().get(node.op_type) != node.domain or any(a.HasField("g") for a in node.attribute):
        return False
    version = {entry.domain: entry.version for entry in model.opset_import}[node.domain]
    schema = defs.get_schema(node.op_type, version, node.domain)
    return schema.since_version == signature_of(node.op_type, node.domain).since


def _ports(model):
    return [*model.graph.input, *model.graph.output]


def _holds_arrays(case):
    return all(isinstance(value, np.ndarray | np.generic) for data in case.data_sets for part in data for value in part)


def _params():
    found = []
    for name in CASES:
        quick = int(hashlib.sha256(name.encode()).hexdigest(), 16) % SHARE == 0
        found.append(pytest.param(name, marks=[] if quick else pytest.mark.slow))
    return found


CASES = _cases()


def _read(name):
    case = CASES[name]
    graph = ir.serde.deserialize_model(case.model).graph
    (node,) = graph
    inputs, outputs = case.data_sets[0]
    named = dict(zip((value.name for value in graph.inputs), map(np.asarray, inputs), strict=True))
    return Case(node, named, list(map(np.asarray, outputs)), case.rtol, max(case.atol, 1e-6))


def _called(node, operands):
    """The outputs that the node names, of its operator as a function."""
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    given = [None if value is None else operands[value.name] for value in node.inputs]
    found = getattr(og.op, node.op_type)(*given, outputs=len(node.outputs), **attributes)
    found = found if isinstance(found, tuple) else (found,)
    return [result for result, output in zip(found, node.outputs, strict=True) if output.name]


def _check(case, results):
    assert len(results) == len(case.outputs)
    for result, wanted in zip(results, case.outputs, strict=True):
        assert result.shape == wanted.shape
        if wanted.dtype.kind in "OSUT":
            assert result.tolist() == wanted.tolist()
            continue
        assert result.dtype == wanted.dtype
        exact = wanted.dtype.kind in "iub"
        got, want = (array if exact else array.astype(np.float64) for array in (result, wanted))
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("name", _params())
def test_a_function_of_variables_computes_what_the_case_says(name):
    case = _read(name)
    graph = og.Graph()
    inputs = {value.name: value for value in case.node.inputs if value is not None}
    with graph:
        operands = {name: graph.input(name, value.dtype, value.shape.numpy()) for name, value in inputs.items()}
        results = _called(case.node, operands)
    read = graph.compile_outonly(results)
    _check(case, read(**{var.name: case.inputs[var.name] for var in read.inputs}))
    for result, wanted in zip(results, case.outputs, strict=True):
        if result.shape is not None:
            promised = [
                size if isinstance(dim, int) else dim for dim, size in zip(result.shape, wanted.shape, strict=True)
            ]
            assert list(result.shape) == promised


@pytest.mark.parametrize("name", _params())
def test_a_function_of_tensors_computes_what_the_case_says(name):
    case = _read(name)
    kinds = {value.name: value.dtype for value in case.node.inputs if value is not None}
    operands = {name: og.Tensor(array, dtype=kinds[name]) for name, array in case.inputs.items() if name in kinds}
    _check(case, [result.numpy() for result in _called(case.node, operands)])
