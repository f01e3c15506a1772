"""Directional derivatives of whole models in float32."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

Arrays = Mapping[str, np.ndarray]

STEPS = [4.0**-k for k in range(1, 12)]  # half the length of a segment, relative to the size of what is moved
ROUNDING = 2.0**-19  # in a sum of outputs of a deep network, relative to the size of its terms


def session_of(model: onnx.ModelProto) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """A function from feeds to outputs, by onnxruntime."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


def expose_weights(model: onnx.ModelProto, count: int) -> dict[str, np.ndarray]:
    """Make `count` float weights, spread over the graph, inputs that may be fed. In place; returns their values."""
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
    return tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims, dtype=int) > 16


def seeds_of(outputs: Arrays) -> dict[str, np.ndarray]:
    """Random weights "<output>.grad" for all float outputs."""
    rng = np.random.default_rng(2)
    return {
        f"{name}.grad": np.asarray(rng.standard_normal(value.shape), np.float32)
        for name, value in outputs.items()
        if value.dtype == np.float32
    }


def uphill(grad: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A direction that moves every element, and along which all elements of the gradient add up."""
    rng = np.random.default_rng(3)
    sign = np.where(grad == 0, rng.choice([-1, 1], grad.shape), np.sign(grad))
    size = max(float(np.abs(like).mean()), 1e-3)
    return np.asarray(sign * rng.uniform(0.5, 1.5, grad.shape) * size)


@dataclass(frozen=True)
class Scalar:
    """sum(seed * output) of a model. size: of what is added up. None where outputs have another shape than seeds."""

    run: Callable[[Arrays], dict[str, np.ndarray]]
    seeds: Arrays

    def __call__(self, at: Arrays) -> tuple[float, float] | None:
        """The value, and the sum of the absolute values of its terms."""
        found = self.run(at)
        pairs = [(found[name[: -len(".grad")]].astype("f8"), seed) for name, seed in self.seeds.items()]
        if any(value.shape != seed.shape for value, seed in pairs):
            return None
        terms = [value * seed for value, seed in pairs]
        return sum(float(term.sum()) for term in terms), sum(float(np.abs(term).sum()) for term in terms)


@dataclass(frozen=True)
class Comparison:
    """The mean slope by the gradient, by differences, and how far the two may be apart by rounding and kinks."""

    got: float
    want: float
    doubt: float

    def agrees(self, tolerance: float) -> bool:
        """Whether the two are the same within their doubt."""
        return abs(self.got - self.want) <= tolerance * max(abs(self.got), abs(self.want)) + self.doubt

    def __str__(self) -> str:
        return f"gradient {self.got:.6g}, differences {self.want:.6g}, in doubt {self.doubt:.2g}"


def compare_along(
    scalar: Scalar,
    gradient: Callable[[Arrays], np.ndarray],
    at: Arrays,
    name: str,
    direction: np.ndarray,
    longest: float,
    points: int,
) -> Comparison:
    """Compare on a segment through `at` along `direction`.

    f(b) - f(a) is the integral of gradient * direction from a to b, kinks or not. So the segment may be long enough
    for float32: of steps up to `longest`, it is the one where rounding, and the change of the slope between `points`
    points, whose mean is taken, leave the least doubt.
    """
    best = Comparison(np.nan, np.nan, np.inf)
    for step in (step for step in STEPS if step <= longest):
        ends = [_moved(at, name, sign * step * direction) for sign in (1, -1)]
        ahead, behind = (scalar(end) for end in ends)
        if ahead is None or behind is None:
            continue
        length = float(((ends[0][name].astype("f8") - ends[1][name]) * direction).sum() / (direction**2).sum())
        noise = ROUNDING * ahead[1] / length
        if noise > best.doubt:
            break
        places = step * (2 * np.arange(points) + 1 - points) / points
        slopes = [float((gradient(_moved(at, name, t * direction)) * direction).sum()) for t in places]
        doubt = (max(slopes) - min(slopes)) / (2 * points) + noise  # a jump is missed by half a step at most
        if doubt < best.doubt:
            best = Comparison(float(np.mean(slopes)), (ahead[0] - behind[0]) / length, doubt)
    return best


def _moved(at: Arrays, name: str, by: np.ndarray) -> Arrays:
    return {**at, name: np.asarray(at[name].astype("f8") + by, at[name].dtype)}
