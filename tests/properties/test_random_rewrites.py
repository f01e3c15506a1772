"""What all passes together, and each one alone, make of random graphs gives the same values."""

import math

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.printer
import onnxruntime as ort
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import onnxgrad as og
from onnxgrad.engine.optimize import pass_names
from tests.properties.rewrite_graphs import RandomModel, names_read, random_model
from tests.properties.rewrite_sketch import LARGEST

NAMES = tuple(pass_names())
TOLERANCE = 2e-5  # of the largest number on the way to an output
OVERFLOW = 3e38


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name, without optimizations of the runtime."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def all_values(case: RandomModel) -> dict[str, np.ndarray]:
    """Every value of the model."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    known = {output.name for output in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return run(model, case.feeds)


def scales(case: RandomModel, values: dict[str, np.ndarray]) -> dict[str, float]:
    """output -> the largest finite number among it and all that it is computed from."""
    found = {name: _largest(array) for name, array in case.feeds.items()}
    for node in case.model.graph.node:
        before = max((found.get(name, 1.0) for name in names_read([node])), default=1.0)
        for name in node.output:
            found[name] = max(before, _largest(values[name]))
    return found


def reach(model: onnx.ModelProto) -> float:
    """The largest number that constants can multiply another with."""
    tensors = [*model.graph.initializer, *(n.attribute[0].t for n in model.graph.node if n.op_type == "Constant")]
    sizes = [_largest(onnx.numpy_helper.to_array(tensor)) for tensor in tensors]
    return math.prod(size for size in sizes if size > LARGEST) * LARGEST


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=1.0)) if array.dtype.kind == "f" else 1.0


def differences(case: RandomModel, alone: str) -> list[str]:
    """What changed, by all passes and by one of them alone: nothing, if they are right."""
    wanted = all_values(case)
    sizes, limit, found = scales(case, wanted), OVERFLOW / reach(case.model), list[str]()
    for label, disabled in (("all passes", ()), (alone, [name for name in NAMES if name != alone])):
        result = og.to_proto(og.optimize_for_inference(case.model, disable=disabled))
        got = run(result, case.feeds)
        assert list(got) == [output.name for output in case.model.graph.output]
        for name, value in got.items():
            size, overflows = sizes.get(name, 1.0), case.mode == "huge"
            text = _difference(value, wanted[name], size, overflows or size > limit, size > limit)
            found += [f"{label}: {name} {text}"] if text else []
    return found


def _difference(value: np.ndarray, want: np.ndarray, scale: float, overflowed: bool, overflows: bool) -> str:
    """How an output differs. Three things may:

    Without elements, as after a loop of no rounds, onnxruntime says 0 for each size that it does not know beforehand.
    What `overflowed` may be finite, or have become NaN otherwise, as 6 * x / 6 that is computed at once. What did not
    may do so where the factors of a graph can take a number on the way there (`overflows`): weights take up what was
    multiplied behind a sum that is smaller than its parts.
    """
    if value.dtype == want.dtype and value.size == want.size == 0 and _may_be_empty_alike(value.shape, want.shape):
        return ""
    if (value.dtype, value.shape) != (want.dtype, want.shape):
        return f"is {value.dtype}{value.shape}, not {want.dtype}{want.shape}"
    near = np.isclose(value, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
    near |= (overflowed and ~np.isfinite(want)) | (overflows and ~np.isfinite(value))
    return "" if near.all() else f"is {value[~near][:8]}, not {want[~near][:8]}, scale {scale:g}"


def _may_be_empty_alike(shape: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Whether two shapes without elements differ only in sizes that one of them says to be 0."""
    return before == (0,) or (
        len(shape) == len(before) and all(a == b or 0 in (a, b) for a, b in zip(shape, before, strict=True))
    )


@given(st.integers(0, 2**32 - 1), st.integers(3, 10), st.sampled_from(NAMES))
@settings(deadline=None, derandomize=True, max_examples=300, suppress_health_check=list(HealthCheck))
def test_passes_keep_the_values_of_random_graphs(seed, wanted, alone):
    case = random_model(seed, wanted)
    note(onnx.printer.to_text(case.model))
    assert not differences(case, alone)
