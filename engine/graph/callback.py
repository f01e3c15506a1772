"""Functions that are called with values of a graph while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.worker import Worker
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.host_buffer import HostBuffer
from onnxgrad.engine.runtime.values import Array, DeviceValue

logger = logging.getLogger("onnxgrad.graph")


@dataclass(frozen=True)
class CallbackFunction:
    """A function to call with values of a run; `lazy`: at once and without a copy, in the thread that runs."""

    function: Callable[..., object]
    lazy: bool = False

    @property
    def name(self) -> str:
        """What the function is called."""
        name: str = getattr(self.function, "__qualname__", repr(self.function))
        return name


def lazy_callback(function: Callable[..., object]) -> CallbackFunction:
    """In an outspec, or for graph.callback: call `function` in the thread that runs, with values that are not copied.

    The value stays where it was computed until it is read: `value.ort_value()`, or `value.get()`, which copies.
    """
    return CallbackFunction(as_callback(function).function, lazy=True)


def as_callback(function: object) -> CallbackFunction:
    """A function, or what `lazy_callback` made of one. Raises: OptionError for what cannot be called."""
    if isinstance(function, CallbackFunction):
        return function
    if not callable(function):
        raise OptionError(f"{function!r} cannot be called", fix="give a function of the value")
    return CallbackFunction(function)


class SlowCopyWatch:
    """Waits for a copy and says when it takes long: after 2 s, 3 s, 5 s, 8 s, 12 s, ..."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock

    def wait(self, is_done: Callable[[float], bool]) -> None:
        """Return when `is_done(seconds)` is true, which waits for so long at most."""
        begin, due, gap = self._clock(), 2.0, 1.0
        while not is_done(max(0.0, begin + due - self._clock())):
            waited = self._clock() - begin
            if waited < due:
                continue
            logger.warning("callback %s has waited %.0f s for its value to be copied", self._name, waited)
            due, gap = due + gap, gap + 1.0


