"""Random graphs: chains and DAGs of smooth (almost everywhere) operators with shared operands and broadcasting."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
from hypothesis import strategies as st
from onnx import numpy_helper

MOST = 48  # elements of a value
BOUND = 30.0  # of absolute values: what could grow above is squeezed by a Tanh


@dataclass(frozen=True)
class Value:
    """A value of the graph under construction, and a bound of its elements."""

    name: str
    shape: tuple[int, ...]
    bound: float

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class RandomGraph:
    """A float64 model, feeds for its inputs, and seeds "<output>.grad" for its outputs."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    seeds: dict[str, np.ndarray]


@dataclass
class Sketch:
    """A graph under construction: each method adds an operator, or nothing where none fits."""

    random: Random
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def operand(self) -> Value:
        """Any value, the last ones more often; the same one may be picked again and again."""
        return self.random.choice(self.values[-3:] if self.flip() else self.values)

    def flip(self) -> bool:
        """True or False."""
        return self.random.random() < 0.5

    def constant(self, numbers: Sequence[int] | np.ndarray) -> str:
        """The name of a new initializer; lists of numbers are int64."""
        name = f"c{len(self.constants)}"
        array = numbers if isinstance(numbers, np.ndarray) else np.array(numbers, np.int64)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def emit(self, op_type: str, inputs: Sequence[str], *results: tuple[tuple[int, ...], float], **attributes) -> None:
        """Add a node, if its results are not too large; results: shape and bound of each."""
        if any(math.prod(shape) > MOST for shape, _ in results):
            return
        names = [f"v{len(self.values) + k}" for k in range(len(results))]
        self.nodes.append(oh.make_node(op_type, list(inputs), names, **attributes))
        made = [Value(name, shape, bound) for name, (shape, bound) in zip(names, results, strict=True)]
        self.values += made
        for value in made:
            if value.bound > BOUND:
                self.emit("Tanh", [value.name], (value.shape, 1.0))

    # --- operators -------------------------------------------------------------------------------------------------

    def unary(self) -> None:
        """One operand, element by element."""
        x = self.operand()
        op_type = self.random.choice(sorted(UNARY))
        self.emit(op_type, [x.name], (x.shape, UNARY[op_type](x.bound)))

    def binary(self) -> None:
        """Two operands that broadcast, often in both directions."""
        a = self.operand()
        fitting = [b for b in self.values if broadcast(a.shape, b.shape) is not None]
        b = self.random.choice(fitting)
        op_type = self.random.choice(sorted(BINARY))
        shape = broadcast(a.shape, b.shape)
        assert shape is not None
        self.emit(op_type, [a.name, b.name], (shape, BINARY[op_type](a.bound, b.bound)))

    def divide(self) -> None:
        """a / (1 + b^2), the divisor of a shape of its own."""
        a = self.operand()
        fitting = [b for b in self.values if broadcast(a.shape, b.shape) is not None]
        b = self.random.choice(fitting)
        shape = broadcast(a.shape, b.shape)
        assert shape is not None
        self.emit("Mul", [b.name, b.name], (b.shape, min(b.bound**2, BOUND)))
        self.emit("Add", [self.values[-1].name, self.constant(np.array(1.0))], (b.shape, BOUND))
        self.emit("Div", [a.name, self.values[-1].name], (shape, a.bound))

    def reduce(self) -> None:
        """Sum, mean, maximum, ... over some axes or all."""
        x = self.operand()
        axes = [axis for axis in range(len(x.shape)) if self.flip()]
        keeps = self.random.randint(0, 1)
        gone = axes or list(range(len(x.shape)))
        shape = tuple(1 if k in gone else d for k, d in enumerate(x.shape) if keeps or k not in gone)
        count = math.prod(x.shape[k] for k in gone)
        op_type = self.random.choice(sorted(REDUCE))
        signed = [axis - len(x.shape) if self.flip() else axis for axis in axes]
        inputs = [x.name, self.constant(signed)] if axes else [x.name]
        self.emit(op_type, inputs, (shape, REDUCE[op_type](x.bound, count)), keepdims=keeps)

    def matmul(self) -> None:
        """A product of vectors, matrices or batches of them."""
        a = self.operand()
        fitting = [(b, shape) for b in self.values if (shape := product_shape(a.shape, b.shape)) is not None]
        if not fitting:
            return self.transpose()
        b, shape = self.random.choice(fitting)
        self.emit("MatMul", [a.name, b.name], (shape, a.shape[-1] * a.bound * b.bound))

    def softmax(self) -> None:
        """Softmax, LogSoftmax or a layer normalization along an axis."""
        x = self.operand()
        if not x.shape:
            return
        axis = self.random.randint(-len(x.shape), len(x.shape) - 1)
        op_type = self.random.choice(["Softmax", "LogSoftmax", "LayerNormalization"])
        if op_type == "LayerNormalization":
            scale = self.constant(np.linspace(-1.0, 2.0, x.shape[-1]))
            self.emit(op_type, [x.name, scale], (x.shape, 4.0), axis=-1, epsilon=0.5)
        else:
            self.emit(op_type, [x.name], (x.shape, 1.0 if op_type == "Softmax" else 2 * x.bound + 4), axis=axis)

    def transpose(self) -> None:
        """Any permutation of the axes."""
        x = self.operand()
        axes = list(range(len(x.shape)))
        order = [axes.pop(self.random.randint(0, len(axes) - 1)) for _ in range(len(axes))]
        given = {"perm": order} if order else {}
        self.emit("Transpose", [x.name], (tuple(x.shape[k] for k in order), x.bound), **given)

    def reshape(self) -> None:
        """Flatten, turn the shape around, or add or drop an axis of length 1."""
        x = self.operand()
        rank = len(x.shape)
        axis = self.random.randint(0, rank)
        wider = (*x.shape[:axis], 1, *x.shape[axis:])
        targets = [((x.size,), [-1]), (x.shape[::-1], list(x.shape[::-1]))]
        choice = self.random.randint(0, 3)
        if choice < 2:
            shape, target = targets[choice]
            self.emit("Reshape", [x.name, self.constant(target)], (shape, x.bound))
        elif choice == 2 and rank < 4:
            self.emit("Unsqueeze", [x.name, self.constant([axis])], (wider, x.bound))
        elif 1 in x.shape:
            axis = x.shape.index(1)
            self.emit("Squeeze", [x.name, self.constant([axis])], ((*x.shape[:axis], *x.shape[axis + 1 :]), x.bound))

    def repeat(self) -> None:
        """Expand to a leading axis, Tile or Pad the last one."""
        x = self.operand()
        op_type = self.random.choice(["Expand", "Tile", "Pad"])
        ahead = [0] * (len(x.shape) - 1)
        if op_type == "Expand":
            self.emit("Expand", [x.name, self.constant([2, *x.shape])], ((2, *x.shape), x.bound))
        elif x.shape and op_type == "Tile":
            repeats = [1 for _ in ahead]
            self.emit("Tile", [x.name, self.constant([*repeats, 2])], ((*x.shape[:-1], 2 * x.shape[-1]), x.bound))
        elif x.shape:
            pads = [*ahead, 1, *ahead, 2]
            self.emit("Pad", [x.name, self.constant(pads)], ((*x.shape[:-1], x.shape[-1] + 3), x.bound))

    def select(self) -> None:
        """Gather with repeated and negative indices, or a slice with any sign of step."""
        x = self.operand()
        if not x.shape:
            return
        axis = self.random.randint(0, len(x.shape) - 1)
        size, before, after = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
        if self.flip():
            indices = [self.random.randint(-size, size - 1) for _ in range(self.random.randint(1, 3))]
            shape = (*before, len(indices), *after)
            self.emit("Gather", [x.name, self.constant(indices)], (shape, x.bound), axis=axis)
        else:
            start, step = self.random.randint(0, size - 1), self.random.choice([-1, 1, 2])
            end = -(2**40) if step < 0 else 2**40
            kept = len(range(size)[start::step])
            given = [self.constant([number]) for number in (start, end, axis, step)]
            self.emit("Slice", [x.name, *given], ((*before, kept, *after), x.bound))

    def join(self) -> None:
        """Concat of two or three values of one shape, or Split in two."""
        x = self.operand()
        if not x.shape:
            return
        axis = self.random.randint(0, len(x.shape) - 1)
        size, before, after = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
        if size > 1 and self.flip():
            first = self.random.randint(1, size - 1)
            results = [((*before, part, *after), x.bound) for part in (first, size - first)]
            self.emit("Split", [x.name, self.constant([first, size - first])], *results, axis=axis)
        else:
            alike = [value for value in self.values if value.shape == x.shape]
            parts = [self.random.choice(alike) for _ in range(self.random.randint(2, 3))]
            shape = (*before, size * len(parts), *after)
            self.emit("Concat", [v.name for v in parts], (shape, max(v.bound for v in parts)), axis=axis)

    def choose(self) -> None:
        """Where one value is larger than another: one, else the other."""
        a = self.operand()
        alike = [value for value in self.values if value.shape == a.shape]
        b = self.random.choice(alike)
        mask = self.constant(np.resize([True, False, False], a.shape))
        self.emit("Where", [mask, a.name, b.name], (a.shape, max(a.bound, b.bound)))

    def accumulate(self) -> None:
        """Sums along an axis."""
        x = self.operand()
        if x.shape:
            axis = self.random.randint(-len(x.shape), len(x.shape) - 1)
            how = {"exclusive": self.random.randint(0, 1), "reverse": self.random.randint(0, 1)}
            self.emit("CumSum", [x.name, self.constant(np.array(axis))], (x.shape, x.shape[axis] * x.bound), **how)


