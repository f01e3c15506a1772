"""Callbacks that stream what happens inside of a net while it runs, without stopping it.

    python examples/stream_activations.py

Eager callbacks run on a thread of their own, in order; lazy ones run where the net runs, without a copy.
"""

import numpy as np

import onnxgrad as og

LAYERS, WIDTH, RUNS = 4, 64, 20


class Watch:
    """Running statistics of one layer, from the values that it is called with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count, self.total, self.squares, self.zeros = 0, 0.0, 0.0, 0

    def add(self, value: og.ValueProxy) -> None:
        """Count one batch."""
        array = value.get(borrow_mem=True)  # only read here, so it need not be copied
        self.count += array.size
        self.total += float(array.sum())
        self.squares += float(np.square(array).sum())
        self.zeros += int((array == 0).sum())

    def __str__(self) -> str:
        mean = self.total / self.count
        deviation = (self.squares / self.count - mean**2) ** 0.5
        spread = f"mean {mean:.3f}, deviation {deviation:.3f}, {self.zeros / self.count:.0%} zeros"
        return f"{self.name}: {self.count} values, {spread}"


def main() -> list[Watch]:
    """Run a net and print what its layers did."""
    rng = np.random.default_rng(0)
    graph = og.Graph("watched")
    x = graph.input("x", "float32", ("batch", WIDTH))
    watches = [Watch(f"layer {k}") for k in range(LAYERS)]
    y: og.Var = x
    for watch in watches:
        weight = og.SharedTensor((rng.standard_normal((WIDTH, WIDTH)) * (2 / WIDTH) ** 0.5).astype(np.float32))
        y = graph.callback(og.op.Relu(y @ weight), watch.add)

    # The last activation is kept in a parameter, by its memory: nothing is copied.
    last = og.SharedTensor(np.zeros((1, WIDTH), np.float32), name="last")
    outspec = [og.copy_output(y.mean()), (y, og.lazy_callback(lambda value: last.set(value, share=True)))]
    run = graph.compile([x], outspec)

    # Runs and callbacks go on while this loop is already at the next batch.
    started = [run.start(rng.standard_normal((32, WIDTH)).astype(np.float32)) for _ in range(RUNS)]
    run.wait()
    means = [pending.get()[0] for pending in started]
    print(f"means of {RUNS} runs, from {min(means):.4f} to {max(means):.4f}")
    for watch in watches:
        print(watch)
    print(f"the last activation: {last!r}, largest {np.max(last.get()):.2f}")
    return watches


if __name__ == "__main__":
    main()