class ValueProxy:
    """What a callback gets: a value of the run, which may be read until the callback returns.

    Eager ones are copied to the host before the callback is called; lazy ones stay where they were computed.
    """

    def __init__(self, is_eager: bool) -> None:
        self.is_eager = is_eager
        self._changed = threading.Condition()
        self._is_active = False
        self._is_raw = False
        self._used = False
        self._value: Feed = None
        self._array: Array | None = None
        self._buffer = HostBuffer()
        self._failure: BaseException | None = None

    @classmethod
    def of_array(cls, array: Array) -> ValueProxy:
        """A proxy of an array on the host, which can be read at any time and is on no device."""
        proxy = cls(is_eager=False)
        proxy._array, proxy._is_active, proxy._is_raw = array, True, True
        return proxy

    @property
    def was_read(self) -> bool:
        """Whether the value was asked for; shape and dtype do not count."""
        return self._used

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the value."""
        self._check_active()
        if self._array is not None:
            return self._array.shape
        return tuple(self._tensor().shape())

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy dtype of the value."""
        self._check_active()
        if self._array is not None:
            return self._array.dtype
        return self._buffer.dtype_of(self._tensor())

    @property
    def device(self) -> str:
        """Where the value was computed: "cpu", "cuda". Raises: GraphError for an array on the host."""
        self._check_active()
        return str(self._tensor().device_name())

    def get(self, borrow_mem: bool = False) -> Array:
        """The value as an array: a copy, or with `borrow_mem` the memory itself, which is of no value afterwards."""
        self._check_active()
        self._used = True
        if self._array is None:
            self.copy()
        assert self._array is not None
        return self._array if borrow_mem else self._array.copy()

    def ort_value(self) -> DeviceValue:
        """The value where it was computed. What keeps it after the callback holds on to memory of that run.

        Raises: GraphError for a value that is no tensor of numbers.
        """
        self._check_active()
        self._used = True
        return self._tensor()

    def begin(self, value: Feed) -> None:
        """Be of this value from now on, as soon as the callback that has the last one is over."""
        if self._is_raw:
            raise GraphError("a proxy of an array on the host cannot be given another value")
        with self._changed:
            while self._is_active:
                self._changed.wait()
            self._value, self._array, self._failure = value, None, None
            self._is_active, self._used = True, not self.is_eager

    def copy(self) -> None:
        """Make the value an array on the host: its own memory where it is there already."""
        try:
            array = self._buffer.read(self._value)
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            raise
        with self._changed:
            self._array = array
            self._changed.notify_all()

    def wait(self, watch: SlowCopyWatch) -> None:
        """Return when the array is there. Raises: what the copy raised."""

        def is_done(seconds: float) -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: self._array is not None or self._failure is not None, seconds)

        watch.wait(is_done)
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Be of no value; the memory of the array is kept for the next one."""
        with self._changed:
            self._value = self._array = None
            self._is_active = False
            self._changed.notify_all()

    def _tensor(self) -> DeviceValue:
        if self._is_raw or self._value is None or isinstance(self._value, np.ndarray | list | dict):
            raise GraphError("this value is on no device", why="it is an array on the host", fix="value.get()")
        return self._value

    def _check_active(self) -> None:
        if not self._is_active:
            raise GraphError(
                "the value of a callback was read after the callback had returned",
                why="its memory belongs to the next run by now",
                fix="keep value.get(), a copy, instead of the value",
            )

    def __repr__(self) -> str:
        if not self._is_active:
            return "<ValueProxy, over>"
        return f"<ValueProxy {self.dtype}{list(self.shape)}, {'eager' if self.is_eager else 'lazy'}>"


class CallbackSlot:
    """A callback of one compiled function, with a proxy for each of its values. `outputs`: their names."""

    def __init__(self, function: CallbackFunction, outputs: Sequence[str]) -> None:
        self.function, self.outputs = function, tuple(outputs)
        self._proxies: list[ValueProxy] = []
        self._worker: Worker | None = None
        self._watch = SlowCopyWatch(function.name)

    def attach(self, worker: Worker) -> None:
        """Let `worker` call it, if it is eager. Raises: GraphError the second time."""
        if self._worker is not None:
            raise GraphError(f"callback {self.function.name} belongs to a function already")
        self._worker = worker

    def fire(self, values: Sequence[Feed]) -> None:
        """Call the function with these values: now if it is lazy, else by the worker.

        Waits while the function still has the values of the run before. Raises: what a lazy function raises.
        """
        if self._worker is None:
            raise GraphError(f"callback {self.function.name} belongs to no function")
        while len(self._proxies) < len(values):
            self._proxies.append(ValueProxy(is_eager=not self.function.lazy))
        proxies = self._proxies[: len(values)]
        for proxy, value in zip(proxies, values, strict=True):
            proxy.begin(value)
        if self.function.lazy:
            self._call(proxies)
            return
        try:
            self._worker.submit(partial(self._deliver, proxies))
        except GraphError:
            _end(proxies)
            raise
        for proxy in proxies:
            with suppress(Exception):  # the proxy keeps it for the worker, who raises it in its turn
                proxy.copy()

    def _deliver(self, proxies: Sequence[ValueProxy]) -> None:
        try:
            for proxy in proxies:
                proxy.wait(self._watch)
        except BaseException:
            _end(proxies)
            raise
        self._call(proxies)

    def _call(self, proxies: Sequence[ValueProxy]) -> None:
        try:
            self.function.function(proxies[0] if len(proxies) == 1 else list(proxies))
            unread = [proxy for proxy in proxies if not proxy.was_read]
        finally:
            _end(proxies)
        if unread:
            logger.warning(
                "callback %s did not read the value of %s, which was copied for it; og.lazy_callback copies nothing",
                self.function.name,
                ", ".join(self.outputs),
            )


def _end(proxies: Sequence[ValueProxy]) -> None:
    for proxy in proxies:
        proxy.end()
