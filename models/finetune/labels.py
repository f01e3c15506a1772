"""Labels that nobody has: what an evaluation graph is fed where only predictions are wanted."""

import numpy as np
import onnx_ir as ir

from onnxgrad.grad.losses import Loss


def placeholder(loss: Loss, prediction: ir.Value, size: int) -> np.ndarray:
    """Zeros of the dtype and shape of a label for `size` examples; dimensions that are not known are 1."""
    dtype, shape = loss.label_like(prediction)
    return np.zeros([size, *(dim if isinstance(dim, int) else 1 for dim in list(shape)[1:])], dtype.numpy())
