"""Rewrites of onnxruntime's own that give wrong values are switched off."""

import numpy as np

from tests.engine.text_models import compiled


def test_zeros_padded_before_max_pool_count():
    run = compiled(
        "g (float[1,1,2,2] x) => (float[1,1,2,2] y) { q = Constant<value_ints=[0,0,1,1,0,0,1,1]>() p = Pad(x, q) "
        "y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(p) }"
    )
    np.testing.assert_array_equal(run(-np.ones((1, 1, 2, 2), np.float32))["y"], np.zeros((1, 1, 2, 2), np.float32))
