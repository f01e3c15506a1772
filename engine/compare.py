"""Run two models on the same random inputs and compare what they give."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.errors import EquivalenceError, ExecutionError, InputError, OptionError
from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.source import read_source

Array = npt.NDArray[np.generic]
Shapes = Mapping[str, Sequence[int | str | None]]

_TOLERANCES = {
    "complex128": 1e-9,
    "float64": 1e-9,
    "complex64": 1e-4,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
"""Largest difference, as a part of the largest number of the output: sums are added up in another order."""


@dataclass(frozen=True)
class Difference:
    """How an output of the second model differs: `error` is the largest difference, `scale` the largest number."""

    output: str
    run: int
    kind: str
    error: float
    scale: float

    def __str__(self) -> str:
        return (
            f"run {self.run}: {self.output}  {self.kind}  differs by {self.error:.3g} (values up to {self.scale:.3g})"
        )


@dataclass(frozen=True)
class Agreement:
    """How near an output of one model is to that of another, as a part of its largest number."""

    output: str
    kind: str
    error: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether the difference is one of rounding."""
        return self.error <= self.allowed

    @property
    def excess(self) -> float:
        """The error in units of what is allowed; orders agreements from good to bad."""
        return self.error / self.allowed if self.allowed else self.error * np.inf if self.error else 0.0

    @property
    def verdict(self) -> str:
        """In a word."""
        return "same" if self.holds else "DIFFERENT"

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        error = self.error if np.isfinite(self.error) else None
        return {"type": self.kind, "error": error, "allowed": self.allowed, "same": self.holds}


def agreements(
    want: Mapping[str, object], got: Mapping[str, object], tolerance: float | None = None
) -> list[Agreement]:
    """How the outputs of two models agree, one by one. `tolerance`: of all floats; by dtype without it.

    Raises: EquivalenceError where the outputs have not the same names.
    """
    if list(want) != list(got):
        raise EquivalenceError(
            "The models have other outputs.", where=f"{', '.join(want)} against {', '.join(got)}", fix="rename them"
        )
    return [
        max((_agreement(name, *pair, tolerance) for pair in _pairs(expected, got[name])), key=lambda row: row.excess)
        for name, expected in want.items()
    ]


def _agreement(name: str, want: object, got: object, tolerance: float | None) -> Agreement:
    difference = _difference(name, 0, want, got, exact=True)
    limit = _TOLERANCES.get(want.dtype.name, 0.0) if isinstance(want, np.ndarray) else 0.0
    allowed = tolerance if tolerance is not None and limit else limit
    if difference is None:
        return Agreement(name, _kind(want), 0.0, allowed)
    error = np.inf if np.isinf(difference.error) else difference.error / max(difference.scale, 1e-6)
    return Agreement(name, difference.kind.removesuffix(";"), error, allowed)


def _pairs(want: object, got: object) -> Iterator[tuple[object, object]]:
    """What two outputs hold, element by element: sequences may nest, and hold maps from classes to numbers."""
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got) > 0:
        for expected, actual in zip(want, got, strict=True):
            yield from _pairs(expected, actual)
    elif isinstance(want, dict) and isinstance(got, dict) and list(want) == list(got):
        first, second = (np.array(list(values)) for values in (want.values(), got.values()))
        single = first.dtype == second.dtype == np.float64  # numbers of Python, made of float32
        yield (first.astype(np.float32), second.astype(np.float32)) if single else (first, second)
    else:
        yield want, got


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, dict):
        return f"a map of {', '.join(map(str, value))}"
    return (
        f"a sequence of {len(value)}" if isinstance(value, list) else "nothing" if value is None else str(type(value))
    )


def compare(before: ir.Model, after: ir.Model, runs: int, shapes: Shapes, seed: int = 0) -> None:
    """Check that two models give the same outputs for random inputs.

    Floats are normal, integers 0 and 1. A dimension that `shapes` leaves open has size 2, or 1 where the first model
    does not take 2.

    Raises: EquivalenceError with a table of differences; OptionError where outputs are random; InputError for inputs
    that cannot be random; ExecutionError where the first model does not run.
    """
    if not all(is_pure(node, before.functions) for node in before.graph.all_nodes()):
        raise OptionError("A model that draws random numbers cannot be checked: its outputs differ from run to run.")
    first, second = _runner(before), _runner(after)
    found: list[Difference] = []
    for run in range(runs):
        inputs, want = _first_run(before, first, shapes, seed + run)
        found.extend(differences(want, second(inputs), run))
    if found:
        table = "\n      ".join(map(str, found))
        raise EquivalenceError(f"The optimized model gives other values:\n      {table}")


