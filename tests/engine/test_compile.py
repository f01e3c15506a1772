import threading

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import (
    ExternalDataError,
    ModelError,
    OnnxGradError,
    OpsetError,
    OptionError,
)
from onnxgrad.engine.runtime.session import SESSIONS
from tests.engine.text_models import ADD, RELU, compiled, f32, floats, model_of

# onnxruntime's optimizer removes the Identity and then looks for its output.
BROKEN_BY_THE_OPTIMIZER = """g (float[2] x) => (float[2] y) <float o = {1.0}, float zero = {0.0}>
    { mid = Identity(x) one = Div(o, o) w = Mul(mid, one) y = Add(w, zero) }"""


def as_path(proto, folder):
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


SOURCES = {
    "path": as_path,
    "str": lambda proto, folder: str(as_path(proto, folder)),
    "bytes": lambda proto, folder: proto.SerializeToString(),
    "proto": lambda proto, folder: proto,
    "ir": lambda proto, folder: ir.from_proto(proto),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_source_gives_the_same_function(source, tmp_path):
    run = compile(SOURCES[source](model_of(RELU), tmp_path), providers="cpu")
    np.testing.assert_array_equal(run(floats(2, 3))["y"], np.maximum(floats(2, 3), 0))


@pytest.mark.parametrize("source", ["path", "ir"])
def test_external_data_is_found_beside_the_file(source, tmp_path):
    model = model_of("g (float[N, 3] x) => (float[N, 3] y) { y = Mul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(f32([1, 2, 3]), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size == 12
    run = compile(path if source == "path" else ir.load(path), providers="cpu")
    np.testing.assert_array_equal(run(floats(1, 3))["y"], floats(1, 3) * [1, 2, 3])


def test_a_changed_weights_file_is_not_taken_from_the_cache(tmp_path):
    path = tmp_path / "model.onnx"
    for factor in (2.0, 5.0):
        model = model_of("g (float[1] x) => (float[1] y) { y = Mul(x, w) }")
        model.graph.initializer.append(numpy_helper.from_array(np.full(1, factor, np.float32), "w"))
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert compile(ir.load(path), providers="cpu")([1.0])["y"] == factor
        (tmp_path / "weights.bin").unlink()


@pytest.mark.parametrize(
    "call",
    [
        lambda run, x, z: run(x, z),
        lambda run, x, z: run(x=x, z=z),
        lambda run, x, z: run({"z": z, "x": x}),
        lambda run, x, z: run({"z": z}, x=x),
        lambda run, x, z: run(x, z=z),
    ],
    ids=["positional", "named", "dict", "dict and named", "positional and named"],
)
def test_inputs_are_given_by_position_by_name_or_as_a_dict(call):
    np.testing.assert_array_equal(call(compiled(ADD), floats(2, 3), floats(2, 3))["y"], 2 * floats(2, 3))


def test_names_that_are_no_identifiers_go_through_a_dict():
    value = helper.make_tensor_value_info("input:0", 1, ["batch"])
    out = helper.make_tensor_value_info("a b/c", 1, ["batch"])
    graph = helper.make_graph([helper.make_node("Relu", ["input:0"], ["a b/c"])], "g", [value], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert list(compile(model, providers="cpu")(**{"input:0": floats(3)})) == ["a b/c"]


def test_the_function_tells_what_it_takes_and_gives():
    run = compiled("g (float[N, 3] x, int64 k) => (float[N, 3] y, int64 j) { y = Relu(x) j = Identity(k) }")
    assert run.signature == "(x: float32[N, 3], k: int64[]) -> (y: float32[N, 3], j: int64[])"
    assert (run.input_names, run.output_names) == (("x", "k"), ("y", "j"))
    assert run.providers == ("CPUExecutionProvider",)
    assert "on CPU" in repr(run) and run.signature in repr(run)


def test_outputs_come_in_the_order_of_the_model_or_of_the_request():
    graph = "g (float[N] x) => (float[N] a, float[N] b) { h = Abs(x) b = Neg(h) a = Sqrt(h) }"
    assert list(compiled(graph)(x=floats(2))) == ["a", "b"]
    assert list(compiled(graph, outputs=["b", "a"])(x=floats(2))) == ["b", "a"]
    chosen = compiled(graph, outputs=["h"])(x=floats(2))
    assert list(chosen) == ["h"]
    np.testing.assert_array_equal(chosen["h"], [2, 1])


def test_a_model_that_the_optimizer_breaks_runs_at_a_lower_level():
    run = compiled(BROKEN_BY_THE_OPTIMIZER)
    np.testing.assert_array_equal(run([1, 2])["y"], [1, 2])
    session = run.plan.regions[0].session
    assert session.level == "none" and "mid" in session.lowered_because


def test_a_sound_model_runs_at_the_level_asked_for():
    assert compiled(RELU).plan.regions[0].session.level == "all"
    assert compiled(RELU, optimize=False).plan.regions[0].session.level == "none"
    assert compiled(RELU).plan.regions[0].why == ""


def test_equal_node_names_are_told_apart_and_the_model_stays_as_it_is():
    model = model_of("g (float[N] x) => (float[N] y) { [n] a = Relu(x) [n] b = Neg(a) [n_1] y = Abs(b) }")
    before = model.SerializeToString()
    np.testing.assert_array_equal(compile(model, providers="cpu")(floats(4))["y"], [0, 0, 0, 1])
    assert model.SerializeToString() == before


def _with_external(location):
    model = model_of("g (float[1] x) => (float[1] y) { y = Mul(x, w) }")
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return model


BAD_MODELS = [
    (lambda folder: b"not a model", ModelError, "damaged"),
    (lambda folder: b"", ModelError, "empty"),
    (lambda folder: folder / "absent.onnx", ModelError, "absent.onnx"),
    (lambda folder: folder, ModelError, "folder"),
    (lambda folder: 3, ModelError, "type int"),
    (lambda folder: model_of(RELU).SerializeToString()[:-9], ModelError, "damaged"),
    (lambda folder: model_of(RELU, opset=999), OpsetError, "opset 999"),
    (lambda folder: model_of(RELU, ir_version=99), OpsetError, "IR version 99"),
    (lambda folder: model_of(RELU.replace("y = Relu", "[culprit] y = Nope")), ModelError, "'culprit'"),
    (lambda folder: _with_external("w.bin"), ExternalDataError, "path"),
    (lambda folder: as_path(_with_external("w.bin"), folder), ExternalDataError, "w.bin"),
    (lambda folder: as_path(_with_external("../w.bin"), folder), ExternalDataError, "../w.bin"),
    (lambda folder: as_path(_with_external("/etc/hostname"), folder), ExternalDataError, "/etc/hostname"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "kind", "part"), BAD_MODELS, ids=[f"{kind.__name__} {part}" for _, kind, part in BAD_MODELS]
)
def test_a_model_that_cannot_run_is_one_clear_error(make, kind, part, tmp_path):
    with pytest.raises(OnnxGradError) as caught:
        compile(make(tmp_path), providers="cpu")
    assert type(caught.value) is kind and part in str(caught.value)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"outputs": ["nope"]}, "'nope'"),
        ({"outputs": []}, "nothing"),
        ({"outputs": ["y", "y"]}, "twice"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_impossible_options_are_errors(options, part):
    with pytest.raises(OptionError, match=part):
        compile(model_of(RELU), providers="cpu", **options)


def session_in(run):
    return run.plan.regions[0].session


def test_equal_models_and_options_share_a_session():
    first = compiled(RELU)
    assert session_in(compiled(RELU)) is session_in(first)
    assert session_in(compiled(RELU, optimize=False)) is not session_in(first)
    assert session_in(compile(model_of(RELU), providers="cpu", threads=2)) is not session_in(first)
    assert session_in(compiled(RELU.replace("Relu", "Abs"))) is not session_in(first)


def test_the_cache_does_not_grow_without_bound():
    for number in range(40):
        compiled(f"g (float[N] x) => (float[N] y) {{ t = Relu(x) y{number} = Neg(t) y = Abs(y{number}) }}")
    assert len(SESSIONS) <= 16


def test_calls_from_many_threads_are_right():
    run = compiled(ADD)
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
        for _ in range(200):
            if not np.array_equal(run(x, x)["y"], x + x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_that_compile_one_model_make_one_session():
    model = model_of("g (float[N] x) => (float[N] y) { unique_to_this_test = Relu(x) y = Neg(unique_to_this_test) }")
    found = []
    threads = [threading.Thread(target=lambda: found.append(session_in(compile(model, "cpu")))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(map(id, found))) == 1
