"""Gradients of random graphs agree with central differences, to first and second order, and in forward mode."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.printer
import onnxruntime as ort
from hypothesis import HealthCheck, assume, given, note, settings

from onnxgrad.exporters import to_proto
from onnxgrad.grad.forward import jvp_model
from onnxgrad.grad.gradient_model import gradient_model
from tests.properties.random_graphs import RandomGraph, graphs

Arrays = Mapping[str, np.ndarray]

STEP = 1e-5
TOLERANCE = 1e-6  # of first derivatives; central differences are good to STEP^2 times the third derivative
KINK = 1e-2  # slopes to the left and to the right that differ by more are not two slopes of a smooth function

quick = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def compiled(model: onnx.ModelProto) -> Callable[[Arrays], Arrays]:
    """A function from feeds to outputs, by onnxruntime."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


def dot(arrays: Arrays, seeds: Arrays) -> float:
    """sum(seed * array) over all seeds "<name>.grad"."""
    return sum(float((arrays[name[: -len(".grad")]] * seed).sum()) for name, seed in seeds.items())


def slope(function: Callable[[Arrays], float], at: Arrays, along: Arrays) -> float:
    """The derivative of `function` along a direction. Examples that sit on a kink are given up."""
    left, here, right = (
        function({**at, **{name: np.asarray(at[name] + step * direction) for name, direction in along.items()}})
        for step in (-STEP, 0.0, STEP)
    )
    assume(abs(right - 2 * here + left) <= KINK * STEP * max(1.0, abs(right - left) / STEP))
    return (right - left) / (2 * STEP)


def directions(feeds: Arrays, seed: int) -> Arrays:
    """A random direction for each input."""
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(value.shape)) for name, value in feeds.items()}


def product(grads: Arrays, along: Arrays) -> tuple[float, float]:
    """sum(gradient * direction), and the size of what it adds up. An input that nothing depends on has no gradient."""
    terms = [grads[f"{name}.grad"] * u for name, u in along.items() if f"{name}.grad" in grads]
    return sum(float(term.sum()) for term in terms), sum(float(np.abs(term).sum()) for term in terms)


def assert_close(got: float, size: float, want: float, tolerance: float) -> None:
    assert abs(got - want) <= tolerance * max(1.0, abs(want), size), f"{got:.9g}, not {want:.9g}"


@given(graphs())
@settings(quick, max_examples=500)
def test_gradients_agree_with_differences(graph: RandomGraph):
    note(onnx.printer.to_text(graph.model))
    forward, backward = compiled(graph.model), compiled(to_proto(gradient_model(graph.model)))
    grads = backward({**graph.feeds, **graph.seeds})
    for name, value in graph.feeds.items():
        assert grads.get(f"{name}.grad", value).shape == value.shape
    for name, direction in directions(graph.feeds, 1).items():
        want = slope(lambda at: dot(forward(at), graph.seeds), graph.feeds, {name: direction})
        assert_close(*product(grads, {name: direction}), want, TOLERANCE)


@given(graphs())
@settings(quick, max_examples=60)
def test_second_derivatives_agree_with_differences_of_first_ones(graph: RandomGraph):
    note(onnx.printer.to_text(graph.model))
    first = to_proto(gradient_model(graph.model))
    inputs = [name for name in graph.feeds if f"{name}.grad" in {output.name for output in first.graph.output}]
    assume(inputs)
    feeds = {name: graph.feeds[name] for name in inputs}
    weights = {f"{name}.grad.grad": u for name, u in directions(feeds, 2).items()}
    second = compiled(to_proto(gradient_model(first, wrt=inputs, of=[f"{name}.grad" for name in inputs])))
    found = second({**graph.feeds, **graph.seeds, **weights})
    backward, along = compiled(first), directions(feeds, 3)
    want = slope(lambda at: dot(backward({**graph.feeds, **at, **graph.seeds}), weights), feeds, along)
    grads = {f"{name}.grad": found[f"{name}.grad_1"] for name in inputs}
    assert_close(*product(grads, along), want, 20 * TOLERANCE)


@given(graphs())
@settings(quick, max_examples=60)
def test_forward_mode_is_the_transpose_of_reverse_mode(graph: RandomGraph):
    note(onnx.printer.to_text(graph.model))
    along = directions(graph.feeds, 4)
    inputs, ends = list(graph.feeds), [name.removesuffix(".grad") for name in graph.seeds]
    grads = compiled(to_proto(gradient_model(graph.model, wrt=inputs)))({**graph.feeds, **graph.seeds})
    tangents = {f"{name}.tangent": u for name, u in along.items()}
    moved = compiled(to_proto(jvp_model(graph.model, wrt=inputs)))({**graph.feeds, **tangents})
    got = sum(float((moved[f"{name}.tangent"] * graph.seeds[f"{name}.grad"]).sum()) for name in ends)
    want, size = product(grads, along)
    assert_close(got, size, want, 1e-10)
