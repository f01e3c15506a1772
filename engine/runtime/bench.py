"""Plain onnxruntime against a compiled function, call by call in turn, so that a busy machine hurts both alike."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.providers import Provider, choose_providers

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Comparison:
    """Milliseconds of calls in turn. ratio: raw / ours, the median of pairs; more than 1 says that ours is faster.

    Where plain onnxruntime cannot run the model, `raw` is empty, `ratio` None, and `refusal` says why.
    """

    ours: tuple[float, ...]
    raw: tuple[float, ...]
    refusal: str = ""

    @property
    def ratio(self) -> float | None:
        """raw / ours, the median over the pairs of calls."""
        return float(np.median(np.divide(self.raw, self.ours))) if self.raw else None

    def to_dict(self) -> dict[str, object]:
        """Percentiles and ratio, for JSON."""
        raw = percentiles(self.raw) if self.raw else None
        figures = {"ours": percentiles(self.ours), "raw": raw, "ratio": self.ratio}
        return {"calls": len(self.ours), **figures, "refusal": self.refusal}

    def __str__(self) -> str:
        heads = [f"p{percent}" for percent in PERCENTILES]
        lines = [f"{'milliseconds':<14}{'mean':>10}{'min':>10}" + "".join(f"{head:>10}" for head in heads)]
        for name, times in (("onnxruntime", self.raw), ("onnxgrad", self.ours)):
            if times:
                lines.append(f"{name:<14}" + "".join(f"{value:>10.3f}" for value in percentiles(times).values()))
        if self.ratio is None:
            lines.append(f"plain onnxruntime cannot run it: {self.refusal}")
        else:
            pairs = f"{len(self.ours)} pairs of calls"
            lines.append(f"ratio {self.ratio:.3f} over {pairs} (onnxruntime / onnxgrad: above 1, onnxgrad is faster)")
        return "\n".join(lines)


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Mean, minimum and percentiles."""
    found = {"mean": float(np.mean(times)), "min": float(np.min(times))}
    return found | {f"p{percent}": float(np.percentile(times, percent)) for percent in PERCENTILES}


def compare_speed(
    file: Path,
    call: Callable[[Mapping[str, Feed]], object],
    feeds: Mapping[str, Feed],
    seconds: float = 5.0,
    calls: int = 10_000,
    providers: Provider | Sequence[Provider] | None = None,
    threads: int | None = None,
) -> Comparison:
    """Time `call(feeds)` against a session that onnxruntime makes of `file` with its defaults.

    Ends after `seconds` or `calls` pairs, whichever comes first, and not before three. Raises: what a call raises.
    """
    if seconds <= 0 or calls < 1:
        raise OptionError(f"seconds={seconds}, calls={calls} is not possible", fix="positive numbers")
    raw, refusal = _raw_call(file, feeds, providers, threads)
    sides = [call, raw] if raw is not None else [call]
    for side in sides:
        for _ in range(3):
            side(feeds)
    times: list[list[float]] = [[] for _ in sides]
    end = time.perf_counter() + seconds
    was_on = gc.isenabled()
    gc.disable()
    try:
        while len(times[0]) < 3 or (time.perf_counter() < end and len(times[0]) < calls):
            turn = list(enumerate(sides))
            for index, side in turn if len(times[0]) % 2 else reversed(turn):
                start = time.perf_counter()
                side(feeds)
                times[index].append((time.perf_counter() - start) * 1e3)
    finally:
        if was_on:
            gc.enable()
    return Comparison(tuple(times[0]), tuple(times[1]) if raw is not None else (), refusal)


def _raw_call(
    file: Path, feeds: Mapping[str, Feed], providers: Provider | Sequence[Provider] | None, threads: int | None
) -> tuple[Callable[[Mapping[str, Feed]], object] | None, str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    chosen = [(choice.name, dict(choice.options)) for choice in choose_providers(providers)]
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=chosen)
        session.run(None, dict(feeds))
    except Exception as error:  # whatever it is, it is the answer: plain onnxruntime cannot run this
        return None, str(error).strip().splitlines()[0]
    return lambda given: session.run(None, given), ""
