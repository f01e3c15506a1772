"""Whether operands fit an operator, as far as it is known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import onnx_ir as ir

from onnxgrad.engine.errors import InputError, ShapeError
from onnxgrad.engine.graph.signature import VERSIONS, Signature, signature_of
from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.runtime.call_signature import dtype_name

_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "Mean", "Where"),
        *("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
)


def check_operands(op_type: str, domain: str, inputs: Sequence[ir.Value | None]) -> None:
    """Raises: ShapeError for element types that the operator does not take, or that must be one, and for sizes that
    are known and do not broadcast.
    """
    if domain not in VERSIONS:
        return
    fault = _types(signature_of(op_type, domain), inputs)
    if not fault and op_type in _BROADCASTING and not domain:
        fault = _sizes(inputs)
    if fault:
        shown = ", ".join("-" if value is None else describe_value(value) for value in inputs)
        raise ShapeError(f"the operands of {op_type} do not fit together", where=f"{op_type}({shown})", why=fault)


def _types(signature: Signature, inputs: Sequence[ir.Value | None]) -> str:
    bound: dict[str, ir.DataType] = {}
    for index, value in enumerate(inputs):
        if value is None or not isinstance(value.type, ir.TensorType) or value.dtype is None:
            continue
        parameter, kind = signature.parameter(index), value.dtype
        if parameter.types and kind not in parameter.types:
            return f"{parameter.name} cannot be {dtype_name(kind)}"
        if parameter.variadic and not parameter.alike:
            continue
        other = bound.setdefault(parameter.type_name, kind)
        if other != kind:
            return f"{dtype_name(other)} and {dtype_name(kind)} must be the same: cast one, as x.astype(y.dtype)"
    return ""


def _sizes(inputs: Sequence[ir.Value | None]) -> str:
    shapes = [value.shape for value in inputs if value is not None and value.shape is not None]
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {size for shape in shapes if len(shape) >= axis and isinstance(size := shape[-axis], int)}
        if len(sizes - {1}) > 1:
            return f"sizes {' and '.join(map(str, sorted(sizes - {1})))} of axis -{axis} do not broadcast"
    return ""


def declared_shape(shape: object, name: object) -> tuple[int | str | None, ...] | None:
    """The shape that an input is declared with. Raises: InputError for what is none, or a name that is none."""
    if not isinstance(name, str) or not name:
        raise InputError(f"{name!r} is no name of an input", fix='graph.input("x", "float32", ("batch", 784))')
    if shape is None:
        return None
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise InputError(f"{shape!r} is no shape of input {name!r}", fix='ints, names or None: ("batch", 784)')
    sizes: list[int | str | None] = []
    for size in shape:
        if size is None or (isinstance(size, str) and size):
            sizes.append(size)
        elif isinstance(size, SupportsIndex) and int(size) >= 0:
            sizes.append(int(size))
        else:
            raise InputError(f"{size!r} is no size of input {name!r}", fix='0 or more, a name ("batch"), or None')
    return tuple(sizes)
