"""OrtValues that onnxruntime makes only while it runs a model, strings and sequences: tiny models make and open them.

They are needed where outputs cannot be numpy arrays (bfloat16, float8, int4): then all inputs must be OrtValues.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from onnxgrad.engine.errors import ExecutionError
from onnxgrad.engine.runtime.call_signature import (
    Feed,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    describe,
)
from onnxgrad.engine.runtime.values import Array, to_numpy, to_ort

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, OrtValue


def box(value: Feed, kind: ValueType) -> "OrtValue":
    """An input of any type but None, as an OrtValue. Raises: ExecutionError for maps and sparse tensors."""
    from onnxruntime import OrtValue

    if isinstance(value, OrtValue):
        return value
    match kind:
        case OptionalType(element):
            return box(value, element)
        case SequenceType(TensorType(dtype) as element) if isinstance(value, list):
            return _box_sequence([box(item, element) for item in value], dtype)
        case TensorType(dtype) if isinstance(value, np.ndarray):
            return _box_strings(value) if dtype == ir.DataType.STRING else to_ort(value, dtype)
        case _:
            raise ExecutionError(
                f"{describe(value)} cannot be passed as {kind} beside outputs of bfloat16, float8 or int4",
                fix="cast these outputs in the model",
            )


def unbox(value: "OrtValue") -> Feed:
    """An output as a numpy array, a list, or None."""
    if not value.has_value():
        return None
    if value.is_tensor():
        return to_numpy(value)
    outputs: list[Feed] = _opener(value.data_type()).run(None, {"s": value})
    return outputs[0]


def _box_strings(array: Array) -> "OrtValue":
    words = [str(word).encode() for word in array.reshape(-1)]
    tensor = onnx.TensorProto(name="s", data_type=onnx.TensorProto.STRING, dims=array.shape, string_data=words)
    graph = helper.make_graph([_identity("s")], "strings", [], [_tensor("y", onnx.TensorProto.STRING)], [tensor])
    return _session(graph).run_with_ort_values(None, {})[0]


def _box_sequence(items: Sequence["OrtValue"], dtype: ir.DataType) -> "OrtValue":
    values = {f"x{index}": item for index, item in enumerate(items)}
    return _closer(len(items), dtype).run_with_ort_values(None, values)[0]


@functools.lru_cache(maxsize=64)
def _closer(count: int, dtype: ir.DataType) -> "InferenceSession":
    names = [f"x{index}" for index in range(count)]
    if count:
        node = helper.make_node("SequenceConstruct", names, ["y"])
    else:
        node = helper.make_node("SequenceEmpty", [], ["y"], dtype=int(dtype))
    output = helper.make_tensor_sequence_value_info("y", int(dtype), None)
    return _session(helper.make_graph([node], "sequence", [_tensor(name, int(dtype)) for name in names], [output]))


@functools.lru_cache(maxsize=64)
def _opener(ort_type: str) -> "InferenceSession":
    """A model that gives back its input of type `ort_type`, such as "seq(tensor(float))"."""
    kind = ort_type.removeprefix("seq(tensor(").removesuffix("))")
    dtype = next((known for known in ir.DataType if known.name.lower() == kind), None)
    if dtype is None:
        raise ExecutionError(f"an output of type {ort_type} cannot be read")
    ports = [helper.make_tensor_sequence_value_info(name, int(dtype), None) for name in ("s", "y")]
    return _session(helper.make_graph([_identity("s")], "sequence", ports[:1], ports[1:]))


def _identity(name: str) -> onnx.NodeProto:
    return helper.make_node("Identity", [name], ["y"])


def _tensor(name: str, dtype: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None)


def _session(graph: onnx.GraphProto) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
