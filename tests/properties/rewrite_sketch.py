"""A small graph under construction, of the operators that passes look for: what it holds, and how it grows."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

import numpy as np
import onnx
import onnx.helper as oh
from onnx import TensorProto, numpy_helper

MOST = 200  # elements of a value
LARGEST = 2.0**14  # of absolute values, by bounds
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DTYPES: dict[int, type] = {
    FLOAT: np.float32,
    INT: np.int64,
    BOOL: np.bool_,
    TensorProto.INT32: np.int32,
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.DOUBLE: np.float64,
}
NUMBERS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
FUNCTIONS = "local"  # the domain of functions
HUGE = (1e15, 1e25, -1e30, 1e-20, 1e-30)


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
class Flag:
    """A condition of control flow, and what it is where that is known."""

    name: str
    holds: bool | None


@dataclass
class Model:
    """What the graphs of a model have in common.

    mode: "plain"; "special" with NaN and infinities; "huge" with numbers whose products overflow or vanish.
    inputs, feeds: those of the model besides the values that it starts from, initializers that are inputs included.
    """

    random: Random
    mode: str
    opset: int
    families: Sequence[Callable[["Sketch"], None]]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    functions: list[onnx.FunctionProto] = field(default_factory=list)


@dataclass
class Sketch:
    """A graph, a body or a function; families are functions that add operators to it, or none where none fits."""

    model: Model
    kind: str = "graph"
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    empty: list[Value] = field(default_factory=list)
    """Results without elements, which nothing reads."""

    @property
    def random(self) -> Random:
        """The source of all choices."""
        return self.model.random

    @property
    def special(self) -> bool:
        """Whether numbers are not small integers."""
        return self.model.mode != "plain"

    def chance(self, part: float = 0.5) -> bool:
        """True for this part of all calls."""
        return self.random.random() < part

    def fresh(self, letter: str) -> str:
        """A name that no value of the model has."""
        return f"{letter}{next(self.model.numbers)}"

    def operand(self, *dtypes: int, rank: Sequence[int] = range(9)) -> Value:
        """The last fitting value, or now and then any other."""
        wanted = dtypes or (FLOAT,)
        fitting = [v for v in self.values if v.dtype in wanted and len(v.shape) in rank]
        if not fitting:
            return self.values[0]
        return fitting[-1] if self.chance(0.7) else self.random.choice(fitting)

    def constant(self, array: object, *, fixed: bool = False) -> str:
        """The name of a new initializer, or of a Constant; lists are int64. Floats may become inputs, unless fixed."""
        array = np.asarray(array, np.int64) if isinstance(array, list) else np.asarray(array)
        tensor = numpy_helper.from_array(array, self.fresh("c"))
        if "function" in self.kind or self.chance(0.15):
            self.nodes.append(oh.make_node("Constant", [], [tensor.name], value=tensor))
            return tensor.name
        self.constants.append(tensor)
        if self.kind == "graph" and array.dtype == np.float32 and not fixed and self.chance(0.05):
            self._let_override(tensor.name, array)
        return tensor.name

    def _let_override(self, name: str, array: np.ndarray) -> None:
        """Make an initializer an input, which gets another value or none."""
        self.model.inputs.append(oh.make_tensor_value_info(name, FLOAT, array.shape))
        if self.chance():
            self.model.feeds[name] = np.asarray(array + np.float32(1))

    def integers(self, shape: Sequence[int], low: int = -3, high: int = 3, dtype: int = FLOAT) -> np.ndarray:
        """Small integers, often all the same: 0, 1, -1, 2."""
        one = self.random.choice([0, 1, 1, -1, 2])
        numbers = [self.random.randint(low, high) for _ in range(math.prod(shape))]
        if self.chance(0.3) and low <= one <= high:
            numbers = [one] * len(numbers)
        array: np.ndarray = np.array(numbers, DTYPES[dtype]).reshape(shape)
        if self.model.mode == "huge" and dtype == FLOAT and self.chance(0.3):
            array = np.abs(array) * np.float32(1e20) if low > 0 else array * np.float32(self.random.choice(HUGE))
        return array

    def emit(self, op_type: str, inputs: Sequence[str], *results: Value, **attributes) -> Value | None:
        """Add a node if its results are not too large; returns the first of them."""
        if any(math.prod(v.shape) > MOST or v.bound > LARGEST or len(v.shape) > 5 for v in results):
            return None
        made = [v.of(name=self.fresh("v"), exact=v.exact and self.model.mode != "huge") for v in results]
        self.nodes.append(oh.make_node(op_type, list(inputs), [v.name for v in made], **attributes))
        for value in made:
            (self.values if math.prod(value.shape) else self.empty).append(value)
        return made[0]

    def grow(self, times: int = 1) -> None:
        """So many operators or idioms of any kind."""
        for _ in range(times):
            self.random.choice(self.model.families)(self)

    def child(self, kind: str, values: Sequence[Value]) -> Self:
        """A body or function that sees these values."""
        return type(self)(self.model, f"{self.kind} {kind}" if "function" in self.kind else kind, list(values))

    def flag(self) -> Flag:
        """A constant condition, or an input."""
        holds = self.chance()
        if "function" in self.kind or self.chance(0.4):
            return Flag(self.constant(np.array(holds)), holds)
        return Flag(self.input(BOOL, np.array(holds)), holds)

    def input(self, dtype: int, array: np.ndarray) -> str:
        """A new input of the model with this content."""
        name = self.fresh("u")
        self.model.inputs.append(oh.make_tensor_value_info(name, dtype, array.shape))
        self.model.feeds[name] = array
        return name
