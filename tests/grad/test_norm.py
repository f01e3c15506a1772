"""Normalizations: statistics as outputs, constant inputs, float16, and which gradients exist."""

import numpy as np
import pytest

from tests.grad.at_points import floats, gradients_at, gradients_of
from tests.grad.checks import Case, evaluate

LAYER = """<ir_version: 8, opset_import: ["" : 18]>
           g (float[N, C] x, float[C] s, float[C] b) => (float[N, C] y, float[N, 1] m, float[N, 1] r)
           { y, m, r = LayerNormalization(x, s, b) }"""
BATCH = """<ir_version: 8, opset_import: ["" : 18]>
           g (float[N, C, L] x, float[C] s, float[C] b, float[C] m, float[C] v) => (float[N, C, L] y)
           { y = BatchNormalization<epsilon = 0.1>(x, s, b, m, v) }"""


def test_mean_and_inverse_deviation_of_layer_normalization_have_gradients():
    x = np.array([[1.0, 2.0, 6.0, -1.0]])
    zeros, seeds = np.zeros((1, 4), np.float32), {"m": [[2.0]], "r": [[3.0]]}
    feeds = {"x": x.astype("f4"), "s": np.ones(4, "f4"), "b": np.zeros(4, "f4")}
    dx, ds, db = gradients_of(LAYER, feeds, {"y": zeros, **seeds})

    def value(at):
        return 2 * at.mean() + 3 / np.sqrt(at.var() + 1e-5)

    steps = 1e-5 * np.eye(4)
    np.testing.assert_allclose(dx[0], [(value(x + h) - value(x - h)) / 2e-5 for h in steps], rtol=1e-4)
    assert not ds.any() and not db.any()


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization", "InstanceNormalization"])
def test_a_constant_row_has_a_finite_gradient(op_type):
    shape, count = (1, 1, 4), 1 if op_type == "InstanceNormalization" else 4
    operands = [np.zeros(shape), np.ones(count)] + [np.ones(count)] * (op_type != "RMSNormalization")
    for grad in gradients_at(Case(op_type, operands, opset=23 if op_type == "RMSNormalization" else 22)):
        assert np.isfinite(grad).all()


def test_layer_normalization_of_float16_takes_statistics_in_float32():
    x = np.linspace(-300, 300, 512)[None]  # the sum of squares overflows float16
    case = Case("LayerNormalization", [x, np.ones(512), np.zeros(512)])
    half, single = (gradients_at(case, dtype, run=evaluate) for dtype in (np.float16, np.float32))
    assert all(np.isfinite(grad).all() for grad in half)
    np.testing.assert_allclose(half[1], single[1], rtol=2e-2, atol=2e-3)


def test_batch_normalization_with_given_statistics_has_all_five_gradients():
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 2, 2, 3))
    s, b, m = rng.standard_normal((3, 2))
    v = np.array([0.5, 2.0])
    names = {"x": x, "s": s, "b": b, "m": m, "v": v}
    got = gradients_of(BATCH, {k: a.astype("f4") for k, a in names.items()}, {"y": g.astype("f4")})
    s, m, v = (a[:, None] for a in (s, m, v))
    inverse = (v + 0.1) ** -0.5
    total = lambda a: a.sum((0, 2))  # noqa: E731
    want = [
        g * s * inverse,
        total(g * (x - m) * inverse),
        total(g),
        total(-g * s * inverse),
        total(-0.5 * g * s * (x - m) * inverse**3),
    ]
    for a, w in zip(got, want, strict=True):
        np.testing.assert_allclose(a, w, rtol=1e-4, atol=1e-5)


def test_batch_statistics_of_a_single_element_give_no_gradient_to_x():
    model = BATCH.replace("epsilon = 0.1", "training_mode = 1").replace("y = Batch", "y, rm, rv = Batch")
    one = {name: np.ones(1, "f4") for name in "sbmv"}
    dx, ds, db, *_ = gradients_of(model, {"x": np.full((1, 1, 1), 3, "f4"), **one}, {"y": np.full((1, 1, 1), 2, "f4")})
    np.testing.assert_allclose([dx.item(), ds.item(), db.item()], [0, 0, 2], atol=1e-4)


def test_group_normalization_with_symbolic_channels_in_onnxruntime():
    case = Case("GroupNormalization", [(2, 4, 3), (4,), floats(0, 0, 0, 0)], {"num_groups": 2}, opset=21)
    exact = gradients_at(case, np.float64, run=evaluate)
    for got, want in zip(gradients_at(case), exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
