"""Run a model as it is written, on values where careless rewrites show: NaN, infinities, zeros of both signs."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

import onnxgrad as og

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 1e-30, -1e30, 6.0, 100.0, -7.0])


def run_as_written(model: ir.Model, **feeds: np.ndarray) -> list[np.ndarray]:
    """The outputs, without any optimization by the runtime."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    source = og.to_proto(model).SerializeToString()
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, feeds)
    return outputs


def assert_same_values(model: ir.Model, result: ir.Model, *, signs: bool = True, **feeds: np.ndarray) -> None:
    """Equal up to rounding, NaN where NaN was, and zeros of the same sign unless `signs` is false."""
    for want, got in zip(run_as_written(model, **feeds), run_as_written(result, **feeds), strict=True):
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype == np.float16 else 1e-6)
        if signs and want.dtype.kind == "f":
            where = want == 0
            np.testing.assert_array_equal(np.signbit(got[where]), np.signbit(want[where]))
