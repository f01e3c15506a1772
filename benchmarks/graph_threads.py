"""Threads that write, compile and run computing graphs of their own at the same time: errors, results and memory.

    python benchmarks/graph_threads.py [seconds] [threads]

Every thread trains one small net after another, each from its number. Prints how many were trained and what the
resident memory did; exits with 1 on an error, on a result that one thread alone does not get, or when memory grows.
"""

import queue
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np

import onnxgrad as og

LIMIT = 60e6  # bytes that the resident memory may grow by after the first third
NETS = 24
STEPS = 5


@dataclass
class Report:
    """What happened. `memory`: bytes resident, after the first third and at the end."""

    nets: int = 0
    errors: list[str] = field(default_factory=list)
    memory: tuple[int, int] = (0, 0)

    @property
    def growth(self) -> int:
        """Bytes by which the resident memory has grown."""
        return self.memory[1] - self.memory[0]


def resident() -> int:
    """Bytes of memory that are resident."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def train(number: int) -> np.ndarray:
    """The weights of a net after some steps; net, data and weights follow from `number`."""
    rng = np.random.default_rng(number)
    width = 8 + number
    graph = og.Graph()
    x, label = graph.input("x", "float32", ("N", 32)), graph.input("label", "int64", ("N",))
    first = og.SharedTensor(rng.standard_normal((32, width)).astype(np.float32) * 0.2)
    second = og.SharedTensor(rng.standard_normal((width, 4)).astype(np.float32) * 0.2)
    weights = [graph.param(first), graph.param(second)]
    hidden = og.op.Tanh(x @ weights[0])
    seen: list[float] = []
    watched = graph.callback(hidden, lambda value: seen.append(float(value.get().sum())))
    loss = og.op.SoftmaxCrossEntropyLoss(watched @ weights[1], label)
    grads = og.gradients(loss, weights)
    updates = [og.add_update(w, dw, beta=-0.1) for w, dw in zip(weights, grads, strict=True) if dw is not None]
    step = graph.compile([x, label], [og.copy_output(loss), *updates])
    for _ in range(STEPS):
        step(rng.standard_normal((16, 32)).astype(np.float32), rng.integers(0, 4, 16))
    assert len(seen) == STEPS
    return np.concatenate([np.asarray(first).ravel(), np.asarray(second).ravel()])


def run(seconds: float, threads: int) -> Report:
    """Train nets in `threads` threads for so long."""
    expected = [train(number) for number in range(NETS)]
    report = Report()
    problems: queue.SimpleQueue[str] = queue.SimpleQueue()
    counts = [0] * threads
    end = time.monotonic() + seconds

    def work(index: int) -> None:
        number = index
        while time.monotonic() < end:
            number = (number + threads - 1) % NETS
            try:
                if not np.array_equal(train(number), expected[number]):
                    problems.put(f"net {number} has other weights than one thread alone gets")
            except Exception as error:
                problems.put(f"net {number}: {type(error).__name__}: {error}")
            counts[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(seconds / 3)
    early = resident()
    for worker in workers:
        worker.join()
    report.memory = (early, resident())
    report.nets = sum(counts)
    while not problems.empty():
        report.errors.append(problems.get())
    return report


def main() -> int:
    """Run and judge."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    report = run(seconds, threads)
    print(f"{report.nets} nets compiled and trained by {threads} threads in {seconds:.0f} s")
    print(f"resident memory {report.memory[0] / 1e6:.0f} MB, then {report.memory[1] / 1e6:.0f} MB")
    for error in report.errors[:5]:
        print(error)
    return 1 if report.errors or report.growth > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
