"""What a traced function is called with: tensors in tuples, lists and dicts, and Python constants beside them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.graph.var import Var
from onnxgrad.grad.tape.payload import HOST
from onnxgrad.grad.tape.tensor import Tensor

Axes = Mapping[int, str]
"""Axes whose sizes may differ from call to call, with the names that they have in the graph."""
Leaf = Tensor | np.ndarray


class Same:
    """An object as a part of a key: kept alive, equal to itself only."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass
class Arguments:
    """One call: its tensors in order, and a key that is equal for calls that one capture serves."""

    leaves: list[Leaf]
    key: Hashable
    has_vars: bool = False


@dataclass
class Reader:
    """Reads the arguments of calls of one function. dynamic: by the name of a parameter, its axes that may differ."""

    names: Sequence[str]
    dynamic: Mapping[str, Axes] = field(default_factory=dict)

    def read(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Arguments:
        """The tensors and the key of a call."""
        found = Arguments([], None)
        dynamic = self.dynamic
        names = self.names
        parts = [
            self._key(value, found, dynamic.get(names[i] if i < len(names) else "") if dynamic else None)
            for i, value in enumerate(args)
        ]
        if kwargs:
            parts += [(name, self._key(value, found, dynamic.get(name))) for name, value in kwargs.items()]
        if len(found.leaves) > 1:
            parts.append(_repetitions(found.leaves))
        found.key = tuple(parts)
        return found

    def _key(self, value: object, found: Arguments, axes: Axes | None) -> Hashable:
        if isinstance(value, Tensor):
            found.leaves.append(value)
            shape: tuple[object, ...] | None = value.shape
            if axes and shape is not None:
                shape = tuple([None if axis in axes else size for axis, size in enumerate(shape)])
            return (value.element_type, shape, value.device)
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            found.leaves.append(array)
            kind = ir.DataType.STRING if array.dtype.kind in "OSUT" else ir.DataType.from_numpy(array.dtype)
            sizes = tuple([None if axes and axis in axes else size for axis, size in enumerate(array.shape)])
            return (kind, sizes, HOST)
        if isinstance(value, list | tuple):
            return (type(value), *[self._key(entry, found, axes) for entry in value])
        if isinstance(value, dict):
            return (dict, *[(_constant(name), self._key(entry, found, axes)) for name, entry in value.items()])
        found.has_vars = found.has_vars or isinstance(value, Var)
        return _constant(value)


def _repetitions(leaves: Sequence[Leaf]) -> Hashable:
    """Which tensors are the same as one before."""
    places = {id(leaf): index for index, leaf in reversed(list(enumerate(leaves)))}
    if len(places) == len(leaves):
        return ()
    return tuple(places[id(leaf)] for leaf in leaves)


def _constant(value: object) -> Hashable:
    """A Python value: numbers and strings by type and value, other hashable objects by equality, else by identity."""
    if isinstance(value, float):
        return (float, value.hex())
    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value), value)
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return (type(value), value)


Replace = Callable[[str, Leaf, Axes | None], object]


def replace_leaves(value: object, path: str, replace: Replace, axes: Axes | None = None) -> object:
    """The value with what `replace(path, leaf, axes)` gives in the places of its tensors, in the order of `Reader`."""
    if isinstance(value, Tensor | np.ndarray):
        return replace(path, value, axes)
    if isinstance(value, np.generic):
        return replace(path, np.asarray(value), axes)
    if isinstance(value, list | tuple):
        return rebuilt(value, [replace_leaves(v, f"{path}.{i}", replace, axes) for i, v in enumerate(value)])
    if isinstance(value, dict):
        return {name: replace_leaves(entry, f"{path}.{name}", replace, axes) for name, entry in value.items()}
    return value


def rebuilt(like: list[object] | tuple[object, ...], entries: list[object]) -> object:
    """A sequence of the same type; named tuples keep their names."""
    if isinstance(like, list):
        return entries
    make: Callable[..., object] | None = getattr(type(like), "_make", None)
    return tuple(entries) if make is None else make(entries)


def described(value: object, path: str, axes: Axes | None = None) -> Iterator[tuple[str, str]]:
    """Each tensor and constant of an argument: the way to it, and what a capture depends on."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        shape = (value.shape if isinstance(value, Tensor) else np.shape(value)) or ()
        sizes = [axes[axis] if axes and axis in axes else str(size) for axis, size in enumerate(shape)]
        place = "" if not isinstance(value, Tensor) or value.device == HOST else f" on {value.device.kind}"
        yield path, f"{np.dtype(value.dtype).name}[{', '.join(sizes)}]{place}"
    elif isinstance(value, list | tuple):
        yield path, f"{type(value).__name__} of {len(value)}"
        for index, entry in enumerate(value):
            yield from described(entry, f"{path}.{index}", axes)
    elif isinstance(value, dict):
        yield path, f"dict of {', '.join(map(str, value))}"
        for name, entry in value.items():
            yield from described(entry, f"{path}.{name}", axes)
    else:
        yield path, repr(value)
