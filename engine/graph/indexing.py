"""`x[key]` as ONNX operators: slices, integers, new axes, an ellipsis, arrays of indices and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.graph.operand import Operand, apply

_END = np.iinfo(np.int64).max
_Kind = TypeVar("_Kind", bound=Operand)
_Entry = int | slice | Operand | np.ndarray | None


def index(value: _Kind, key: object) -> _Kind:
    """numpy's `value[key]`, with indices that may be operands themselves.

    Integers (also negative) and operands of integers take elements, slices (also with negative steps) ranges; None adds
    an axis; `...` stands for the axes not named; a mask of bools takes the elements where it is true. Index arrays that
    stand beside each other are broadcast to one shape.

    Raises: InputError for too many indices, a key that is none, an integer out of bounds, a mask of another size, or
    index arrays with other axes between them.
    """
    entries = _spread(value, key if isinstance(key, tuple) else (key,))
    _check_sizes(value, entries)
    entries = [entry for mask in entries for entry in _from_mask(mask)]
    value = _slice(value, [entry for entry in entries if entry is not None])
    axes = [axis for axis, entry in enumerate(e for e in entries if e is not None) if not isinstance(entry, slice)]
    arrays = [entry for entry in entries if isinstance(entry, Operand | np.ndarray)]
    if arrays:
        return _gather(value, entries)
    if axes:
        value = _one(value, "Squeeze", axes)
    added = [place for place, entry in enumerate(e for e in entries if not isinstance(e, int)) if entry is None]
    return _one(value, "Unsqueeze", added) if added else value


def _spread(value: Operand, key: tuple[object, ...]) -> list[_Entry]:
    """One entry for each axis, and None for each new one."""
    entries = [_entry(entry) for entry in key if entry is not Ellipsis]
    consumed = sum(_axes_taken(entry) for entry in entries)
    rank = value.ndim
    if consumed > rank or len([entry for entry in key if entry is Ellipsis]) > 1:
        raise InputError(f"too many indices: {len(key)} for {rank} axes", where=repr(value))
    place = next((i for i, entry in enumerate(key) if entry is Ellipsis), len(entries))
    return [*entries[:place], *[slice(None)] * (rank - consumed), *entries[place:]]


def _check_sizes(value: Operand, entries: Sequence[_Entry]) -> None:
    """Integers and masks fit the axes whose sizes are known."""
    axis = 0
    for entry in entries:
        taken = _axes_taken(entry)
        sizes = (value.shape or ())[axis : axis + taken]
        if isinstance(entry, int):
            size = sizes[0]
            if isinstance(size, int) and not -size <= entry < size:
                raise InputError(f"index {entry} is out of bounds for axis {axis} of size {size}", where=repr(value))
        elif isinstance(entry, Operand | np.ndarray) and _is_mask(entry):
            pairs = zip(entry.shape or (), sizes, strict=False)
            if any(isinstance(own, int) and isinstance(size, int) and own != size for own, size in pairs):
                raise InputError(f"a mask of shape {entry.shape} is for other sizes than {sizes}", where=repr(value))
        axis += taken


def _entry(entry: object) -> _Entry:
    if entry is None or isinstance(entry, slice | Operand):
        return entry
    if isinstance(entry, bool | np.bool_):
        raise InputError(f"{entry!r} is no index", fix="None for a new axis, a mask of the axis' length to choose")
    if isinstance(entry, int | np.integer):
        return int(entry)
    if isinstance(entry, list | np.ndarray):
        array = np.asarray(entry)
        if array.dtype.kind in "iub":
            return array if array.dtype.kind == "b" else array.astype(np.int64)
    raise InputError(f"{entry!r} is no index", fix="integers, slices, None, ..., or arrays of integers or bools")


def _axes_taken(entry: _Entry) -> int:
    if entry is None:
        return 0
    return max(_rank(entry), 1) if _is_mask(entry) else 1


def _is_mask(entry: _Entry) -> bool:
    if isinstance(entry, np.ndarray):
        return entry.dtype.kind == "b"
    return isinstance(entry, Operand) and entry.element_type == ir.DataType.BOOL


def _rank(entry: _Entry) -> int:
    return entry.ndim if isinstance(entry, Operand | np.ndarray) else 0


def _from_mask(entry: _Entry) -> Sequence[_Entry]:
    """A mask as the indices of its true elements, one array for each of its axes."""
    if not _is_mask(entry):
        return (entry,)
    if isinstance(entry, np.ndarray):
        return [found.astype(np.int64) for found in np.nonzero(entry)]
    assert isinstance(entry, Operand)
    places = _one(entry, "NonZero")
    return [_one(places, "Gather", np.asarray(axis), axis=0) for axis in range(entry.ndim)]


def _slice(value: _Kind, entries: Sequence[_Entry]) -> _Kind:
    bounds: list[tuple[object, object, int, object]] = []
    for axis, entry in enumerate(entries):
        if isinstance(entry, int):
            bounds.append((entry, entry + 1 if entry != -1 else _END, axis, 1))
        elif isinstance(entry, slice) and entry != slice(None):
            step = 1 if entry.step is None else entry.step
            start = entry.start if entry.start is not None else 0 if step > 0 else _END
            end = entry.stop if entry.stop is not None else _END if step > 0 else -_END
            bounds.append((start, end, axis, step))
    if not bounds:
        return value
    starts, ends, axes, steps = zip(*bounds, strict=True)
    given = (_vector(starts), _vector(ends), list(axes), _vector(steps))
    return apply("Slice", (value, *given))[0]  # type: ignore[return-value]


def _vector(numbers: Sequence[object]) -> Operand | list[int]:
    """Bounds of slices, some of which may be operands."""
    if not any(isinstance(number, Operand) for number in numbers):
        return [int(number) for number in numbers]  # type: ignore[call-overload]
    parts = [
        apply("Reshape", (apply("Cast", (n,), {"to": int(ir.DataType.INT64)})[0], [1]))[0]
        if isinstance(n, Operand)
        else np.asarray([n], np.int64)
        for n in numbers
    ]
    return parts[0] if len(parts) == 1 else apply("Concat", parts, {"axis": 0})[0]  # type: ignore[return-value]


def _gather(value: _Kind, entries: Sequence[_Entry]) -> _Kind:
    """Index arrays; integers beside them, whose axes have size 1 by now, count as arrays."""
    if any(entry is None for entry in entries):
        raise InputError("a new axis and an array of indices do not go together", fix="index twice: x[i][None]")
    fancy = [axis for axis, entry in enumerate(entries) if not isinstance(entry, slice)]
    if fancy != list(range(fancy[0], fancy[-1] + 1)):
        raise InputError("slices between arrays of indices are not supported", fix="transpose first")
    found = [np.zeros((), np.int64) if isinstance(entries[axis], int) else entries[axis] for axis in fancy]
    if len(fancy) == 1:
        return apply("Gather", (value, found[0]), {"axis": fancy[0]})[0]  # type: ignore[return-value, arg-type]
    rank = value.ndim
    order = [*fancy, *(axis for axis in range(rank) if axis not in fancy)]
    moved = value if order == list(range(rank)) else value.transpose(order)
    shape = _broadcast_shape(found)
    columns = [_one_column(entry, shape) for entry in found]
    taken = apply("GatherND", (moved, _concat(columns)))[0]
    depth = max(_rank(entry) for entry in found)
    if fancy[0] == 0:
        return taken  # type: ignore[return-value]
    back = [*range(depth, depth + fancy[0]), *range(depth), *range(depth + fancy[0], taken.ndim)]
    return taken.transpose(back)  # type: ignore[return-value]


def _broadcast_shape(found: Sequence[object]) -> Operand | list[int]:
    shapes = [entry.shape for entry in found if isinstance(entry, Operand | np.ndarray)]
    if all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes):
        return list(np.broadcast_shapes(*shapes))  # type: ignore[arg-type]
    total = apply("Add", (found[0], found[1]))[0]  # type: ignore[arg-type]
    for entry in found[2:]:
        total = apply("Add", (total, entry))[0]  # type: ignore[arg-type]
    return apply("Shape", (total,))[0]


def _concat(columns: Sequence[Operand | np.ndarray]) -> Operand | np.ndarray:
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns):
        return np.concatenate(arrays, axis=-1)
    return apply("Concat", columns, {"axis": -1})[0]


def _one_column(entry: object, shape: Operand | list[int]) -> Operand | np.ndarray:
    if isinstance(entry, np.ndarray) and isinstance(shape, list):
        return np.broadcast_to(entry, shape)[..., None]
    wide = apply("Expand", (entry, shape))[0]  # type: ignore[arg-type]
    return apply("Unsqueeze", (wide, [-1]))[0]


def _one(value: _Kind, op_type: str, *inputs: Sequence[int] | np.ndarray, **attributes: object) -> _Kind:
    return apply(op_type, (value, *inputs), attributes, outputs=1)[0]  # type: ignore[return-value]
