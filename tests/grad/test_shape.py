"""Facts about moving elements that the table cannot show: operands known at run time only, unused outputs."""

import numpy as np
import onnx
import pytest

from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from tests.grad.checks import evaluate, gradient_model_of, run_in_onnxruntime


def run(text, feeds, wrt=("x",)):
    """The gradients of the sum of all elements of y, times their positions 1, 2, ..., in onnxruntime; and y."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    y = run_in_onnxruntime(model, feeds)["y"]
    seed = np.arange(1, y.size + 1, dtype=y.dtype).reshape(y.shape)
    gradient = gradient_model_of(model, list(wrt))
    got = run_in_onnxruntime(gradient, {**feeds, "y.grad": seed})
    return [got[f"{name}.grad"] for name in wrt], seed


def test_a_split_of_which_one_part_is_used():
    text = "g (float[4] x) => (float[2] y) { a, b = Split<num_outputs = 2>(x)  y = Mul(a, a) }"
    (dx,), _ = run(text, {"x": np.array([1, 2, 3, 4], "f4")})
    assert dx.tolist() == [2, 8, 0, 0]


def test_an_output_of_a_split_that_was_left_out_in_a_model_of_symbolic_size():
    text = "g (float[N] x) => (float[M] y) { a, b = Split<num_outputs = 2>(x)  y = Identity(b) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    model.graph.node[0].output[0] = ""
    gradient = gradient_model_of(model, ["x"])
    got = run_in_onnxruntime(gradient, {"x": np.ones(5, "f4"), "y.grad": np.array([3, 4], "f4")})
    assert got["x.grad"].tolist() == [0, 0, 0, 3, 4]


SLICES = [
    ((slice(1, 3),), [1], [3], [0], [1]),
    ((slice(None), slice(-2, None)), [-2], [100], [1], [1]),
    ((slice(-100, 2),), [-100], [2], [0], [1]),
    ((slice(3, 1),), [3], [1], [0], [1]),
    ((slice(None, None, -1), slice(1, 5, 2)), [100, 1], [-100, 5], [0, -1], [-1, 2]),
]


@pytest.mark.parametrize(("taken", "starts", "ends", "axes", "steps"), SLICES)
def test_a_slice_known_at_run_time_only(taken, starts, ends, axes, steps):
    text = """g (float[A,B] x, int64[n] starts, int64[n] ends, int64[n] axes, int64[n] steps) => (float[C,D] y) {
        y = Slice(x, starts, ends, axes, steps)
    }""".replace("[n]", f"[{len(starts)}]")
    x = np.zeros((4, 5), "f4")
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    (dx,), seed = run(text, {"x": x, **{k: np.array(v) for k, v in given.items()}})
    want = np.zeros_like(x)
    want[taken] = seed
    np.testing.assert_array_equal(dx, want)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_bounds_of_a_slice_known_at_run_time_only_for_the_first_axes(kind):
    text = f"g (float[A,B] x, {kind}[1] starts, {kind}[1] ends) => (float[C,B] y) {{ y = Slice(x, starts, ends) }}"
    feeds = {"x": np.zeros((3, 2), "f4"), "starts": np.array([-2], kind), "ends": np.array([9], kind)}
    (dx,), _ = run(text, feeds)
    assert dx.tolist() == [[0, 0], [1, 2], [3, 4]]


@pytest.mark.parametrize("pads", [[1, 0, 0, 2], [-1, 0, 0, 1], [0, -2, -1, 0], [0, 0, 0, 0]])
def test_padding_known_at_run_time_only_adds_and_cuts(pads):
    text = "g (float[A,B] x, int64[4] pads, float value) => (float[C,D] y) { y = Pad(x, pads, value) }"
    feeds = {"x": np.zeros((3, 4), "f4"), "pads": np.array(pads), "value": np.array(2, "f4")}
    (dx, dvalue), seed = run(text, feeds, ("x", "value"))
    around = np.pad(np.zeros((3, 4)), [(max(pads[k], 0), max(pads[k + 2], 0)) for k in (0, 1)], constant_values=1)
    cut = tuple(slice(max(-pads[k], 0), around.shape[k] + min(pads[k + 2], 0)) for k in (0, 1))
    np.testing.assert_allclose(dvalue, (around[cut] * seed).sum())
    inside = np.zeros((3, 4))
    inside[tuple(slice(max(-pads[k], 0), (3, 4)[k] + min(pads[k + 2], 0)) for k in (0, 1))] = 1
    assert dx.sum() == (seed * (1 - around[cut])).sum() and not dx[inside == 0].any()


def test_negative_padding_known_beforehand_cuts():
    text = "g (float[4] x) => (float[4] y) <int64[2] pads = {-1, 1}> { y = Pad(x, pads) }"
    (dx,), _ = run(text, {"x": np.zeros(4, "f4")})
    assert dx.tolist() == [0, 1, 2, 3]


def test_a_slice_of_step_1_is_undone_by_padding_not_by_scattering():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4,N] x) => (float[2,N] y) <int64[1] one = {1}, int64[1] three = {3}> {
        y = Slice(x, one, three)
    }"""
    gradient = gradient_model_of(onnx.parser.parse_model(text), ["x"])
    used = {node.op_type for holder in (gradient.graph, *gradient.functions) for node in holder.node}
    assert "Pad" in used and "ScatterElements" not in used


def test_squeezing_all_axes_of_symbolic_size():
    text = "g (float[A,B,C] x) => (float[D] y) { y = Squeeze(x) }"
    (dx,), _ = run(text, {"x": np.zeros((1, 3, 1), "f4")})
    assert dx.tolist() == [[[1], [2], [3]]]


def test_an_expand_to_a_shape_known_at_run_time_only_sums_back():
    text = "g (float[A,1] x, int64[3] shape) => (float[B,C,D] y) { y = Expand(x, shape) }"
    (dx,), _ = run(text, {"x": np.zeros((1, 1), "f4"), "shape": np.array([2, 2, 1])})
    assert dx.tolist() == [[10]]


def test_one_of_two_joined_values_gets_its_part():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4] x, float[4] w) => (float[8] y) { y = Concat<axis = 0>(x, w) }"""
    gradient = gradient_model_of(onnx.parser.parse_model(text), ["x"])
    got = evaluate(gradient, {"x": np.ones(4, "f4"), "w": np.ones(4, "f4"), "y.grad": np.arange(8, dtype="f4")})
    assert got["x.grad"].tolist() == [0, 1, 2, 3]
