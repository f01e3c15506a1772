"""A model over a stream of inputs: lazily, in order, in batches and by several threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from onnxgrad.engine.errors import ExecutionError, InputError, OptionError
from onnxgrad.engine.runtime.call_signature import CallSignature, Feed, TensorType, describe
from onnxgrad.engine.runtime.feeds import FeedReader
from onnxgrad.engine.runtime.values import Array

Run = Callable[[dict[str, Feed]], dict[str, Feed]]
Results = list[dict[str, Feed]]


def run_over(
    run: Run, reader: FeedReader, items: Iterable[object], batch_size: int | None, workers: int
) -> Iterator[dict[str, Feed]]:
    """The outputs for each item, in order. An item is what one call takes: an array, a dict by name, or a tuple.

    batch_size: items have no batch axis; up to so many that follow each other with equal shapes are stacked, run as
    one and taken apart again. Nothing is padded. workers: calls at a time; `2 * workers` batches are read ahead, in
    the thread of the caller. An error appears in the place of the item that caused it, and ends the iteration.

    Raises (at once): OptionError.
    """
    if workers < 1:
        raise OptionError(f"workers={workers} is not possible", fix="a number from 1 on")
    if batch_size is None:
        return _in_order(_singles(run, reader, items), workers)
    if batch_size < 1:
        raise OptionError(f"batch_size={batch_size} is not possible", fix="a number from 1 on, or None")
    _check_axes(reader.signature, batch_size)
    samples = FeedReader(_without_batch_axis(reader.signature))
    return _in_order(_stacks(run, samples, items, batch_size), workers)


class _Single:
    """One call, on an item as it is."""

    def __init__(self, run: Run, reader: FeedReader, item: object) -> None:
        self._run, self._reader, self._item = run, reader, item

    def __call__(self) -> Results:
        """The outputs of the item, as a list of one."""
        return [self._run(_read(self._reader, self._item))]


class _Stack:
    """One call, on samples of equal shapes."""

    def __init__(self, run: Run, samples: Sequence[Mapping[str, Array]]) -> None:
        self._run, self._samples = run, samples

    def __call__(self) -> Results:
        """The outputs of each sample."""
        names = list(self._samples[0])
        outputs = self._run({name: np.stack([sample[name] for sample in self._samples]) for name in names})
        count = len(self._samples)
        for name, value in outputs.items():
            if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != count:
                raise ExecutionError(
                    f"output {name!r} cannot be divided among {count} items",
                    why=f"it is {describe(value)}: its first axis does not count the batch",
                    fix="leave batch_size out, or compile the model without this output",
                )
        return [{name: value[index] for name, value in outputs.items()} for index in range(count)]  # type: ignore[index]  # arrays, as was checked


class _Failure:
    """An error that is raised in its turn."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self) -> Results:
        """Raise the error."""
        raise self._error


Job = _Single | _Stack | _Failure


def _until_error(items: Iterable[object]) -> Iterator[object]:
    """The items; an error in the iterable itself comes as a _Failure in its place."""
    try:
        yield from items
    except Exception as error:  # raised in its turn
        yield _Failure(error)


def _singles(run: Run, reader: FeedReader, items: Iterable[object]) -> Iterator[Job]:
    for item in _until_error(items):
        yield item if isinstance(item, _Failure) else _Single(run, reader, item)


def _stacks(run: Run, reader: FeedReader, items: Iterable[object], batch_size: int) -> Iterator[Job]:
    """Samples in groups; a group ends where it is full and where the shapes change."""
    group: list[Mapping[str, Array]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    for item in _until_error(items):
        try:
            if isinstance(item, _Failure):
                item()
            sample = {name: _as_array(name, value) for name, value in _read(reader, item).items()}
        except Exception as error:  # raised in its turn
            if group:
                yield _Stack(run, group)
            yield _Failure(error)
            return
        found = {name: array.shape for name, array in sample.items()}
        if group and (found != shapes or len(group) == batch_size):
            yield _Stack(run, group)
            group = []
        group, shapes = [*group, sample], found
    if group:
        yield _Stack(run, group)


def _in_order(jobs: Iterator[Job], workers: int) -> Iterator[dict[str, Feed]]:
    if workers == 1:
        for job in jobs:
            yield from job()
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="onnxgrad-map")
    waiting: deque[Future[Results]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) >= 2 * workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _read(reader: FeedReader, item: object) -> dict[str, Feed]:
    if isinstance(item, Mapping):
        return reader.read((item,), {})
    return reader.read(item if isinstance(item, tuple) else (item,), {})


def _as_array(name: str, value: Feed) -> Array:
    if isinstance(value, np.ndarray):
        return value
    raise InputError(f"input {name!r} is {describe(value)}: only arrays are stacked", fix="leave batch_size out")


def _check_axes(signature: CallSignature, batch_size: int) -> None:
    for port in (*signature.inputs, *signature.outputs):
        shape = port.type.shape if isinstance(port.type, TensorType) else ()
        if shape is None:
            continue
        if not shape or (isinstance(shape[0], int) and not shape[0] == batch_size == 1):
            why = f"its first axis is {shape[0]}" if shape else "it has no axis for a batch"
            raise OptionError(f"{port} takes no batches of {batch_size}", why=why, fix="leave batch_size out")


def _without_batch_axis(signature: CallSignature) -> CallSignature:
    """The signature of one sample."""
    inputs = []
    for port in signature.inputs:
        kind = port.type
        assert isinstance(kind, TensorType)
        sample = TensorType(kind.dtype, None if kind.shape is None else kind.shape[1:])
        inputs.append(type(port)(port.name, sample, port.required))
    return CallSignature(tuple(inputs), signature.outputs)
