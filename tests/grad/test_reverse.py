"""og.gradients: the walk inside a graph."""

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.grad.gradient_model import differentiable_copy
from onnxgrad.grad.registry import RULES, register_gradient
from onnxgrad.grad.reverse import gradients
from tests.engine.text_models import f32, model_of
from tests.grad.checks import run_in_onnxruntime


class Graph:
    """A text as a graph to differentiate in place, with its values by name."""

    def __init__(self, text: str, opset: int = 21) -> None:
        self.model = differentiable_copy(model_of(text, opset))
        graph = self.model.graph
        values = [*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)]
        self.values = {value.name: value for value in values}

    def __getitem__(self, name: str) -> ir.Value:
        return self.values[name]

    @property
    def op_types(self) -> list[str]:
        return [node.op_type for node in self.model.graph]

    def run(self, results: list[ir.Value | None], **feeds: object) -> list[list[float]]:
        """The values of `results` as outputs of the model."""
        self.model.graph.outputs[:] = [
            ir.node("Identity", [value], graph=self.model.graph).outputs[0] for value in results if value is not None
        ]
        for number, (output, value) in enumerate(zip(self.model.graph.outputs, results, strict=True)):
            assert value is not None
            output.name, output.type, output.shape = f"result.{number}", value.type, value.shape
        verify(self.model)
        got = run_in_onnxruntime(to_proto(self.model), {name: f32(value) for name, value in feeds.items()})
        return [array.tolist() for array in got.values()]


def test_gradients_of_all_uses_add_up():
    g = Graph(
        """g (float[2] x) => (float y) {
        a = Exp(x) b = Neg(x) c = Mul(x, x) s = Sum(a, b, c) y = ReduceSum<keepdims = 0>(s) }"""
    )
    (dx,) = g.run(gradients(g["y"], [g["x"]]), x=[0, 1])
    assert dx == pytest.approx([1 - 1 + 0, np.e - 1 + 2])


def test_a_diamond_is_walked_once():
    g = Graph("g (float[2] x) => (float[2] y) { h = Mul(x, x) a = Neg(h) b = Tanh(h) y = Mul(a, b) }")
    before = len(g.op_types)
    (dx,) = g.run(gradients(g["y"], [g["x"]], seed=g["x"]), x=[0.5, 1])
    h, x = np.array([0.25, 1]), np.array([0.5, 1])
    assert dx == pytest.approx((-np.tanh(h) - h * (1 - np.tanh(h) ** 2)) * 2 * x * x)
    assert len(g.op_types) - before < 20


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Add(x, x)", [2, 2]),
        ("Sub(x, x)", [0, 0]),
        ("Mul(x, x)", [4, 6]),
        ("Div(x, x)", [0, 0]),
        ("Concat<axis = 0>(x, x)", [2, 2]),
        ("Where(c, x, x)", [1, 1]),
    ],
)
def test_an_operand_that_is_used_twice_gets_both_gradients(node, expected):
    g = Graph(f"g (float[2] x) => (float y) <bool[2] c = {{1, 0}}> {{ r = {node} y = ReduceSum<keepdims = 0>(r) }}")
    assert g.run(gradients(g["y"], [g["x"]]), x=[2, 3]) == [expected]


def seeds_of(g: Graph, *names: str) -> list[ir.Value]:
    """A new input "seed.<name>" for each value."""
    seeds = [ir.Value(name=f"seed.{name}", type=g[name].type, shape=g[name].shape) for name in names]
    g.model.graph.inputs.extend(seeds)
    return seeds


def test_a_target_that_is_sought_has_its_seed_and_what_comes_back_through_others():
    g = Graph("g (float[1] x) => (float[1] y, float[1] z) { y = Mul(x, x) z = Neg(y) }")
    seeds = seeds_of(g, "y", "z")
    found = gradients([g["y"], g["z"]], [g["y"], g["x"], g["z"]], seeds)
    assert g.run(found, x=[3], **{"seed.y": [5], "seed.z": [2]}) == [[5 - 2], [6 * 3], [2]]


def test_several_targets_add_up_and_one_target_may_come_twice():
    g = Graph(
        """g (float[1] x) => (float a, float b) {
        s = Mul(x, x) a = ReduceSum<keepdims = 0>(s) b = ReduceMean<keepdims = 0>(x) }"""
    )
    (dx,) = g.run(gradients([g["a"], g["b"], g["a"]], [g["x"]]), x=[3])
    assert dx == [6 + 1 + 6]


def test_the_same_value_may_be_sought_twice():
    g = Graph("g (float[1] x) => (float[1] y) { y = Mul(x, x) }")
    assert g.run(gradients(g["y"], [g["x"], g["x"]], seed=g["x"]), x=[3]) == [[18], [18]]


