"""Random small graphs of the operators that passes look for, with the constants and idioms that they look for."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
from onnx import TensorProto, numpy_helper

from tests.properties.random_graphs import broadcast, product_shape

MOST = 200  # elements of a value
LARGEST = 2.0**14  # of absolute values, by bounds
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DTYPES: dict[int, type] = {
    FLOAT: np.float32,
    INT: np.int64,
    BOOL: np.bool_,
    TensorProto.INT32: np.int32,
    TensorProto.DOUBLE: np.float64,
}
NUMBERS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
SHAPES = ((2, 4, 5, 5), (1, 2, 4, 4), (2, 4, 6), (3, 4), (4, 4), (1, 4), (2, 3, 4), (2, 2, 3, 4), (4,), (), (1, 1, 3))


@dataclass(frozen=True)
class Value:
    """A value under construction; `exact` holds integers only, whatever the order of additions."""

    name: str
    shape: tuple[int, ...]
    dtype: int = FLOAT
    bound: float = 4.0
    exact: bool = True

    def of(self, **changes) -> "Value":
        """The same with changes."""
        return replace(self, **changes)


@dataclass(frozen=True)
class RandomModel:
    """A model and feeds for its inputs."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]


@dataclass
class Sketch:
    """A graph under construction: each method adds operators, or nothing where none fits."""

    random: Random
    special: bool
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def chance(self, part: float = 0.5) -> bool:
        """True for this part of all calls."""
        return self.random.random() < part

    def operand(self, *dtypes: int, rank: Sequence[int] = range(9)) -> Value:
        """The last fitting value, or now and then any other."""
        wanted = dtypes or (FLOAT,)
        fitting = [v for v in self.values if v.dtype in wanted and len(v.shape) in rank]
        if not fitting:
            return self.values[0]
        return fitting[-1] if self.chance(0.7) else self.random.choice(fitting)

    def constant(self, array) -> str:
        """The name of a new initializer, or of a Constant; lists are int64."""
        array = np.asarray(array, np.int64) if isinstance(array, list) else np.asarray(array)
        name = f"c{len(self.constants) + len(self.nodes)}"
        tensor = numpy_helper.from_array(array, name)
        if self.chance(0.15):
            self.nodes.append(oh.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        return name

    def integers(self, shape: Sequence[int], low: int = -3, high: int = 3, dtype: int = FLOAT) -> np.ndarray:
        """Small integers, often all the same: 0, 1, -1, 2."""
        one = self.random.choice([0, 1, 1, -1, 2])
        numbers = [self.random.randint(low, high) for _ in range(math.prod(shape))]
        if self.chance(0.3) and low <= one <= high:
            numbers = [one] * len(numbers)
        return np.array(numbers, DTYPES[dtype]).reshape(shape)

    def emit(self, op_type: str, inputs: Sequence[str], *results: Value, **attributes) -> Value | None:
        """Add a node if its results are not too large; returns the first of them."""
        if any(math.prod(v.shape) > MOST or v.bound > LARGEST or len(v.shape) > 5 for v in results):
            return None
        start = len(self.values)
        made = [v.of(name=f"v{start + k}") for k, v in enumerate(results)]
        self.nodes.append(oh.make_node(op_type, list(inputs), [v.name for v in made], **attributes))
        self.values += made
        return made[0]

    def grow(self) -> None:
        """One operator or idiom of any kind."""
        self.random.choice(FAMILIES)(self)

    # --- element by element ------------------------------------------------------------------------------------------

    def unary(self) -> None:
        """Activations, rounding of integers, no-ops."""
        x = self.operand()
        op_type = self.random.choice(["Relu", "Relu", "Neg", "Abs", "Sigmoid", "Tanh", "LeakyRelu", "Floor", "Sign"])
        if op_type in ("Floor", "Sign") and not x.exact:
            return
        loses = op_type in ("Sigmoid", "Tanh", "LeakyRelu")
        self.emit(op_type, [x.name], x.of(exact=x.exact and not loses))

    def no_op(self) -> None:
        """Identity, Dropout of inference, or an operator with a neutral constant."""
        x = self.operand(*NUMBERS)
        op_type, neutral = self.random.choice(
            [("Identity", None), ("Dropout", None), ("Add", 0), ("Mul", 1), ("Div", 1)]
        )
        if op_type == "Dropout" and x.dtype != FLOAT:
            return
        shape = self.random.choice([(), (1,), x.shape[-1:], (1,) * (len(x.shape) + 1)])
        rank = max(len(shape), len(x.shape))
        extra = [] if neutral is None else [self.constant(np.full(shape, neutral, DTYPES[x.dtype]))]
        self.emit(
            op_type, [x.name, *extra], x.of(shape=x.shape if not extra else (1,) * (rank - len(x.shape)) + x.shape)
        )

    def constant_operand(self) -> None:
        """Add, Sub, Mul, Div, Max, Min, Pow with a constant that broadcasts."""
        x = self.operand(*NUMBERS)
        shape = tuple(d if self.chance() else 1 for d in x.shape[self.random.randint(0, len(x.shape)) :])
        op_type = self.random.choice(["Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow"])
        array = self.integers(shape, dtype=x.dtype)
        if op_type in ("Div", "Pow"):
            if x.dtype != FLOAT:
                return
            array = (
                np.full(shape, self.random.choice([1, 2, 4]), np.float32)
                if op_type == "Div"
                else np.array(2, np.float32)
            )
        large = {"Mul": 3 * x.bound, "Pow": x.bound**2, "Div": x.bound}.get(op_type, x.bound + 3)
        pair = [x.name, self.constant(array)]
        turned = pair[::-1] if op_type not in ("Div", "Pow") and self.chance(0.4) else pair
        self.emit(op_type, turned, x.of(bound=large, exact=x.exact and op_type != "Div"))

    def two(self) -> None:
        """Two computed operands; often the same one twice, or one of another shape."""
        a = self.operand(*NUMBERS)
        fitting = [b for b in self.values if b.dtype == a.dtype and broadcast(a.shape, b.shape) is not None]
        if not fitting:
            return
        b = self.random.choice(fitting)
        op_type = self.random.choice(["Add", "Add", "Sub", "Mul", "Max", "Min"])
        large = a.bound * b.bound if op_type == "Mul" else a.bound + b.bound
        shape = broadcast(a.shape, b.shape) or ()
        self.emit(op_type, [a.name, b.name], a.of(shape=shape, bound=large, exact=a.exact and b.exact))

    def clip(self) -> None:
        """Clip with both bounds or one, in any order."""
        x = self.operand()
        bounds = [self.constant(np.float32(self.random.randint(-3, 6))) for _ in range(2)]
        given = self.random.choice([bounds, bounds[:1], ["", bounds[1]]])
        self.emit("Clip", [x.name, *given], x.of(bound=x.bound + 6))

    def cast(self) -> None:
        """To another dtype that holds all values."""
        x = self.operand(*NUMBERS, BOOL)
        to = self.random.choice([*NUMBERS, BOOL])
        floats = (FLOAT, TensorProto.DOUBLE)
        if x.dtype in floats and to not in floats and (self.special or not x.exact):
            return
        self.emit("Cast", [x.name], x.of(dtype=to, bound=1.0 if to == BOOL else x.bound), to=to)

    def choose(self) -> None:
        """A comparison of integers, and Where."""
        x = self.operand()
        whole = [v for v in self.values if v.exact and v.dtype == FLOAT and broadcast(v.shape, x.shape) == x.shape]
        if not whole:
            return
        a = self.random.choice(whole)
        limit = self.constant(np.float32(self.random.randint(-2, 2)))
        mask = self.emit(self.random.choice(["Greater", "Less", "Equal"]), [a.name, limit], a.of(dtype=BOOL, bound=1.0))
        assert mask is not None
        if self.chance(0.3):
            mask = self.emit("Not", [mask.name], mask)
        other = self.constant(np.float32(self.random.choice([0, 1, -1])))
        if mask is not None:
            self.emit("Where", [mask.name, *self.random.sample([x.name, other], 2)], x.of(bound=x.bound + 1))

    # --- sums of products --------------------------------------------------------------------------------------------

    def conv(self) -> None:
        """Conv, maybe padded before."""
        x = self.operand(rank=(3, 4))
        if len(x.shape) not in (3, 4):
            return
        n, channels, *space = x.shape
        groups = self.random.choice([g for g in (1, 2, channels) if channels % g == 0])
        size, out = self.random.choice([1, 2, 3]), 4 if groups in (1, 2, 4) else channels
        if out % groups or min(space) + 2 * (size // 2) < size:
            return
        w = self.integers((out, channels // groups, *[size] * len(space)), -2, 2)
        bias = [self.constant(self.integers((out,)))] if self.chance() else []
        pads = [self.random.randint(0, size // 2) for _ in range(2 * len(space))]
        ends = [d + pads[k] + pads[k + len(space)] - size + 1 for k, d in enumerate(space)]
        if min(ends) < 1:
            return
        large = 2 * x.bound * w[0].size + 3
        self.emit("Conv", [x.name, self.constant(w), *bias], x.of(shape=(n, out, *ends), bound=large),
                  group=groups, pads=pads, kernel_shape=[size] * len(space))  # fmt: skip

    def norm(self) -> None:
        """BatchNormalization of inference."""
        x = self.operand(rank=(2, 3, 4))
        if len(x.shape) < 2:
            return
        low = [-2, -2, -2, 1]
        given = [self.constant(self.integers(x.shape[1:2], low[k])) for k in range(4)]
        self.emit("BatchNormalization", [x.name, *given], x.of(bound=3 * x.bound + 10, exact=False), epsilon=0.5)

    def pad(self) -> None:
        """Pad with a constant, or copies of the edge."""
        x = self.operand(rank=(2, 3, 4))
        rank = len(x.shape)
        inner = [k >= 2 or self.chance(0.2) for k in range(rank)]
        pads = [self.random.choice([0, 0, 1, 2]) if inside else 0 for inside in inner * 2]
        mode = self.random.choice(["constant", "constant", "edge"])
        fill = [self.constant(np.float32(self.random.choice([0, 0, 1])))] if self.chance(0.7) else []
        shape = tuple(d + pads[k] + pads[k + rank] for k, d in enumerate(x.shape))
        if rank:
            self.emit("Pad", [x.name, self.constant(pads), *fill], x.of(shape=shape), mode=mode)

    def pool(self) -> None:
        """MaxPool, AveragePool or the global ones."""
        x = self.operand(rank=(4,))
        if len(x.shape) != 4 or min(x.shape[2:]) < 2:
            return
        n, c, h, w = x.shape
        op_type = self.random.choice(["MaxPool", "AveragePool", "GlobalAveragePool"])
        if op_type == "GlobalAveragePool":
            self.emit(op_type, [x.name], x.of(shape=(n, c, 1, 1), exact=False))
        else:
            shape, exact = (n, c, h - 1, w - 1), x.exact and op_type == "MaxPool"
            self.emit(op_type, [x.name], x.of(shape=shape, exact=exact), kernel_shape=[2, 2])

    def matmul(self) -> None:
        """MatMul with a constant on either side, maybe turned around first, and a bias."""
        x = self.operand(rank=(1, 2, 3, 4))
        if not x.shape:
            return
        k, n = x.shape[-1], self.random.choice([1, 3, 4])
        w, large = self.integers((k, n), -2, 2), 2 * k * x.bound
        name = self.constant(w if self.chance(0.7) else np.ascontiguousarray(w.T))
        if list(w.shape) != list(self._shape_of(name)):
            turned = self.emit("Transpose", [name], Value("", (k, n), bound=2.0), perm=[1, 0])
            name = turned.name if turned else name
        h = self.emit("MatMul", [x.name, name], x.of(shape=(*x.shape[:-1], n), bound=large))
        if h and self.chance():
            self.emit("Add", [h.name, self.constant(self.integers((n,)))], h.of(bound=large + 3))

    def _shape_of(self, name: str) -> Sequence[int]:
        tensors = [*self.constants, *(n.attribute[0].t for n in self.nodes if n.op_type == "Constant")]
        return next(list(t.dims) for t in tensors if t.name == name)

    def gemm(self) -> None:
        """Gemm with any factors, turned operands and biases."""
        x = self.operand(rank=(2,))
        if len(x.shape) != 2:
            return
        (m, k), n = x.shape, 4
        turn_a, turn_b = self.random.randint(0, 1), self.random.randint(0, 1)
        m, k = (k, m) if turn_a else (m, k)
        w = self.integers((n, k) if turn_b else (k, n), -2, 2)
        biases: list[list[tuple[int, ...]]] = [[], [(n,)], [(1, n)], [(m, 1)], [()], [(m, n)]]
        bias = [self.constant(self.integers(shape)) for shape in self.random.choice(biases)]
        alpha, beta = self.random.choice([1.0, 1.0, 2.0, -1.0]), self.random.choice([1.0, 1.0, 2.0])
        self.emit("Gemm", [x.name, self.constant(w), *bias], x.of(shape=(m, n), bound=4 * k * x.bound + 6),
                  alpha=alpha, beta=beta, transA=turn_a, transB=turn_b)  # fmt: skip

    def product(self) -> None:
        """MatMul of two computed values, or an Einsum."""
        a = self.operand(rank=(2, 3, 4))
        fitting = [b for b in self.values if b.dtype == FLOAT and product_shape(a.shape, b.shape) is not None]
        if len(a.shape) == 2 and self.chance(0.4):
            (m, k) = a.shape
            equation, letters = self.random.choice([("ij,kj->ik", "mm"), ("ij->ji", "km"), ("ij,ij->i", "m")])
            operands = [a.name, a.name] if "," in equation else [a.name]
            sizes = {"m": m, "k": k}
            large = a.bound**2 * k if "," in equation else a.bound
            self.emit("Einsum", operands, a.of(shape=tuple(sizes[c] for c in letters), bound=large), equation=equation)
        elif fitting and a.shape:
            b = self.random.choice(fitting)
            shape = product_shape(a.shape, b.shape) or ()
            large = a.bound * b.bound * a.shape[-1]
            self.emit("MatMul", [a.name, b.name], a.of(shape=shape, bound=large, exact=a.exact and b.exact))


def families() -> list[Callable[[Sketch], None]]:
    """What a graph grows by."""
    from tests.properties import rewrite_moves as moves

    return [
        *(Sketch.unary, Sketch.unary, Sketch.no_op, Sketch.constant_operand, Sketch.constant_operand, Sketch.two),
        *(Sketch.clip, Sketch.cast, Sketch.choose, Sketch.conv, Sketch.conv, Sketch.norm, Sketch.pad, Sketch.pool),
        *(Sketch.matmul, Sketch.gemm, Sketch.product),
        *moves.FAMILIES,
    ]


FAMILIES: list[Callable[[Sketch], None]] = []


def _dims(shape: tuple[int, ...], kind: str, name: str) -> list[int | str]:
    """Sizes; or symbols, the same for the same size, or each its own."""
    if kind == "static":
        return list(shape)
    return [f"D{size}" if kind == "shared" else f"{name}_{axis}" for axis, size in enumerate(shape)]


def random_model(seed: int, wanted: int) -> RandomModel:
    """A model of about `wanted` operators; with fewer, the same one cut short."""
    random = Random(seed)
    if not FAMILIES:
        FAMILIES.extend(families())
    kind, special = random.choice(["static", "static", "shared", "own"]), random.random() < 0.25
    shapes = [random.choice(SHAPES) for _ in range(random.randint(1, 2))]
    sketch = Sketch(random, special, [Value(f"x{k}", shape) for k, shape in enumerate(shapes)])
    inputs, opset = list(sketch.values), random.choice([18, 20, 21])
    feeds = {v.name: _feed(random, v.shape, special) for v in inputs}
    for _ in range(6 * wanted):
        if len(sketch.nodes) < wanted:
            sketch.grow()
    used = {name for node in sketch.nodes for name in node.input}
    made = [v for v in sketch.values if v not in inputs]
    ends = [v for v in made if v.name not in used or random.random() < 0.1] or inputs[:1]
    infos = [oh.make_tensor_value_info(v.name, FLOAT, _dims(v.shape, kind, v.name)) for v in inputs]
    results = [oh.make_tensor_value_info(v.name, v.dtype, None) for v in ends]
    graph = oh.make_graph(sketch.nodes, "random", infos, results, sketch.constants)
    return RandomModel(oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=9), feeds)


def _feed(random: Random, shape: tuple[int, ...], special: bool) -> np.ndarray:
    numbers = [float(random.randint(-4, 4)) for _ in range(math.prod(shape))]
    if special:
        odd = [math.nan, math.inf, -math.inf, -0.0]
        numbers = [random.choice(odd) if random.random() < 0.15 else number for number in numbers]
    return np.array(numbers, np.float32).reshape(shape)
