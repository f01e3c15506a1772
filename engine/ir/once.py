"""What is to be done once in a process, whichever thread comes first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable


def once(procedure: Callable[[], None]) -> Callable[[], None]:
    """Run the procedure at the first call only. Threads that call while it runs wait; after an error the next tries."""
    lock = threading.Lock()
    done = False

    @functools.wraps(procedure)
    def run() -> None:
        nonlocal done
        if done:
            return
        with lock:
            if not done:
                procedure()
                done = True

    return run
