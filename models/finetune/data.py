"""Batches out of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from onnxgrad.engine.errors import InputError

Array = np.ndarray
Arrays = Array | Sequence[Array] | Mapping[str, Array]
Data = tuple[Arrays, Arrays]
"""(inputs, labels): each one array, several in the order of the model's inputs, or a dict by name."""


def by_name(arrays: Arrays, names: Sequence[str], what: str) -> dict[str, Array]:
    """`arrays` as a dict from the given names. Raises: InputError if they do not fit the names."""
    if isinstance(arrays, Mapping):
        found = {name: np.asarray(array) for name, array in arrays.items()}
    else:
        listed = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
        if len(names) == 1 and not isinstance(arrays, np.ndarray) and len(listed) != 1:
            listed = [np.asarray(arrays)]
        found = dict(zip(names, map(np.asarray, listed), strict=False))
        if len(listed) != len(names):
            raise InputError(f"{len(listed)} {what} arrays for {len(names)} {what}s: {', '.join(names)}")
    if set(found) != set(names):
        unknown, missing = sorted(set(found) - set(names)), sorted(set(names) - set(found))
        raise InputError(
            f"the {what}s do not fit the model: unknown {unknown or 'none'}, missing {missing or 'none'}",
            where=f"{what}s of the model: {', '.join(names)}",
        )
    return found


def as_feeds(data: Data, inputs: Sequence[str], labels: Sequence[str]) -> dict[str, Array]:
    """Inputs and labels as one dict of arrays of equal length. Raises: InputError if they do not fit."""
    given: object = data  # whatever the caller gave
    if not isinstance(given, tuple) or len(given) != 2:
        raise InputError(f"data must be a pair (inputs, labels), not {type(given).__name__}", fix="fit((x, y))")
    feeds = {**by_name(data[0], inputs, "input"), **by_name(data[1], labels, "label")}
    lengths = {name: len(array) if array.ndim else -1 for name, array in feeds.items()}
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        spelled = ", ".join(f"{name}: {n if n >= 0 else 'a scalar'}" for name, n in lengths.items())
        raise InputError("all arrays need the same number of examples along axis 0", where=spelled)
    if not next(iter(lengths.values())):
        raise InputError("the data holds no example")
    return feeds


def batches(
    feeds: Mapping[str, Array], size: int, rng: np.random.Generator | None = None, keep_last: bool = True
) -> Iterator[dict[str, Array]]:
    """Slices of `size` examples, in random order if there is a generator; the last may be smaller, or is left out."""
    count = len(next(iter(feeds.values())))
    order = np.arange(count) if rng is None else rng.permutation(count)
    for start in range(0, count if keep_last or count < size else count - size + 1, size):
        picked = order[start : start + size]
        yield {name: array[start : start + size] if rng is None else array[picked] for name, array in feeds.items()}


def number_of_batches(count: int, size: int, keep_last: bool = True) -> int:
    """How many batches `batches` makes of `count` examples."""
    return max(1, -(-count // size) if keep_last else count // size)


def split(data: Data, share: float, seed: int = 0) -> tuple[Data, Data]:
    """The examples in two parts at random, the second with about that share of them, at least one."""
    count = _length(data[0])
    order = np.random.default_rng(seed).permutation(count)
    held_out = min(count - 1, max(1, round(count * share)))
    first, second = order[held_out:], order[:held_out]
    return (_pick(data[0], first), _pick(data[1], first)), (_pick(data[0], second), _pick(data[1], second))


def _length(arrays: Arrays) -> int:
    if isinstance(arrays, np.ndarray):
        return len(arrays)
    return len(next(iter(arrays.values() if isinstance(arrays, Mapping) else arrays)))


def _pick(arrays: Arrays, index: Array) -> Arrays:
    if isinstance(arrays, np.ndarray):
        picked: Array = arrays[index]
        return picked
    if isinstance(arrays, Mapping):
        return {name: array[index] for name, array in arrays.items()}
    return [array[index] for array in arrays]
