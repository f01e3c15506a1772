"""A tensor of one number, with the shape and dtype of another."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.graph.operand import Operand, apply
from onnxgrad.engine.graph.signature import as_type
from onnxgrad.engine.runtime.call_signature import dtype_name
from onnxgrad.engine.runtime.values import NUMPY_TYPES

_FILLED = {kind for kind in NUMPY_TYPES | {ir.DataType.BFLOAT16} if kind.is_integer() or kind.is_floating_point()}
_Kind = TypeVar("_Kind", bound=Operand)


def full_like(like: _Kind, value: object) -> _Kind:
    """Every element `value`, with the shape and dtype of `like`.

    Raises: InputError for more than one value, one that the dtype cannot hold, or elements that are neither integers of
    8 bits or more nor floats of 16 or more.
    """
    kind = like.element_type
    if kind is None or kind not in _FILLED:
        raise InputError(f"unsupported value dtype: {'?' if kind is None else dtype_name(kind)}", where=repr(like))
    array = np.asarray(value)
    if array.shape not in ((), (1,)):
        raise InputError(f"the value to fill with must be scalar; got shape {array.shape}")
    number = as_type(array.reshape(()), kind, "value")
    (shape,) = apply("Shape", (like,))
    return apply("Expand", (number, shape))[0]  # type: ignore[return-value]
