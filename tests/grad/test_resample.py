"""Resampling where the reference evaluator is wrong or fails: checked in onnxruntime, by being linear in x."""

import numpy as np
import pytest

from tests.grad.cases.resample import grid, resize
from tests.grad.checks import build, run_gradient, run_in_onnxruntime, seeds_of

CASES = [
    resize((1, 1, 6, 5), scales=[0.5, 0.6], axes=[-2, -1], mode="cubic", antialias=1),
    resize((1, 2, 3, 4), scales=[1, 1, 1.6, 0.7], mode="linear", coordinate_transformation_mode="align_corners"),
    resize((1, 2, 3, 4), scales=[1, 1, 1.6, 0.7], mode="cubic", coordinate_transformation_mode="align_corners"),
    resize(
        (1, 1, 4, 5),
        sizes=[3, 5],
        roi=[0.4, 0.2, 0.7, 0.9],
        axes=[2, 3],
        mode="nearest",
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    resize((1, 2, 5, 4), sizes=[3, 7], axes=[2, 3], mode="nearest", keep_aspect_ratio_policy="not_larger"),
    resize((1, 2, 4, 4), scales=[1, 1, 2, 2], mode="nearest", opset=18),
    grid((1, 2, 3, 4), (1, 2, 2, 2), mode="bilinear", opset=18),
    grid((1, 2, 3, 4), (1, 2, 2, 2), mode="bicubic", padding_mode="zeros", opset=18),
    grid((1, 2, 1, 1), (1, 2, 2, 2), padding_mode="border", align_corners=1),
]


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_of_x_is_the_adjoint(case, symbolic):
    model, feeds = build(case, np.float32, symbolic)
    seeds = seeds_of(model, run_in_onnxruntime(model, feeds))
    grads = run_gradient(model, feeds, ["x0"], run_in_onnxruntime)
    u = np.random.default_rng(0).standard_normal(feeds["x0"].shape).astype("f4")
    moved = run_in_onnxruntime(model, {**feeds, "x0": u})["y0"]
    assert float((grads["x0.grad"] * u).sum()) == pytest.approx(float((moved * seeds["y0.grad"]).sum()), abs=1e-4)
