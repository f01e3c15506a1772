"""What all passes together, and each one alone, make of random graphs gives the same values."""

import numpy as np
import onnx
import onnx.printer
import onnxruntime as ort
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import onnxgrad as og
from onnxgrad.engine.optimize import pass_names
from tests.properties.rewrite_graphs import RandomModel, random_model

NAMES = tuple(pass_names())
TOLERANCE = 2e-5  # of the largest number on the way
OVERFLOW = 1e18  # squares of such numbers are infinite, or not, by the order of operations


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


def differences(case: RandomModel, alone: str) -> list[str]:
    """What changed, by all passes and by one of them alone: nothing, if they are right."""
    wanted = all_values(case)
    scale = max((float(np.abs(v[np.isfinite(v)]).max(initial=1.0)) for v in wanted.values() if v.dtype.kind == "f"),
                default=1.0)  # fmt: skip
    if scale > OVERFLOW:
        return []
    found = []
    for label, disabled in (("all passes", ()), (alone, [name for name in NAMES if name != alone])):
        result = og.to_proto(og.optimize_for_inference(case.model, disable=disabled))
        got = run(result, case.feeds)
        assert list(got) == [output.name for output in case.model.graph.output]
        for name, value in got.items():
            want = wanted[name]
            if (value.dtype, value.shape) != (want.dtype, want.shape):
                found.append(f"{label}: {name} is {value.dtype}{value.shape}, not {want.dtype}{want.shape}")
            elif not np.allclose(value, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
                where = ~np.isclose(value, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
                found.append(f"{label}: {name} is {value[where][:8]}, not {want[where][:8]}, scale {scale:g}")
    return found


@given(st.integers(0, 2**32 - 1), st.integers(3, 10), st.sampled_from(NAMES))
@settings(deadline=None, derandomize=True, max_examples=300, suppress_health_check=list(HealthCheck))
def test_passes_keep_the_values_of_random_graphs(seed, wanted, alone):
    case = random_model(seed, wanted)
    note(onnx.printer.to_text(case.model))
    assert not differences(case, alone)
