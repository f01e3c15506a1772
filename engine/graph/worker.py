"""One thread that does tasks in their order, away from the thread that gives them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from onnxgrad.engine.errors import GraphError

_IDLE = 2.0  # seconds without a task, after which the thread ends; the next task starts another

Task = Callable[[], None]


class _WorkerThread(threading.Thread):
    """The thread of a Worker."""


def is_worker() -> bool:
    """Whether the present thread is that of a Worker, of whichever."""
    return isinstance(threading.current_thread(), _WorkerThread)


class Worker:
    """A queue of tasks and the one thread that does them, which is there while there is something to do.

    A task that raises does not stop those after it: the first error is kept until `raise_error` takes it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._error: BaseException | None = None

    def submit(self, task: Task) -> None:
        """Do `task` after all that were given before. Raises: GraphError where no thread can be started."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a process that was forked has none
                thread = _WorkerThread(target=self._work, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise GraphError(f"the thread {self._name!r} cannot be started", why=str(error)) from error
                self._thread = thread
            self._tasks.append(task)
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self._tasks and not self._is_busy  # in this order: a task is taken out when the worker is busy

    @property
    def error(self) -> BaseException | None:
        """The first error of the tasks so far that nobody was told of."""
        return self._error

    @property
    def is_current(self) -> bool:
        """Whether it is this worker that asks."""
        return threading.current_thread() is self._thread

    def drain(self) -> None:
        """Wait until nothing is left to do. A task that calls it does not wait for itself."""
        if self.is_idle or self.is_current:
            return
        with self._changed:
            while self._tasks or self._is_busy:
                self._changed.wait()

    def raise_error(self) -> None:
        """Raise the first error of the tasks so far; once."""
        if self._error is None:
            return
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                if not self._tasks and not self._changed.wait_for(lambda: bool(self._tasks), timeout=_IDLE):
                    self._thread = None
                    return
                self._is_busy = True
                task = self._tasks.popleft()
            try:
                task()
            except BaseException as error:  # raised again where the work is waited for
                with self._changed:
                    self._error = self._error or error
            del task  # an idle thread keeps nothing alive
