"""Random chains of the operators that fusions look for: what runs afterwards gives the same values."""

import random

import numpy as np
import onnx.helper as oh
import pytest
from onnx import NodeProto, TensorProto, numpy_helper

import onnxgrad as og
from onnxgrad.engine.passes.fusions import (
    arithmetic,
    chains,
    clip,
    conv,
    fused_conv,
    gemm,
    gemm_weights,
    pad,
    redistribute,
)
from tests.engine.passes.checks import apply
from tests.engine.passes.special import run_as_written

FAMILIES = (pad, conv, gemm_weights, gemm, clip, chains, redistribute, arithmetic)
RULES = (*(rule for family in FAMILIES for rule in family.RULES), *arithmetic.LATE_RULES)
CHANNELS = 4


class Sketch:
    """A graph that grows by one operator at a time; values are images [2, 4, 6, 6] or matrices [5, 4]."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.is_image = self.random.random() < 0.5
        self.shape = (2, CHANNELS, 6, 6) if self.is_image else (5, CHANNELS)
        self.values = ["x"]
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape):
        return self.constant(self.numbers.standard_normal(shape).astype(np.float32))

    def emit(self, op_type, *inputs, last=True, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(oh.make_node(op_type, list(inputs), [name], **attributes))
        if last:
            self.values.append(name)
        return name

    def grow(self):
        x = self.values[-1] if self.random.random() < 0.85 else self.random.choice(self.values)
        choices = [self.constant_operand, self.activation, self.clamp, self.unary, self.two, self.norm]
        weighted = [self.convolution, self.padded] if self.is_image else [self.product, self.product]
        self.random.choice([*choices, *weighted, *weighted])(x)

    def constant_operand(self, x):
        shapes = [(), (1,), (1,) * len(self.shape), self.shape[-1:]]
        shapes += [(CHANNELS, 1, 1), (1, CHANNELS, 1, 1)] if self.is_image else [(1, CHANNELS), (5, 1)]
        array = self.numbers.standard_normal(self.random.choice(shapes)).astype(np.float32)
        special = self.random.random()
        if special < 0.3:
            array = np.full_like(array, self.random.choice([1.0, 0.0, -0.0, 2.0, -1.0, 0.25]))
        op_type = self.random.choice(["Add", "Sub", "Mul", "Mul", "Div"])
        if op_type == "Div":
            array = np.abs(array) + np.float32(0.5)
        c = self.constant(np.asarray(array))
        self.emit(op_type, *((c, x) if op_type in ("Add", "Mul", "Sub") and self.random.random() < 0.4 else (x, c)))

    def activation(self, x):
        op_type = self.random.choice(["Relu", "Relu", "LeakyRelu", "Sigmoid"])
        self.emit(op_type, x)

    def clamp(self, x):
        low, high = sorted(self.numbers.standard_normal(2) * 2)
        bounds = [self.constant(np.float32(self.random.choice([0, bound]))) for bound in (low, high)]
        kind = self.random.choice(["Clip", "Max", "Min"])
        if kind == "Clip":
            self.emit("Clip", x, *self.random.choice([bounds, bounds[:1], ["", bounds[1]]]))
        else:
            self.emit(kind, *self.random.sample([x, bounds[kind == "Min"]], 2))

    def unary(self, x):
        self.emit(self.random.choice(["Neg", "Abs", "Floor", "Ceil", "Sign"]), x)

    def two(self, x):
        other = self.random.choice(self.values)
        self.emit(self.random.choice(["Add", "Sub", "Sum", "Mul", "Max"]), x, other)

    def norm(self, x):
        scale, var = (self.constant(self.numbers.uniform(0.5, 2, CHANNELS).astype(np.float32)) for _ in range(2))
        self.emit("BatchNormalization", x, scale, self.normal(CHANNELS), self.normal(CHANNELS), var)

    def convolution(self, x):
        groups, bias = self.random.choice([1, 2, 4]), [self.normal(CHANNELS)] if self.random.random() < 0.5 else []
        op_type, size = self.random.choice(["Conv", "Conv", "ConvTranspose"]), self.random.choice([1, 3])
        w = self.normal(CHANNELS, CHANNELS // groups, size, size)
        self.emit(op_type, x, w, *bias, group=groups, pads=[size // 2] * 4)

    def padded(self, x):
        kind = self.random.choice(["Conv", "AveragePool", "MaxPool"])
        value = self.random.choice([0.0, -np.inf] if kind == "MaxPool" else [0.0, 0.0, 1.0])
        q = self.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
        p = self.emit("Pad", x, q, self.constant(np.float32(value)), last=False)
        if kind == "Conv":
            self.emit("Conv", p, self.normal(CHANNELS, CHANNELS, 3, 3))
        else:
            counted = {"count_include_pad": self.random.choice([0, 1])} if kind == "AveragePool" else {}
            self.emit(kind, p, kernel_shape=[3, 3], **counted)

    def product(self, x):
        w, bias = self.normal(CHANNELS, CHANNELS), [self.normal(CHANNELS)] if self.random.random() < 0.5 else []
        if self.random.random() < 0.3:
            w = self.emit("Transpose", w, perm=[1, 0], last=False)
        if self.random.random() < 0.5:
            self.emit("MatMul", x, w)
        else:
            alpha, turned = self.random.choice([1.0, 0.5, -2.0]), self.random.choice([0, 1])
            self.emit("Gemm", x, w, *bias, alpha=alpha, beta=self.random.choice([1.0, 3.0]), transB=turned)

    def model(self):
        outputs = dict.fromkeys([self.values[-1], self.random.choice(self.values[1:])])
        graph = oh.make_graph(
            self.nodes,
            "g",
            [oh.make_tensor_value_info("x", 1, self.shape)],
            [oh.make_tensor_value_info(name, 1, None) for name in outputs],
            self.constants,
        )
        return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=8)


def check_seed(seed: int, rules) -> int:
    """Compares a random model before and after, and returns how often a rule applied."""
    sketch = Sketch(seed)
    for _ in range(sketch.random.randint(3, 12)):
        sketch.grow()
    model = og.load(sketch.model())
    result, record = apply(model, *rules)
    x = sketch.numbers.standard_normal(sketch.shape).astype(np.float32)
    before, after = run_as_written(model, x=x), run_as_written(result, x=x)
    for want, got in zip(before, after, strict=True):
        scale = float(np.abs(want[np.isfinite(want)]).max(initial=1.0))
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-4 * scale, err_msg=f"seed {seed}")
    return sum(found.hits for found in record.values())


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_chains_keep_their_values(start):
    hits = sum(check_seed(seed, RULES) for seed in range(start, start + 20))
    assert hits > 20


def test_random_chains_keep_their_values_in_operators_of_the_runtime():
    hits = sum(check_seed(seed, (*RULES, *fused_conv.RUNTIME_RULES)) for seed in range(100, 110))
    assert hits > 10
