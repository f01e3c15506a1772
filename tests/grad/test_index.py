"""Facts about indexing that one node cannot show."""

from time import perf_counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from tests.grad.checks import evaluate, gradient_model_of, run_in_onnxruntime

TIED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N,D] table, int64[T] ids) => (float[T,N] logits) {
    e = Gather(table, ids)
    across = Transpose<perm = [1, 0]>(table)
    logits = MatMul(e, across)
}"""
EMBEDDING = """<ir_version: 10, opset_import: ["" : 21]>
g (float[8000,256] table, int64[1024] ids) => (float[1024,256] y) { y = Gather(table, ids) }"""


@pytest.mark.parametrize("run", [evaluate, run_in_onnxruntime])
def test_a_tied_embedding_gets_both_gradients(run):
    rng = np.random.default_rng(0)
    table, dy = rng.standard_normal((4, 3)).astype("f4"), rng.standard_normal((3, 4)).astype("f4")
    ids = np.array([2, -1, 2])  # repeated, and from the end
    got = run(
        gradient_model_of(onnx.parser.parse_model(TIED), ["table"]), {"table": table, "ids": ids, "logits.grad": dy}
    )
    want = dy.T @ table[ids]
    np.add.at(want, ids, dy @ table)
    np.testing.assert_allclose(got["table.grad"], want, rtol=1e-5, atol=1e-5)


def test_repeated_indices_add_up_whatever_the_number_of_threads():
    model = gradient_model_of(onnx.parser.parse_model(EMBEDDING), ["table"])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"table": np.zeros((8000, 256), "f4"), "ids": np.arange(1024) % 3, "y.grad": np.ones((1024, 256), "f4")}
    got = session.run(["table.grad"], feeds)[0]
    assert (got[:3].min(1) == [342, 341, 341]).all() and (got[:3].max(1) == [342, 341, 341]).all() and not got[3:].any()


def test_the_gradient_of_an_embedding_is_as_quick_as_writing_its_rows():
    model = gradient_model_of(onnx.parser.parse_model(EMBEDDING), ["table"])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {
        "table": np.zeros((8000, 256), "f4"),
        "ids": rng.integers(0, 8000, 1024),
        "y.grad": np.ones((1024, 256), "f4"),
    }
    times = []
    for _ in range(20):
        start = perf_counter()
        session.run(["table.grad"], feeds)
        times.append(perf_counter() - start)
    assert min(times) < 0.03  # a one-hot product of these sizes takes ten times as long
    assert "OneHot" not in {node.op_type for function in model.functions for node in function.node}


@pytest.mark.parametrize("op_type", ["ScatterElements", "ScatterND"])
def test_a_product_with_zeros_is_exact(op_type):
    """y = d u1 u2 at one place: with one zero only its own factor has a gradient, with two none."""
    index = "int64[2] i = {0, 0}" if op_type == "ScatterElements" else "int64[2,1] i = {0, 0}"
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[1] d, float[2] u) => (float[1] y) <{index}> {{
        y = {op_type}<reduction = "mul">(d, i, u)
    }}"""
    model = gradient_model_of(onnx.parser.parse_model(text), ["d", "u"])
    for d, u, dd, du in ((2, (3, 0), 0, (0, 6)), (0, (3, 4), 12, (0, 0)), (2, (0, 0), 0, (0, 0))):
        feeds = {"d": np.array([d], "f4"), "u": np.array(u, "f4"), "y.grad": np.ones(1, "f4")}
        got = run_in_onnxruntime(model, feeds)
        assert got["d.grad"].tolist() == [dd] and got["u.grad"].tolist() == list(du)


def test_the_greatest_share_equally():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] d, float[3] u) => (float[2] y) <int64[3] i = {0, 0, 1}> {
        y = ScatterElements<reduction = "max">(d, i, u)
    }"""
    model = gradient_model_of(onnx.parser.parse_model(text), ["d", "u"])
    feeds = {"d": np.array([1, 5], "f4"), "u": np.array([1, 1, 2], "f4"), "y.grad": np.array([3, 1], "f4")}
    got = run_in_onnxruntime(model, feeds)
    np.testing.assert_allclose(got["d.grad"], [1, 1])
    np.testing.assert_allclose(got["u.grad"], [1, 1, 0])
