"""What a model takes and gives: names, types and shapes of its inputs and outputs, as the model states them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.runtime.values import NUMPY_TYPES, Array, numpy_dtype

if TYPE_CHECKING:
    from onnxruntime import OrtValue

Dim = int | str | None
Feed: TypeAlias = "Array | list[Feed] | dict[object, object] | OrtValue | None"
_NOT_A_NAME = re.compile(r"|\W+|-?\d+|none|null|unk|unknown|dyn|dynamic|any", re.IGNORECASE)


@dataclass(frozen=True)
class TensorType:
    """A dense tensor. A dim is a size, a symbol, or None (anything); the shape is None where the rank is not known."""

    dtype: ir.DataType
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{dtype_name(self.dtype)}[{dims}]"


@dataclass(frozen=True)
class SequenceType:
    """A list of values of one type."""

    element: "ValueType"

    def __str__(self) -> str:
        return f"sequence({self.element})"


@dataclass(frozen=True)
class OptionalType:
    """A value, or None."""

    element: "ValueType"

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True)
class OpaqueType:
    """A type that is passed on unchecked (map, sparse tensor, or not stated)."""

    text: str

    def __str__(self) -> str:
        return self.text


ValueType = TensorType | SequenceType | OptionalType | OpaqueType


@dataclass(frozen=True)
class Port:
    """One input or output of a model."""

    name: str
    type: ValueType
    required: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" if self.required else f"{self.name}?: {self.type}"


@dataclass(frozen=True)
class CallSignature:
    """The inputs, first those without a default value, and the outputs, both in the order of the model."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"


def dtype_name(dtype: ir.DataType) -> str:
    """float32, int64, bfloat16, string: the name that numpy and ml_dtypes use."""
    return "string" if dtype == ir.DataType.STRING else numpy_dtype(dtype).name


def is_plain(kind: ValueType) -> bool:
    """Whether onnxruntime exchanges such values with numpy as they are."""
    match kind:
        case TensorType(dtype):
            return dtype in NUMPY_TYPES or dtype == ir.DataType.STRING
        case SequenceType(element) | OptionalType(element):
            return is_plain(element)
        case _:
            return True


def symbols_of(kind: ValueType) -> dict[int, str]:
    """The axes of a tensor type whose dims have a name: one that tells something, not "?" or "None"."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return {}
    named = {axis: dim for axis, dim in enumerate(kind.shape) if isinstance(dim, str)}
    return {axis: dim for axis, dim in named.items() if not _NOT_A_NAME.fullmatch(dim)}


def read_signature(model: onnx.ModelProto) -> CallSignature:
    """The signature of a model. Initializers that are also inputs may be fed (from IR version 4 on) but need not be.

    Raises: ModelError when an input has no type or an element type that ONNX does not define.
    """
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [
        Port(value.name, _read_type(value), not optional)
        for value in graph.input
        for optional in [value.type.HasField("optional_type")]
        if value.name not in constants
    ]
    if model.ir_version >= 4:
        inputs += [Port(value.name, _read_type(value), False) for value in graph.input if value.name in constants]
    return CallSignature(tuple(inputs), tuple(Port(value.name, _read_type(value)) for value in graph.output))


def describe(value: object) -> str:
    """The type and shape of something that was given as an input, for error messages."""
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inner = describe(value[0]) if len(value) else ""
        return f"{type(value).__name__} of {len(value)}{f' ({inner}, ...)' if inner else ''}"
    return type(value).__name__


def describe_all(values: Mapping[str, object]) -> str:
    """The same for all inputs of a call: `x: float32[2, 3], n: int`."""
    return ", ".join(f"{name}: {describe(value)}" for name, value in values.items())


def _read_type(value: onnx.ValueInfoProto) -> ValueType:
    try:
        return _convert_type(value.type)
    except ValueError as error:
        raise ModelError("an element type is not one of ONNX", where=f"value {value.name!r}", why=str(error)) from error


def _convert_type(kind: onnx.TypeProto) -> ValueType:
    match kind.WhichOneof("value"):
        case "tensor_type":
            tensor = kind.tensor_type
            if tensor.elem_type == 0:
                return OpaqueType("any")
            shape = tuple(map(_read_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
            return TensorType(ir.DataType(tensor.elem_type), shape)
        case "sequence_type":
            return SequenceType(_convert_type(kind.sequence_type.elem_type))
        case "optional_type":
            return OptionalType(_convert_type(kind.optional_type.elem_type))
        case "map_type":
            key = dtype_name(ir.DataType(kind.map_type.key_type))
            return OpaqueType(f"map({key}: {_convert_type(kind.map_type.value_type)})")
        case "sparse_tensor_type":
            return OpaqueType(f"sparse({dtype_name(ir.DataType(kind.sparse_tensor_type.elem_type))})")
        case _:
            return OpaqueType("any")


def _read_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None
