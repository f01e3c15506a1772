"""Random small graphs of the operators that passes look for, with the constants and idioms that they look for."""

import math
from dataclasses import dataclass
from random import Random

import numpy as np
import onnx
import onnx.helper as oh

from tests.properties import rewrite_bodies, rewrite_layers, rewrite_moves, rewrite_operators
from tests.properties.rewrite_sketch import FLOAT, FUNCTIONS, Model, Sketch, Value

FAMILIES = (
    *(*rewrite_operators.FAMILIES, *rewrite_moves.FAMILIES),
    *(*rewrite_layers.FAMILIES, *rewrite_bodies.FAMILIES),
)
SHAPES = ((2, 4, 5, 5), (1, 2, 4, 4), (2, 4, 6), (3, 4), (4, 4), (1, 4), (2, 3, 4), (2, 2, 3, 4), (4,), (), (1, 1, 3))
MODES = ("plain", "plain", "plain", "plain", "plain", "special", "special", "huge")
OPSETS = (18, 20, 21, 23, 24)
IR_VERSION = 10


@dataclass(frozen=True)
class RandomModel:
    """A model and feeds for its inputs; `mode` says what is among the numbers."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    mode: str


def random_model(seed: int, wanted: int) -> RandomModel:
    """A model of about `wanted` operators; with fewer, the same one cut short."""
    random = Random(seed)
    kind, mode = random.choice(["static", "static", "shared", "own"]), random.choice(MODES)
    model = Model(random, mode, random.choice(OPSETS), FAMILIES)
    shapes = [random.choice(SHAPES) for _ in range(random.randint(1, 2))]
    inputs = [Value(f"x{k}", shape, exact=mode != "huge") for k, shape in enumerate(shapes)]
    model.feeds.update({v.name: _feed(random, v.shape, mode) for v in inputs})
    model.inputs.extend(oh.make_tensor_value_info(v.name, FLOAT, _dims(v.shape, kind, v.name)) for v in inputs)
    sketch = Sketch(model, values=list(inputs))
    for _ in range(6 * wanted):
        if len(sketch.nodes) < wanted:
            sketch.grow()
    used = names_read(sketch.nodes)
    made = [v for v in (*sketch.values, *sketch.empty) if v not in inputs]
    ends = [v for v in made if v.name not in used or random.random() < 0.1] or inputs[:1]
    results = [oh.make_tensor_value_info(v.name, v.dtype, None) for v in ends]
    graph = oh.make_graph(sketch.nodes, "random", model.inputs, results, sketch.constants)
    imports = [oh.make_opsetid("", model.opset), *[oh.make_opsetid(FUNCTIONS, 1)] * bool(model.functions)]
    proto = oh.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, functions=model.functions)
    return RandomModel(proto, model.feeds, mode)


def names_read(nodes: "list[onnx.NodeProto]") -> set[str]:
    """What nodes and the bodies in them read."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= names_read(list(attribute.g.node))
    return found


def _dims(shape: tuple[int, ...], kind: str, name: str) -> list[int | str]:
    """Sizes; or symbols, the same for the same size, or each its own."""
    if kind == "static":
        return list(shape)
    return [f"D{size}" if kind == "shared" else f"{name}_{axis}" for axis, size in enumerate(shape)]


def _feed(random: Random, shape: tuple[int, ...], mode: str) -> np.ndarray:
    numbers = [float(random.randint(-4, 4)) for _ in range(math.prod(shape))]
    odd = {
        "plain": [0.0],
        "special": [math.nan, math.inf, -math.inf, -0.0],
        "huge": [1e20, -1e20, 3e38, -3e38, 1e30, 1e-20, -1e-38],
    }[mode]
    if mode != "plain":
        numbers = [random.choice(odd) if random.random() < 0.15 else number for number in numbers]
    return np.array(numbers, np.float32).reshape(shape)
