"""Run a model without inputs once: what constant folding computes."""

from collections.abc import Mapping
from typing import cast

import onnx_ir as ir

from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import Array


def evaluate(model: ir.Model) -> Mapping[str, Array]:
    """The outputs of a model without inputs, by name, computed on the CPU without optimizations.

    Raises: ModelError, OpsetError, ExecutionError.
    """
    source = read_source(model)
    names = [value.name or "" for value in model.graph.outputs]
    if not source.weights and not source.folder:
        try:
            return dict(zip(names, _run_once(source.model, names), strict=True))
        except Exception:  # onnxruntime raises Exception itself; what it refuses is mended below, or fails for good
            pass
    plan, _ = assemble(source, model, None, SessionOptions("cpu", 1, "none"))
    return cast(Mapping[str, Array], plan.run({}))  # all outputs are tensors


def _run_once(model: bytes, outputs: list[str]) -> list[Array]:
    """The outputs, by a session that is not kept."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(outputs, {})
    return results
