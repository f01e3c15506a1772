"""Every rewrite of the survey of optimizers that standard ONNX can express: done where it holds, and only there."""

import pytest

import onnxgrad as og
from tests.engine.passes import rows_cleaning, rows_idioms, rows_moves, rows_structure, rows_weights
from tests.engine.passes.checks import model_of, operators
from tests.engine.passes.rewrite_rows import check_probe

ROWS = (*rows_cleaning.ROWS, *rows_moves.ROWS, *rows_weights.ROWS, *rows_idioms.ROWS, *rows_structure.ROWS)
TRAPS = [pytest.param(trap, id=f"{row.name}: {name}") for row in ROWS for name, trap in row.traps.items()]

# row of the survey -> why standard ONNX does not express it
ONLY_IN_A_RUNTIME = {
    "Conv+Relu->FusedConv": "an operator of onnxruntime; there is an option",
    "Gemm+Relu->FusedGemm": "an operator of onnxruntime, which makes it itself",
    "Add+LayerNorm->SkipLayerNorm": "an operator of onnxruntime, which makes it itself",
    "NCHWc layout": "internal operators of onnxruntime, for one kind of processor",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_rewrite_is_done(row):
    check_probe(row.done)


@pytest.mark.parametrize("trap", TRAPS)
def test_the_rewrite_is_not_done(trap):
    check_probe(trap)


def test_there_are_56_rewrites_each_with_two_traps():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 56
    assert [row.name for row in ROWS if len(row.traps) < 2] == []
    assert not set(names) & set(ONLY_IN_A_RUNTIME)


def test_a_convolution_takes_its_activation_in_for_onnxruntime_when_asked():
    text = "g (float[1, 3, 5, 5] x) => (float[1, 4, 3, 3] y) { h = Conv(x, w) y = Relu(h) }"
    model = model_of(text, w=rows_weights.CONV["w"])
    assert operators(og.optimize_for_inference(model)) == ["Conv", "Relu"]
    assert operators(og.optimize_for_inference(model, fuse_conv_bias_nonlinearity=True, check=1)) == ["FusedConv"]
