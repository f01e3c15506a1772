"""The MiniLM-L3 sentence encoder in int8 (dynamic), against its float32 file: cosine similarity of the embeddings of
real sentences, file size, and time in plain onnxruntime on one thread, calls in turn.

    python benchmarks/int8.py [--sentences 100] [--seconds 20]
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import onnxgrad as og
from onnxgrad.models import datasets, pull
from onnxgrad.models.finetune.sources import encode_texts, load_tokenizer

LENGTH = 64
BATCH = 10


@dataclass(frozen=True)
class Found:
    """cosine: of the worst sentence.  speedup: float32 / int8, the median of pairs of calls."""

    cosine: float
    mean_cosine: float
    speedup: float
    milliseconds: float
    bytes: int

    def __str__(self) -> str:
        return (
            f"cosine similarity: worst {self.cosine:.4f}, mean {self.mean_cosine:.4f}\n"
            f"{self.speedup:.2f} times as fast ({self.milliseconds:.1f} ms for {BATCH} sentences), {self.bytes:,} bytes"
        )


def measure(sentences: int = 100, seconds: float = 20.0) -> Found:
    """Quantize, embed sentences with both models, time both."""
    source = pull("minilm-l3")
    model = og.load(source)
    names = [value.name or "" for value in model.graph.inputs]
    texts = datasets.reuters_r8()[1].texts[:sentences]
    tokens = encode_texts(texts, load_tokenizer(pull("minilm-tokenizer")), LENGTH, names)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "int8.onnx")
        og.save(og.quantize(model), target)
        size = target.stat().st_size
        first, second = _session(source), _session(target)
    output = next(value.name for value in model.graph.outputs if value.dtype == 1 and len(value.shape or ()) == 2)
    a, b = (session.run([output], tokens)[0] for session in (first, second))
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    few = {name: array[:BATCH] for name, array in tokens.items()}
    times = _in_turn(first, second, output, few, seconds)
    speedup = float(np.median(times[:, 0] / times[:, 1]))
    return Found(float(cosines.min()), float(cosines.mean()), speedup, float(np.median(times[:, 1]) * 1e3), size)


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _in_turn(
    first: onnxruntime.InferenceSession,
    second: onnxruntime.InferenceSession,
    output: str,
    feeds: dict[str, np.ndarray],
    seconds: float,
) -> np.ndarray:
    """Seconds of one and the other, a row for each pair of calls; the first pairs warm up."""
    rows, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(rows) < 5:
        start = time.perf_counter()
        first.run([output], feeds)
        middle = time.perf_counter()
        second.run([output], feeds)
        rows.append((middle - start, time.perf_counter() - middle))
    return np.array(rows[2:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    print(measure(arguments.sentences, arguments.seconds))
