"""Run a model without inputs once: what constant folding computes."""

from collections.abc import Mapping
from typing import cast

import onnx_ir as ir

from onnxgrad.engine.errors import ExecutionError, ModelError, OpsetError
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.plan import SessionRegion
from onnxgrad.engine.runtime.session import create_passing_session
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import Array


def evaluate(model: ir.Model) -> Mapping[str, Array]:
    """The outputs of a model without inputs, by name, computed on the CPU without optimizations.

    Raises: ModelError, OpsetError, ExecutionError.
    """
    source = read_source(model)
    try:
        region = SessionRegion(create_passing_session(source))
        results = dict(zip(region.outputs, region.run({}), strict=True))
    except (ModelError, OpsetError, ExecutionError):  # what onnxruntime refuses is mended, and fails for good here
        plan, _ = assemble(source, model, None, SessionOptions("cpu", 1, "none"))
        results = plan.run({})
    return cast(Mapping[str, Array], results)  # all outputs are tensors
