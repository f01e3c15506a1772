"""Directional derivatives of whole models in float64."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx
from onnx import numpy_helper

Arrays = Mapping[str, np.ndarray]
Run = Callable[..., Arrays]

STEPS = 3  # each a tenth of the one before
ROUNDING = 100 * 2.0**-52  # of a sum of outputs of a deep network, relative to the size of its terms


def expose_weights(model: onnx.ModelProto, count: int) -> dict[str, np.ndarray]:
    """Make `count` float64 weights, spread over the graph, inputs that may be fed. In place; returns their values."""
    found = {t.name: t for t in model.graph.initializer if _is_weight(t)}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value" and _is_weight(node.attribute[0].t):
            found[node.output[0]] = node.attribute[0].t
    read = {name for node in model.graph.node for name in node.input}
    usable = [name for name in found if name in read]
    chosen = [usable[i] for i in np.unique(np.linspace(0, len(usable) - 1, count).astype(int))] if usable else []
    taken = {value.name for value in model.graph.input}
    for name in chosen:
        tensor = onnx.TensorProto()
        tensor.CopyFrom(found[name])
        tensor.name = name
        if all(known.name != name for known in model.graph.initializer):
            (node,) = (node for node in model.graph.node if name in node.output)
            model.graph.node.remove(node)
            model.graph.initializer.append(tensor)
        if name not in taken:
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    return {name: numpy_helper.to_array(found[name]) for name in chosen}


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type == onnx.TensorProto.DOUBLE and np.prod(tensor.dims, dtype=int) > 16


def seeds_of(outputs: Arrays) -> dict[str, np.ndarray]:
    """Random weights "<output>.grad" for all float outputs."""
    rng = np.random.default_rng(2)
    floats = {name: value for name, value in outputs.items() if value.dtype == np.float64}
    return {f"{name}.grad": np.asarray(rng.standard_normal(value.shape)) for name, value in floats.items()}


def direction_of(value: np.ndarray) -> np.ndarray:
    """A random direction that moves every element by about the size of the elements."""
    rng = np.random.default_rng(3)
    return np.asarray(rng.standard_normal(value.shape) * max(float(np.abs(value).mean()), 1e-3))


@dataclass(frozen=True)
class Slope:
    """The slope of sum(seed * output) along a direction. rounding: where it is less, it is as good as 0."""

    value: float
    rounding: float

    @property
    def is_flat(self) -> bool:
        """Whether nothing but rounding is seen."""
        return abs(self.value) <= self.rounding

    def error(self, got: float) -> float:
        """Of a slope by the gradient, relative; of 0 where it should be 0."""
        if self.is_flat and abs(got) <= self.rounding:
            return 0.0
        return abs(got - self.value) / max(abs(got), abs(self.value))


def slope_along(run: Run, seeds: Arrays, at: Arrays, name: str, direction: np.ndarray, longest: float) -> Slope:
    """The slope by central differences, with the step from `longest` down that changes it least.

    Long steps bend and cross kinks, short ones round: where two neighbours agree, neither is the case. The gradient
    has no say in the choice.
    """
    steps, found = [longest / 10**k for k in range(STEPS)], []
    for step in steps:
        ahead, behind = (run(**{**at, name: at[name] + sign * step * direction}) for sign in (1, -1))
        pairs = [(ahead[y], behind[y], seeds[f"{y}.grad"]) for y in ahead if f"{y}.grad" in seeds]
        slope = sum(float(((up - down) * seed).sum()) for up, down, seed in pairs) / (2 * step)
        size = sum(float(np.abs(up * seed).sum()) for up, _, seed in pairs)
        found.append(Slope(slope, ROUNDING * size / step))
    changes = [abs(a.value - b.value) / max(abs(a.value), abs(b.value), 1e-300) for a, b in pairwise(found)]
    return found[1 + int(np.argmin(changes))]
