import json

import numpy as np
import onnx
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import InputError, ModelError, OptionError
from onnxgrad.engine.runtime.bench import compare_speed, percentiles
from tests.engine.text_models import compiled, f32, f64, floats, model_of

TWO = "g (float[N, 64] x) => (float[N, 64] y) <float[64, 64] w> { p = MatMul(x, w) y = Sin(p) }"
LOOP = """g (int64 n, float[2] x) => (float[2] y)
    { c = Constant <value = bool {1}> () y = Loop (n, c, x)
      <body = b (int64 i, bool k, float[2] s) => (bool m, float[2] t) { m = Identity(k) t = Neg(s) }> }"""


def model_with_weight():
    model = model_of("g (float[N, 64] x) => (float[N, 64] y) { p = MatMul(x, w) y = Sin(p) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    return model


def test_every_node_that_runs_is_in_the_profile_with_its_calls():
    profile = compile(model_with_weight(), providers="cpu", threads=1).profile(np.ones((8, 64), np.float32), runs=4)
    nodes = {node.op_type: node for node in profile.nodes}
    assert {name: node.calls for name, node in nodes.items()} == {"MatMul": 4, "Sin": 4}
    assert all(node.runs_on == "CPUExecutionProvider" and node.microseconds >= 0 for node in profile.nodes)
    assert [node.microseconds for node in profile.nodes] == sorted(
        (n.microseconds for n in profile.nodes), reverse=True
    )
    assert sum(profile.by_op_type.values()) <= profile.milliseconds * 1e3


def test_nodes_of_a_body_count_every_iteration_and_not_those_of_the_first_run():
    profile = compiled(LOOP).profile({"n": 5, "x": f32([1, 2])}, runs=3)
    assert sum(node.calls for node in profile.nodes if node.op_type == "Neg") == 15


def test_text_and_json_hold_the_same_nodes():
    profile = compile(model_with_weight(), providers="cpu", threads=1).profile(x=np.ones((8, 64), np.float32), runs=1)
    data = json.loads(json.dumps(profile.to_dict()))
    assert [node["op_type"] for node in data["nodes"]] == [node.op_type for node in profile.nodes]
    assert data["runs"] == 1
    assert all(f"{node.op_type} {node.name}" in str(profile) for node in profile.nodes)


def test_a_node_on_the_host_is_in_the_profile():
    run = compiled("g (uint64[N] x, int64[1] k) => (uint64[M] y, int64[M] i) { y, i = TopK(x, k) }", opset=24)
    profile = run.profile(np.asarray([5, 7, 6], np.uint64), [2], runs=2)
    assert [(node.op_type, node.runs_on) for node in profile.nodes if node.runs_on == "host"] == [("TopK", "host")]


def test_a_profile_leaves_no_files_and_does_not_disturb_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = compile(model_with_weight(), providers="cpu", threads=1)
    run.profile(np.ones((1, 64), np.float32), runs=1)
    assert list(tmp_path.iterdir()) == []
    y = f64(run(np.ones((1, 64), np.float32))["y"])
    np.testing.assert_allclose(y, np.sin(64 * np.ones((1, 64))), rtol=1e-5)


def test_a_file_that_has_changed_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model_with_weight(), path)
    run = compile(path, providers="cpu", threads=1)
    assert run.profile(np.ones((1, 64), np.float32), runs=1).runs == 1
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelError, match="not the one that was compiled"):
        run.profile(np.ones((1, 64), np.float32))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda run: run.profile(floats(2, 64), runs=0), OptionError),
        (lambda run: run.profile(floats(2, 3)), InputError),
    ],
    ids=["no runs", "wrong shape"],
)
def test_wrong_calls_are_errors(call, error):
    with pytest.raises(error):
        call(compile(model_with_weight(), providers="cpu", threads=1))


def test_speeds_are_compared_call_by_call(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model_with_weight(), path)
    run = compile(path, providers="cpu", threads=1)
    found = compare_speed(path, run, {"x": np.ones((1, 64), np.float32)}, seconds=0.2, providers="cpu", threads=1)
    assert len(found.raw) == len(found.ours) >= 3
    assert found.ratio == np.median(np.divide(found.raw, found.ours))
    assert f"ratio {found.ratio:.3f}" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["ours"] == percentiles(found.ours)


def test_a_model_that_onnxruntime_refuses_has_no_ratio(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    found = compare_speed(path, lambda feeds: None, {}, seconds=0.01, providers="cpu")
    assert found.ratio is None and found.refusal and "cannot run it" in str(found)