def worst_errors(before: ir.Model, after: ir.Model, runs: int, shapes: Shapes, seed: int = 0) -> dict[str, float]:
    """output -> the largest difference, as a part of the largest number of the output, over random inputs.

    Infinity where a shape differs, or finite numbers became others. Raises: as `compare` but for EquivalenceError.
    """
    first, second = _runner(before), _runner(after)
    worst: dict[str, float] = {}
    for run in range(runs):
        inputs, want = _first_run(before, first, shapes, seed + run)
        for found in agreements(want, second(inputs)):
            worst[found.output] = max(worst.get(found.output, 0.0), found.error)
    return worst


def _runner(model: ir.Model) -> Callable[[dict[str, Feed]], dict[str, Feed]]:
    plan, _ = assemble(read_source(model), model, None, SessionOptions("cpu", None, "none"))
    return plan.run


def _first_run(
    model: ir.Model, run: Callable[[dict[str, Feed]], dict[str, Feed]], shapes: Shapes, seed: int
) -> tuple[dict[str, Feed], dict[str, Feed]]:
    """Inputs, and the outputs for them."""
    for size in (2, 1):
        inputs = _random_inputs(model, shapes, size, np.random.default_rng(seed))
        try:
            return inputs, run(dict(inputs))
        except ExecutionError:
            if size == 1:
                raise
    raise AssertionError


def _random_inputs(model: ir.Model, shapes: Shapes, size: int, random: np.random.Generator) -> dict[str, Feed]:
    sizes: dict[str, int] = {}
    wanted = [value for value in model.graph.inputs if not value.is_initializer()]
    for value in wanted:
        for dim, given in zip(value.shape or (), shapes.get(value.name or "", ()), strict=False):
            if isinstance(dim, ir.SymbolicDim) and isinstance(given, int):
                sizes[str(dim)] = given
    return {value.name or "": _random(value, shapes, sizes, size, random) for value in wanted}


def _random(value: ir.Value, shapes: Shapes, sizes: dict[str, int], size: int, random: np.random.Generator) -> Array:
    dtype = value.dtype
    if value.shape is None or dtype is None or dtype.is_string() or not isinstance(value.type, ir.TensorType):
        raise InputError("An input of this kind cannot be random.", where=describe_value(value))
    given = shapes.get(value.name or "", (None,) * len(value.shape))
    dims = [
        new if isinstance(new, int) else old if isinstance(old, int) else sizes.get(str(old), size)
        for old, new in zip(value.shape, given, strict=True)
    ]
    if dtype.is_floating_point():
        return random.standard_normal(dims).astype(dtype.numpy())
    return random.integers(0, 2, dims).astype(dtype.numpy())


def differences(want: Mapping[str, Feed], got: Mapping[str, Feed], run: int) -> list[Difference]:
    """The outputs of a run that differ by more than rounding."""
    pairs = [(name, *pair) for name, expected in want.items() for pair in _pairs(expected, got[name])]
    found = [_difference(name, run, expected, actual) for name, expected, actual in pairs]
    return [difference for difference in found if difference is not None]


def _difference(name: str, run: int, want: object, got: object, *, exact: bool = False) -> Difference | None:
    kind = _kind(want)
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray) or kind != _kind(got):
        same = not isinstance(want, np.ndarray) and kind == _kind(got)
        return None if same else Difference(name, run, f"{kind} became {_kind(got)};", np.inf, np.inf)
    if want.dtype.kind in "OSU" or want.size == 0:
        return None if np.array_equal(want, got) else Difference(name, run, kind, np.inf, np.inf)
    a, b = (array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) for array in (want, got))
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return Difference(name, run, kind, np.inf, np.inf)
    error = float(np.abs(a[finite] - b[finite]).max(initial=0))
    scale = float(np.abs(a[finite]).max(initial=0))
    allowed = 0.0 if exact else _TOLERANCES.get(want.dtype.name, 0.0) * max(scale, 1e-6)
    return None if error <= allowed else Difference(name, run, kind, error, scale)