# onnxruntime has float64 kernels for all of these, and for what their gradients emit
UNARY: dict[str, Callable[[float], float]] = {
    "Abs": lambda a: a,
    "Cos": lambda a: 1.0,
    "Exp": lambda a: math.exp(min(a, 10.0)),
    "Neg": lambda a: a,
    "Relu": lambda a: a,
    "Sigmoid": lambda a: 1.0,
    "Sin": lambda a: 1.0,
    "Tanh": lambda a: 1.0,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "Add": lambda a, b: a + b,
    "Max": max,
    "Min": max,
    "Mul": lambda a, b: a * b,
    "Sub": lambda a, b: a + b,
    "Sum": lambda a, b: a + b,
}
REDUCE: dict[str, Callable[[float, int], float]] = {
    "ReduceLogSumExp": lambda a, n: a + math.log(n),
    "ReduceMax": lambda a, n: a,
    "ReduceMean": lambda a, n: a,
    "ReduceMin": lambda a, n: a,
    "ReduceSum": lambda a, n: n * a,
    "ReduceSumSquare": lambda a, n: n * a * a,
}
FAMILIES = [
    *(Sketch.unary, Sketch.unary, Sketch.binary, Sketch.binary, Sketch.binary, Sketch.divide, Sketch.reduce),
    *(Sketch.matmul, Sketch.softmax, Sketch.transpose, Sketch.reshape, Sketch.repeat, Sketch.select, Sketch.join),
    *(Sketch.choose, Sketch.accumulate),
]


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a + b, or None if the two do not fit together."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a @ b, or None if the two do not fit together."""
    try:
        shape: tuple[int, ...] = np.matmul(np.zeros(a), np.zeros(b)).shape
        return shape
    except ValueError:
        return None


