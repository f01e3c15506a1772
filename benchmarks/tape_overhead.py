"""What an operator on small tensors costs: alone, recorded, and on the way back.

    python benchmarks/tape_overhead.py

Prints microseconds (the fastest of many rounds); exits with 1 when the sum of two tensors of 16 floats costs more than
25 microseconds.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import onnxgrad as og

LIMIT = 25.0
KEPT = "a + b"


def fastest(call: Callable[[], object], calls: int, rounds: int = 15) -> float:
    """Microseconds of one call: the least mean of `rounds`."""
    call()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - start) / calls * 1e6)
    return min(found)


def operators() -> dict[str, Callable[[], object]]:
    """What is measured, one operator each."""
    a, b = (og.Tensor(np.arange(16, dtype=np.float32)) for _ in range(2))
    m = og.Tensor(np.ones((16, 16), np.float32))
    return {
        KEPT: lambda: a + b,
        "a * 2.0": lambda: a * 2.0,
        "Relu(a)": lambda: og.op.Relu(a),
        "a @ m": lambda: a @ m,
        "a[3:5]": lambda: a[3:5],
        "a.sum()": a.sum,
        "a.reshape(4, 4)": lambda: a.reshape(4, 4),
    }


def differentiated() -> dict[str, Callable[[], object]]:
    """Chains of 20 products and sums: run, recorded, and walked back."""
    a, b = (og.Tensor(np.full(16, 0.5, np.float32)) for _ in range(2))

    def chain() -> og.Tensor:
        x = a
        for _ in range(10):
            x = x * b + b
        return x

    def recorded() -> None:
        with og.Grad() as grad:
            grad.wrt(a, b)
            chain()

    def back() -> None:
        a.grad = b.grad = None
        with og.Grad() as grad:
            grad.wrt(a, b)
            grad(chain())

    return {"run": chain, "and recorded": recorded, "and walked back": back}


def main() -> int:
    """Print the tables."""
    costs = {name: fastest(call, 500) for name, call in operators().items()}
    for name, cost in costs.items():
        print(f"{name:<18}{cost:>8.2f} us")
    print("20 operators, each")
    for name, call in differentiated().items():
        print(f"  {name:<16}{fastest(call, 20) / 20:>8.2f} us")
    return int(costs[KEPT] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
