"""Optimize random graphs by all passes and by each alone, and compare the values: the long run of a test.

    python benchmarks/fuzz_passes.py [N] [--seed 0]

Writes the graphs whose values changed, or that raised, cut down to the fewest operators. Exits with 1 if there are any.
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

import onnx.printer

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.properties.rewrite_graphs import random_model
from tests.properties.test_random_rewrites import NAMES, differences


def failures(seed: int, wanted: int, alone: str) -> list[str]:
    """What is wrong with one graph, errors included."""
    try:
        return differences(random_model(seed, wanted), alone)
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:600]}"]


def main() -> int:
    """Run N graphs; 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw, start, kinds = random.Random(arguments.seed), time.perf_counter(), Counter[str]()
    for done in range(arguments.count):
        seed, wanted, alone = draw.getrandbits(32), draw.randint(3, 10), draw.choice(NAMES)
        if failures(seed, wanted, alone):
            least = next(size for size in range(1, wanted + 1) if failures(seed, size, alone))
            reasons = failures(seed, least, alone)
            kinds[reasons[0].partition(":")[0]] += 1
            text = onnx.printer.to_text(random_model(seed, least).model)
            print(f"--- seed {seed}, {least} operators, {alone}", *reasons, text, sep="\n", flush=True)
        if (done + 1) % 1000 == 0:
            print(f"{done + 1} graphs, {time.perf_counter() - start:.0f} s, failures: {dict(kinds)}", flush=True)
    print(f"{arguments.count} graphs, {time.perf_counter() - start:.0f} s, failures: {dict(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