def _dims(shape: tuple[int, ...], kind: str, name: str) -> list[int | str]:
    """Sizes; or symbols, the same for the same size, or each its own."""
    if kind == "static":
        return list(shape)
    return [f"D{size}" if kind == "shared" else f"{name}_{axis}" for axis, size in enumerate(shape)]


@st.composite
def graphs(draw) -> RandomGraph:
    """Models of 3 to 12 operators; their dimensions are static, symbolic, or 1 at run time only.

    All choices come from one seed, so that a smaller number of operators gives the same graph, cut short.
    """
    random = Random(draw(st.integers(0, 2**32 - 1)))
    wanted = draw(st.integers(3, 12))
    kind = draw(st.sampled_from(["static", "shared", "own"]))
    shapes = [[random.choice([1, 2, 3]) for _ in range(random.randint(0, 3))] for _ in range(random.randint(1, 3))]
    sketch = Sketch(random, [Value(f"x{k}", tuple(shape), 1.5) for k, shape in enumerate(shapes)])
    inputs = list(sketch.values)
    rng = np.random.default_rng(random.getrandbits(32))
    for _ in range(4 * wanted):
        if len(sketch.nodes) < wanted:
            random.choice(FAMILIES)(sketch)
    used = {name for node in sketch.nodes for name in node.input}
    ends = [value for value in sketch.values if value.name not in used and value not in inputs]
    infos = [oh.make_tensor_value_info(v.name, onnx.TensorProto.DOUBLE, _dims(v.shape, kind, v.name)) for v in inputs]
    results = [oh.make_tensor_value_info(v.name, onnx.TensorProto.DOUBLE, None) for v in ends]
    graph = oh.make_graph(sketch.nodes, "random", infos, results, sketch.constants)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", draw(st.sampled_from([18, 21, 22])))], ir_version=9)
    feeds = {v.name: rng.uniform(-1.5, 1.5, v.shape) for v in inputs}
    seeds = {f"{v.name}.grad": rng.uniform(-1, 1, v.shape) for v in ends}
    return RandomGraph(model, feeds, seeds)
