"""Time that a call takes, for tests of how it grows."""

import gc
import time
from collections.abc import Callable


def processor_seconds(call: Callable[[], object]) -> float:
    """Seconds of the processor, the lesser of two runs, without the garbage collector: it looks through what all other
    tests have left."""
    times = []
    for _ in range(2):
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        finally:
            gc.enable()
    return min(times)
