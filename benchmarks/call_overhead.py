"""What a call of a compiled function costs beyond onnxruntime's own `session.run`, for small models.

    python benchmarks/call_overhead.py

Prints microseconds a call (the fastest of many rounds, taken in turns) and the ratio; exits with 1 when the one-input
model costs more than 15 microseconds extra.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from onnxgrad.engine.compile import compile

LIMIT = 15.0
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
MODELS = {
    "one input": "g (float[N, 16] x) => (float[N, 16] y) { y = Relu(x) }",
    "four inputs": "g (float[N, 16] a, float[N, 16] b, float[N, 16] c, float[N, 16] d) => (float[N, 16] y)"
    " { s = Add(a, b) t = Add(c, d) y = Mul(s, t) }",
}


def time_call(call: Callable[[], object], calls: int = 500) -> float:
    """Microseconds of one call, the mean of `calls`."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def measure(model: onnx.ModelProto) -> tuple[float, float]:
    """Microseconds of `session.run` and of the compiled function."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    run = compile(model, providers="cpu", threads=1)
    feeds = {value.name: np.ones((2, 16), np.float32) for value in model.graph.input}
    raw, ours = [], []
    for _ in range(40):
        raw.append(time_call(lambda: session.run(None, feeds)))
        ours.append(time_call(lambda: run(**feeds)))
    return min(raw), min(ours)


def main() -> int:
    """Print the table."""
    print(f"{'model':<14}{'session.run':>14}{'compiled':>12}{'extra':>10}{'ratio':>8}")
    failed = False
    for name, text in MODELS.items():
        raw, ours = measure(parser.parse_model(HEADER + text))
        extra = ours - raw
        print(f"{name:<14}{raw:>11.2f} us{ours:>9.2f} us{extra:>7.2f} us{ours / raw:>8.2f}")
        failed |= name == "one input" and extra > LIMIT
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
