"""Cases for grad/rules/roi.py."""

import numpy as np

from tests.grad.checks import Case

ROIS = np.array([[0.33, 0.43, 3.1, 2.7], [1.23, 0.17, 4.41, 3.36], [-1.3, -2.6, 6.2, 5.1]])


def align(shape=(2, 2, 4, 5), **attributes) -> Case:
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    inputs = [shape, ROIS, np.array([0, 1, 0])]
    opset = attributes.pop("opset", 21)  # onnxruntime has no RoiAlign and MaxRoiPool of 22
    settings = {"output_height": 2, "output_width": 3, **attributes}
    return Case("RoiAlign", inputs, settings, name=f"RoiAlign-{spelled}", opset=opset)


def pool(rois, **attributes) -> Case:
    x = np.random.default_rng(0).permutation(2 * 2 * 5 * 6).reshape(2, 2, 5, 6) * 0.05
    name = f"MaxRoiPool-{attributes['pooled_shape']}"
    return Case("MaxRoiPool", [x, np.array(rois, np.float64)], attributes, name=name, fixed=[1], opset=21)


def deform(x, w, offset, bias=False, mask=None, **attributes) -> Case:
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    moves = np.random.default_rng(2).uniform(-1.3, 1.3, offset)
    inputs = [x, w, moves, (w[0],) if bias else None, mask]
    while inputs[-1] is None:
        inputs.pop()
    settings = {"kernel_shape": list(w[2:]), **attributes}
    return Case("DeformConv", inputs, settings, name=f"DeformConv-{x}-{w}-{spelled}", domain=(-1, 1), half=False)


CASES = [
    align(sampling_ratio=2),
    align(sampling_ratio=2, coordinate_transformation_mode="output_half_pixel"),
    align(sampling_ratio=3, spatial_scale=0.7, opset=18),
    align(sampling_ratio=0),
    align(sampling_ratio=2, mode="max"),
    align(sampling_ratio=0, mode="max", spatial_scale=0.9),
    pool([[0, 0, 0, 3, 4], [1, 2, 1, 4, 4]], pooled_shape=[2, 2]),
    pool([[1, 0, 2, 9, 7]], pooled_shape=[1, 3], spatial_scale=0.5),
    deform((2, 2, 3, 4), (3, 2, 2, 2), (2, 8, 2, 3), bias=True),
    deform((1, 4, 4, 4), (2, 2, 2, 2), (1, 16, 3, 3), mask=(1, 8, 3, 3), group=2, offset_group=2),
    deform((1, 2, 5, 5), (2, 2, 2, 3), (1, 12, 2, 2), strides=[2, 2], pads=[0, 1, 1, 0], dilations=[2, 1]),
]
