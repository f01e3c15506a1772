"""`x[key] = value` as a value: the tensor with some elements replaced."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.graph.indexing import index
from onnxgrad.engine.graph.operand import Input, Operand, apply

_Kind = TypeVar("_Kind", bound=Operand)


def assigned(x: _Kind, key: object, value: object) -> _Kind:
    """`x` with `value`, broadcast, at the places that `x[key]` takes; keys as for indexing.

    Where index arrays name a place twice, which of its values stays is not said. Raises: InputError for a bad key.
    """
    places = _places(x, key)
    given = value if isinstance(value, Operand) else _literal(x, value)
    if given.element_type != x.element_type:
        given = given.astype(x.element_type)
    updates = _one("Expand", given, places.shape if isinstance(places, np.ndarray) else _one("Shape", places))
    flat = [_one("Reshape", operand, [-1]) for operand in (x, places, updates)]
    written = _one("ScatterElements", *flat, axis=0)
    return _one("Reshape", written, _one("Shape", x))  # type: ignore[return-value]


def _places(x: Operand, key: object) -> Operand | np.ndarray:
    """The positions, in the flat tensor, of the elements that the key takes."""
    shape = x.shape
    known = shape is not None and all(isinstance(dim, int) for dim in shape)
    if known and not any(isinstance(entry, Operand) for entry in (key if isinstance(key, tuple) else (key,))):
        numbers = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)  # type: ignore[arg-type]
        try:
            return np.asarray(numbers[key])  # type: ignore[call-overload]
        except IndexError as error:
            raise InputError(f"{key!r} is no index of {x!r}", why=str(error)) from error
    size = _one("Reshape", _one("Size", x), np.asarray([], np.int64))
    return index(_one("Reshape", _one("Range", np.asarray(0), size, np.asarray(1)), _one("Shape", x)), key)


def _literal(x: Operand, value: object) -> Operand:
    array = np.asarray(value)
    return _one("CastLike", array if array.dtype != object else array.astype(str), x)


def _one(op_type: str, *inputs: Input | tuple[int, ...] | object, **attributes: object) -> Operand:
    return apply(op_type, inputs, attributes, outputs=1)[0]  # type: ignore[arg-type]
