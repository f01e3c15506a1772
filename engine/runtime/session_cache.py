"""Sessions by model and options: equal calls share one, also while it is being made."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SessionCache(Generic[T]):
    """What is in use is found again without limit; what is not is kept up to a number of entries and of bytes.

    The entry that was not used for the longest time goes first. Safe for several threads; each entry is made once.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._entries, self._size = entries, size
        self._live: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, size: int, make: Callable[[], T]) -> T:
        """The value of `key`; `make()` gives it when it is not here. `size` is what it weighs in bytes."""
        with self._lock:
            value = self._live.get(key)
            if value is not None:
                self._keep(key, value, size)
                return value
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                value = self._live.get(key)
            try:
                if value is None:
                    value = make()
                with self._lock:
                    self._live[key] = value
                    self._keep(key, value, size)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return value

    def release(self, value: T) -> None:
        """Keep a value only as long as it is in use elsewhere."""
        with self._lock:
            for key in [key for key, (kept, _) in self._kept.items() if kept is value]:
                del self._kept[key]

    def clear(self) -> None:
        """Forget everything that is not in use elsewhere."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, key: Hashable, value: T, size: int) -> None:
        self._kept[key] = (value, size)
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries or sum(kept for _, kept in self._kept.values()) > self._size:
            self._kept.popitem(last=False)
