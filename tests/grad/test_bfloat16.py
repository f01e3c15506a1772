"""Gradient graphs of bfloat16 models fit together: every node gets operands of the types that it allows."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.shape_inference import InferenceError, infer_shapes

from tests.grad.checks import Case, build, gradient_model_of
from tests.grad.test_rules import CASES


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    for node in model.graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _in_bfloat16(case: Case) -> onnx.ModelProto | None:
    """The model of a case with bfloat16 for float16; None where the operator does not allow it."""
    model, _ = build(case, np.float16, symbolic=False)
    for info in (*model.graph.input, *model.graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
            info.type.tensor_type.elem_type = TensorProto.BFLOAT16
    for tensor in _tensors(model):
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.data_type = TensorProto.BFLOAT16
    try:
        infer_shapes(model, check_type=True, strict_mode=True)
    except InferenceError:
        return None
    return model


# One case for each operator and number of operands.
CHOSEN = {f"{case.op_type}-{len(case.inputs)}-{case.opset}": case for case in reversed(CASES)}
MODELS = {name: model for name, case in CHOSEN.items() if (model := _in_bfloat16(case)) is not None}


@pytest.mark.parametrize("name", MODELS)
def test_types_of_a_bfloat16_gradient_fit(name):
    model = MODELS[name]
    floats = [info.name for info in model.graph.input if info.type.tensor_type.elem_type == TensorProto.BFLOAT16]
    gradient = gradient_model_of(model, floats)
    inferred = infer_shapes(gradient, check_type=True)  # not strict: it miscounts the frames of STFT
    kinds = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.output}
    assert kinds == {f"{name}.grad": TensorProto.BFLOAT16 for name in floats}


def test_most_operators_allow_bfloat16():
    assert len(MODELS) > 0.6 * len(CHOSEN)
