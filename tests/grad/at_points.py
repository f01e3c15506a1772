"""Gradients at chosen points: of one node, or of a graph written as text."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnx.parser

from tests.grad.checks import Arrays, Case, build, gradient_model_of, run_in_onnxruntime

Run = Callable[[onnx.ModelProto, Arrays], Arrays]


def gradients_at(
    case: Case, dtype: type = np.float32, seed: float = 1.0, run: Run = run_in_onnxruntime
) -> list[np.ndarray]:
    """The gradients of the float inputs of a case, of seed * (sum of its outputs); dimensions are symbolic."""
    model, feeds = build(case, dtype, symbolic=True)
    with np.errstate(all="ignore"):
        outputs = run(model, feeds)
    seeds = {name: np.full_like(value, seed) for name, value in outputs.items() if value.dtype.kind == "f"}
    return gradients_of(model, feeds, seeds, run)


def gradients_of(
    model: onnx.ModelProto | str,
    feeds: Mapping[str, object],
    seeds: Mapping[str, object],
    run: Run = run_in_onnxruntime,
) -> list[np.ndarray]:
    """The gradients of sum(seed * output) by all float inputs of a model (or its text), in their order."""
    model = onnx.parser.parse_model(model) if isinstance(model, str) else model
    given = {name: np.asarray(value, getattr(value, "dtype", np.float32)) for name, value in feeds.items()}
    names = [name for name, value in given.items() if value.dtype.kind == "f"]
    shapes = {f"{name}.grad": np.asarray(value, getattr(value, "dtype", np.float32)) for name, value in seeds.items()}
    found = run(gradient_model_of(model, names), {**given, **shapes})
    return [found[f"{name}.grad"] for name in names]


def floats(*numbers: float | Sequence[float]) -> np.ndarray:
    """An array that a case differentiates by."""
    return np.array(numbers, np.float64)
