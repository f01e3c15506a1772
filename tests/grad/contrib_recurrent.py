"""Recurrent operators of com.microsoft for the reference evaluator."""

from onnx.reference.op_run import OpRun

from onnxgrad.engine.runtime.host_recurrent import Options, recurrent


def _dequantized(integers, scale, zero, dtype):
    wide = lambda v: v.reshape(len(integers), 1, -1).astype(dtype)  # noqa: E731
    weight = (integers - (0 if zero is None else wide(zero))) * wide(scale)
    return weight.swapaxes(1, 2).astype(dtype)


class DynamicQuantizeLSTM(OpRun):
    """Without the rounding of X and of the states: what its gradient is the gradient of."""

    op_domain = "com.microsoft"

    def _run(self, x, w, r, *others, **options):
        given = [*others, None, None][:9]
        weights = (
            _dequantized(w, given[5], given[6], x.dtype),
            _dequantized(r, given[7], given[8], x.dtype),
        )
        found = recurrent("LSTM", [x, *weights, *given[:5]], Options(**{"input_forget": 0, **options}))
        return found[: len(self.onnx_node.output)]


RECURRENT = [DynamicQuantizeLSTM]
