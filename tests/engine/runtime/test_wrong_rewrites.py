"""onnxruntime's optimizer: which of its rewrites a session does without."""

import numpy as np
import onnx.parser
import pytest

import onnxgrad as og
from onnxgrad.engine.runtime.wrong_rewrites import wrong_rewrites

HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
GRAPH = "g (float[1000] x, float[1000] z) => (float[1000] y) {{ {} a = Dropout (x{}) y = Add(a, z) }}"
ON = "r = Constant <value = float {0.5}> () t = Constant <value = bool {1}> ()"
INSIDE = f"""g (bool c, float[9] x) => (float[9] y) {{ y = If (c) <then_branch = t () => (float[9] a)
    {{ {ON} a = Dropout (x, r, t) }}, else_branch = e () => (float[9] b) {{ b = Identity(x) }}> }}"""


def proto(text):
    return onnx.parser.parse_model(HEADER + text)


@pytest.mark.parametrize(
    ("text", "stays"),
    [(GRAPH.format("", ""), False), (GRAPH.format(ON, ", r, t"), True), (INSIDE, True)],
    ids=["inference", "training", "training inside of a body"],
)
def test_dropout_is_kept_where_it_may_train(text, stays):
    assert ("EliminateDropout" in wrong_rewrites(proto(text).SerializeToString())) == stays


def test_dropout_in_training_mode_drops():
    ones = np.ones(1000, np.float32)
    result = og.compile(proto(GRAPH.format(ON, ", r, t")))(x=ones, z=0 * ones)["y"]
    assert 300 < np.count_nonzero(result) < 700