def test_what_the_target_does_not_depend_on_has_none_and_leaves_nothing():
    g = Graph("g (float[N] x, float[N] z) => (float[N] y, int64[1] n) { y = Neg(x) n = Shape(z) }")
    before = g.op_types
    assert gradients(g["y"], [g["z"]], seed=g["x"]) == [None]
    assert g.op_types == before
    verify(g.model)


def test_a_gradient_that_does_not_flow_smoothly_is_none():
    g = Graph("g (float[N] x) => (float[N] y) { r = Floor(x) y = Exp(r) }")
    before = g.op_types
    assert gradients(g["y"], [g["x"]], seed=g["x"]) == [None]
    assert g.op_types == before


def test_dead_nodes_of_rules_are_removed_and_those_of_the_model_kept():
    g = Graph("g (float[N, 3] x, float[3, 2] w) => (float[N, 2] y) { unused = Exp(x) y = MatMul(x, w) }")
    gradients(g["y"], [g["w"]], seeds_of(g, "y"))
    used = {value for node in g.model.graph for value in node.inputs}
    dead = [node.op_type for node in g.model.graph if not any(v in used for v in node.outputs)]
    assert dead[:2] == ["Exp", "MatMul"] and len(dead) == 3, "the model's own, and the gradient"


def test_the_label_side_of_a_loss_needs_no_rules():
    g = Graph(
        """g (float[N, 2] x, float[N, 3] t, int64[1] a) => (float loss) <float[2, 1] w = {1, 2}> {
        y = MatMul(x, w) m = ReduceMax<keepdims = 1>(t, a) r = Round(m)
        d = Sub(y, r) s = Mul(d, d) loss = ReduceMean<keepdims = 0>(s) }"""
    )
    hidden = {key: RULES.pop(key) for key in (("", "Round"), ("", "ReduceMax"))}
    try:
        (grad,) = gradients(g["loss"], [g["w"]])
    finally:
        RULES.update(hidden)
    assert grad is not None and grad.shape == [2, 1]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda g: gradients(g["y"], [g["x"]]), r"'y' is not a scalar(.|\n)*y: float32\[N\]"),
        (lambda g: gradients([g["y"], g["y"]], [g["x"]], [g["x"]]), "2 targets need as many seeds, not 1"),
        (lambda g: gradients(g["n"], [g["x"]]), r"only floating-point(.|\n)*n: int64"),
        (lambda g: gradients(g["y"], [Graph(ONE)["x"]], g["x"]), "must belong to one graph"),
    ],
)
def test_impossible_requests_are_errors(ask, message):
    with pytest.raises(GradientError, match=message):
        ask(Graph(ONE))


ONE = "g (float[N] x) => (float[N] y, int64[1] n) { y = Neg(x) n = Shape(x) }"


def test_a_rule_that_returns_the_wrong_shape_is_named():
    @register_gradient("Neg")
    def wrong(op, node, dy):
        return (op.ReduceSum(dy, None, keepdims=0),)

    g = Graph(ONE)
    try:
        with pytest.raises(GradientError, match=r"rule of Neg gives .*float32\[\](.|\n)*x: float32\[N\]"):
            gradients(g["y"], [g["x"]], g["x"])
    finally:
        RULES["", "Neg"].pop(0)


def test_a_registered_gradient_takes_the_place_of_a_standard_one():
    @register_gradient("Neg")
    def doubled(op, node, dy):
        return (op.Mul(dy, -2.0),)

    g = Graph("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    try:
        assert g.run(gradients(g["y"], [g["x"]], g["x"]), x=[3]) == [[-6]]
    finally:
        RULES["", "Neg"].pop(0)


def test_tied_weights_get_the_sum_of_both_paths():
    """An embedding that is the output layer too, with an index that comes twice and one from the end."""
    g = Graph(
        """g (int64[3] i, float[3, 4] s) => (float[3, 4] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
        e = Gather(w, i) t = Transpose(w) y = MatMul(e, t) }"""
    )
    (grad,) = gradients(g["y"], [g["w"]], g["s"])
    assert grad is not None
    grad.name = "dw"
    g.model.graph.outputs[:] = [grad]
    w, i, s = np.arange(1, 9, dtype="f4").reshape(4, 2), np.array([0, -1, 0]), np.arange(12, dtype="f4").reshape(3, 4)
    want = s.T @ w[i]
    np.add.at(want, i, s @ w)
    got = run_in_onnxruntime(to_proto(g.model), {"i": i, "s": s})["dw"]
    assert np.allclose(got, want)
