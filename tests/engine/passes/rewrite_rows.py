"""Rows of a table of rewrites: for each a graph where it is done, and graphs where it must not be."""

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

import onnxgrad as og
from onnxgrad.engine.compare import compare
from tests.engine.passes.checks import model_of, operators


@dataclass(frozen=True)
class Probe:
    """A graph with its initializers, and the operators that it has when all passes are through with it."""

    text: str
    operators: tuple[str, ...]
    opset: int
    imports: str
    constants: dict[str, np.ndarray]

    @property
    def model(self) -> ir.Model:
        """What is written."""
        model: ir.Model = model_of(self.text, self.opset, 10, self.imports, **self.constants)
        return model


def probe(text, left, opset=18, imports="", **constants):
    """`x: float[2] -> y: float[2] { y = Relu(x) }` in ONNX text, and the operators that are left, as "Add Mul"."""
    return Probe(text, tuple(sorted(left.split())), opset, imports, constants)


@dataclass(frozen=True)
class Row:
    """A rewrite: where it is done, and by the name of the trap, where it is not."""

    name: str
    done: Probe
    traps: dict[str, Probe]


def check_probe(case: Probe) -> ir.Model:
    """The graph after all passes: valid, with these operators, the same inputs and outputs, the same values."""
    model = case.model
    result = og.optimize_for_inference(model)
    onnx.checker.check_model(og.to_proto(result), full_check=True)
    found = operators(result)
    assert found == list(case.operators), f"{found} instead of {list(case.operators)}"
    for before, after in ((model.graph.inputs, result.graph.inputs), (model.graph.outputs, result.graph.outputs)):
        assert [value.name for value in before] == [value.name for value in after]
    compare(model, result, 2, {})
    return result
