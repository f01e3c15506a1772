"""Cuts: as few regions as possible, in an order that runs, and plans that pass values between them."""

import json

import numpy as np
import onnx_ir as ir
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.partition.regions import cut
from tests.engine.text_models import compiled, f64, model_of

MIXED = """g (double[3] x, uint64[3] k, int64[1] two) => (double[3] b, uint64[2] t, uint64[3] same) {
  t, i = TopK(k, two)
  d = Cast <to: int = 11> (t)
  s = ReduceSum <keepdims: int = 0> (d)
  e = Exp(x)
  b = Mul(e, s)
  same = Identity(k)
}"""


def parts(graph, hosted):
    model = ir.from_proto(model_of(graph))
    nodes = list(model.graph)
    found = cut(model.graph, {node: "test" for node in nodes if node.op_type in hosted})
    return [(part.on_host, [nodes[index].outputs[0].name for index in part.nodes]) for part in found]


CUTS = [
    ("a = Abs(x) b = Neg(a) y = Sin(b)", (), [(False, ["a", "b", "y"])]),
    ("a = Abs(x) b = Neg(a) y = Sin(b)", ("Neg",), [(False, ["a"]), (True, ["b"]), (False, ["y"])]),
    ("a = Abs(x) b = Neg(a) y = Sin(b)", ("Abs",), [(True, ["a"]), (False, ["b", "y"])]),
    # two branches share the regions, and the diamond has no cycle of regions
    ("a = Neg(x) b = Abs(x) c = Sin(a) d = Neg(b) y = Add(c, d)", ("Neg",), None),
    ("a = Neg(x) b = Neg(a) c = Abs(x) y = Add(b, c)", ("Neg",), [(True, ["a", "b"]), (False, ["c", "y"])]),
]


@pytest.mark.parametrize(("body", "hosted", "wanted"), CUTS, ids=[f"{row[0]} {row[1]}" for row in CUTS])
def test_regions_are_few_and_run_in_order(body, hosted, wanted):
    found = parts(f"g (float[N] x) => (float[N] y) {{ {body} }}", hosted)
    if wanted is not None:
        assert found == wanted
    assert len(found) <= 3
    assert sorted(name for _, names in found for name in names) == sorted(s.split()[0] for s in body.split(") ") if s)


def test_constants_are_no_reason_for_a_cut():
    body = "c = Constant <value_float: float = 2.0> () a = Neg(c) b = Add(x, c) y = Mul(a, b)"
    found = parts(f"g (float[N] x) => (float[N] y) {{ {body} }}", ("Neg",))
    assert found == [(True, ["c", "a"]), (False, ["c", "b", "y"])]


def test_values_cross_between_regions():
    run = compiled(MIXED, 24)
    got = run(f64([0, 0, 1]), np.asarray([3, 9, 2], np.uint64), np.asarray([2], np.int64))
    np.testing.assert_allclose(got["b"], 12 * np.exp(f64([0, 0, 1])))
    np.testing.assert_array_equal(got["t"], [9, 3])
    np.testing.assert_array_equal(got["same"], [3, 9, 2])
    assert len(run.plan.regions) == 2 and run.providers[0] == "host"


def test_an_explanation_is_text_and_json():
    explanation = compiled(MIXED, 24).explain()
    text, data = str(explanation), json.loads(json.dumps(explanation.to_dict()))
    assert "2 regions" in text and "TopK" in text and "host" in text
    assert [region["runs_on"] for region in data["regions"]] == [["host"], ["CPUExecutionProvider"]]
    assert data["remedies"][0]["kind"] == "host" and 0.8 < data["delegated"] < 0.9


def test_initializers_inputs_and_constants_may_be_outputs_of_a_cut_model():
    model = model_of(
        """g (uint64[3] x, int64[1] k) => (uint64[1] t, float[2] w, uint64[3] x, float c)
      <float[2] w = {1, 2}> { t, i = TopK(x, k) c = Constant <value_float: float = 3.0> () }""",
        24,
    )
    got = compile(model, providers="cpu")(np.asarray([1, 5, 2], np.uint64), np.asarray([1], np.int64))
    assert list(got) == ["t", "w", "x", "c"]
    np.testing.assert_array_equal(got["w"], [1, 2])
    np.testing.assert_array_equal(got["x"], [1, 5, 2])
    assert got["t"] == 5 and got["c"] == 3


def test_initializers_that_are_inputs_may_be_fed_to_a_cut_model():
    model = model_of(
        "g (uint64[3] x, int64[1] k, uint64[3] w) => (uint64[1] y, uint64[1] z) "
        "<uint64[3] w = {1, 2, 3}> { y, i = TopK(x, k) z, j = TopK(w, k) }",
        24,
    )
    run = compile(model, providers="cpu")
    x, k = np.asarray([1, 5, 2], np.uint64), np.asarray([1], np.int64)
    assert run(x, k)["z"] == 3 and run(x, k, np.asarray([7, 8, 9], np.uint64))["z"] == 9


def test_zero_size_tensors_pass_between_regions():
    run = compiled(MIXED.replace("uint64[3]", "uint64[K]").replace("uint64[2]", "uint64[T]"), 24)
    got = run(f64([0, 0, 1]), np.zeros(0, np.uint64), np.asarray([0], np.int64))
    assert got["t"].shape == (0,)
    np.testing.assert_array_equal(got["b"], [0, 0, 0])


def test_what_one_session_passes_to_another_stays_an_ortvalue():
    from onnxruntime import OrtValue

    run = compiled(
        """g (double[3] x, uint64[3] k, int64[1] two) => (double[2] b, float[2] f) {
          a = Exp(x)
          h = Cast <to: int = 13> (x)
          t, i = TopK(h, two)
          d = Cast <to: int = 11> (t)
          p, j = TopK(a, two)
          b = Add(p, d)
          f = Cast <to: int = 1> (b)
        }""",
        24,
    )
    first, host, second = run.plan.regions
    assert [region.providers == ("host",) for region in (first, host, second)] == [False, True, False]
    values = dict(zip(first.outputs, first.run({"x": f64([1, 0, 2]), "two": np.asarray([2], np.int64)}), strict=True))
    assert isinstance(values["h"], np.ndarray) and isinstance(values["p"], OrtValue)
    got = run(f64([1, 0, 2]), np.zeros(3, np.uint64), np.asarray([2], np.int64))
    np.testing.assert_allclose(got["b"], np.exp(f64([2, 1])) + f64([2, 1]))
