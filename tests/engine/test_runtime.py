import ctypes
import threading
import time

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper, parser

from onnxgrad.engine.errors import ExecutionError, InputError, OptionError, ProviderError
from onnxgrad.engine.ir.functions import add_function, functions_of
from onnxgrad.engine.ir.serialize import DIM_NAMES, detach_weights, serialize
from onnxgrad.engine.runtime import providers as provider_module
from onnxgrad.engine.runtime import source as source_module
from onnxgrad.engine.runtime.binding import StepRunner
from onnxgrad.engine.runtime.plan import Plan, SessionRegion
from onnxgrad.engine.runtime.providers import (
    CPU,
    CUDA,
    Device,
    ProviderChoice,
    choose_providers,
    device_of,
    why_not_cuda,
)
from onnxgrad.engine.runtime.session import create_session
from onnxgrad.engine.runtime.session_cache import SessionCache
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import allocate, from_dlpack, pack, to_numpy, to_ort, unpack


def model_of(graph, opset=21):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{graph}')


def f32(values):
    return np.asarray(values, np.float32)


def f64(values):
    return np.asarray(values, np.float64)


def session_of(graph, opset=21, **options):
    return create_session(model_of(graph, opset), providers="cpu", threads=1, **options)


# --- providers --------------------------------------------------------------------------------------------------------

CPU_ONLY = (ProviderChoice(CPU),)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("cpu", CPU_ONLY),
        (["CPU"], CPU_ONLY),
        ([CPU], CPU_ONLY),
        (("cpu", {"use_arena": 0}), (ProviderChoice(CPU, (("use_arena", "0"),)),)),
        ([("cpu", {"b": 2, "a": True})], (ProviderChoice(CPU, (("a", "True"), ("b", "2"))),)),
    ],
    ids=str,
)
def test_providers_go_by_short_and_by_full_names_with_options(wanted, chosen):
    assert choose_providers(wanted) == chosen


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("cpux", "did you mean 'cpu'"), ("gpu", "did you mean 'cuda'"), ([], "empty"), (["cpu", "CPU"], "twice")],
    ids=str,
)
def test_names_that_are_no_providers_are_errors(wanted, part):
    with pytest.raises(OptionError, match=part):
        choose_providers(wanted)


def test_a_provider_that_the_wheel_lacks_is_an_error():
    with pytest.raises(ProviderError, match="has only"):
        choose_providers("rknpu")


def test_cuda_is_the_default_only_where_it_works(monkeypatch):
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "")
    assert choose_providers() == (ProviderChoice(CUDA), ProviderChoice(CPU))
    assert choose_providers([("cuda", {"device_id": 1})])[1] == ProviderChoice(CPU)
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "there is no driver")
    assert choose_providers() == CPU_ONLY
    with pytest.raises(ProviderError, match="there is no driver"):
        choose_providers(["cuda", "cpu"])


def test_a_session_without_the_provider_that_was_asked_for_is_an_error(monkeypatch):
    if why_not_cuda() == "":
        pytest.skip("CUDA works here")
    monkeypatch.setattr(provider_module, "why_not_cuda", lambda: "")
    with pytest.raises(ProviderError, match="did not start CUDAExecutionProvider"):
        create_session(model_of("g (float[N] x) => (float[N] y) { y = Sinh(x) }"), providers="cuda")


def test_state_lives_on_the_device_of_the_first_provider():
    assert device_of(choose_providers("cpu")) == Device("cpu", 0)
    assert device_of((ProviderChoice(CUDA, (("device_id", "2"),)), ProviderChoice(CPU))) == Device("cuda", 2)


# --- values -----------------------------------------------------------------------------------------------------------

DTYPES = [
    np.float32, np.float64, np.float16, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4, ml_dtypes.uint4,
    ml_dtypes.int2, ml_dtypes.uint2,
    ml_dtypes.float4_e2m1fn,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (), (0, 4)], ids=str)
def test_every_dtype_survives_the_way_into_an_ort_value_and_back(dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32).astype(dtype)
    value = to_ort(np.asarray(array))
    assert tuple(value.shape()) == shape and value.element_type() == int(ir.DataType.from_numpy(np.dtype(dtype)))
    back = to_numpy(value)
    assert back.dtype == dtype and back.shape == shape and back.tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2], ids=lambda d: np.dtype(d).name
)
def test_ort_values_share_the_memory_of_arrays(dtype):
    array = np.zeros(4, dtype)
    value = to_ort(array)
    array[:] = 1
    assert value.data_ptr() == array.ctypes.data
    assert to_numpy(value).astype(np.float32).tolist() == [1, 1, 1, 1]
    assert np.shares_memory(to_numpy(value), to_numpy(value))


def test_an_array_keeps_the_memory_of_its_ort_value_alive():
    arrays = []
    for number in range(64):
        value = allocate((4096,), ir.DataType.BFLOAT16)
        ctypes.memset(value.data_ptr(), number, 8192)
        arrays.append(to_numpy(value))
        del value
    assert all(set(array.view(np.uint8)) == {number} for number, array in enumerate(arrays))


def test_strided_arrays_are_copied():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(to_numpy(to_ort(array)), array)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("count", range(6))
def test_packing_agrees_with_onnx(name, count):
    dtype = ir.DataType[name.upper()]
    low = 0 if name.startswith("u") else -(1 << (dtype.bitwidth - 1))
    values = (low + np.arange(count) % (1 << dtype.bitwidth)).astype(dtype.numpy())
    packed = pack(values, dtype.bitwidth)
    assert packed.tobytes() == numpy_helper.from_array(values).raw_data
    assert unpack(packed, count, dtype).tolist() == values.tolist()


class Foreign:
    """A tensor of another library that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack_tensors_are_shared_and_what_cannot_be_shared_is_an_error():
    array = np.ones(3, np.float32)
    assert from_dlpack(Foreign(array)).data_ptr() == array.ctypes.data
    with pytest.raises(InputError, match="Foreign"):
        from_dlpack(Foreign(np.ones(6, np.float32)[::2]))


# --- sessions ---------------------------------------------------------------------------------------------------------

SCALE = "g (float[N, 512] x) => (float[N, 512] y) <float[512] w> { r = Sqrt(w) y = Mul(x, r) }"


def model_with_weight(value):
    model = model_of("g (float[N, 512] x) => (float[N, 512] y) { r = Sqrt(w) y = Mul(x, r) }")
    model.graph.initializer.append(numpy_helper.from_array(np.full(512, value, np.float32), "w"))
    return model


def test_initializers_can_be_given_as_ort_values_and_are_seen_by_the_optimizer():
    given = to_ort(np.full(512, 9, np.float32))
    session = create_session(model_with_weight(4), providers="cpu", initializers={"w": given})
    x = np.ones((1, 512), np.float32)
    assert session.ort.run(None, {"x": x})[0][0, 0] == 3
    assert create_session(model_with_weight(4), providers="cpu").ort.run(None, {"x": x})[0][0, 0] == 2


@pytest.mark.parametrize(
    ("initializers", "part"),
    [({"v": np.ones(512, np.float32)}, "no initializer 'v'"), ({"w": np.ones(3, np.float32)}, r"shape \[3\]")],
)
def test_initializers_that_do_not_fit_are_errors(initializers, part):
    values = {name: to_ort(array) for name, array in initializers.items()}
    with pytest.raises(OptionError, match=part):
        create_session(model_with_weight(4), providers="cpu", initializers=values)


def test_weights_beyond_the_limit_of_a_protobuf_go_beside_the_model(monkeypatch):
    monkeypatch.setattr(source_module, "INLINE_LIMIT", 1000)
    weight = (np.arange(512 * 1024, dtype=np.float32) % 7).reshape(512, 1024)
    model = model_of("g (float[N, 512] x) => (float[N, 1024] y) { p = MatMul(x, w) y = Add(p, b) }")
    model.graph.initializer.extend([numpy_helper.from_array(weight, "w"), numpy_helper.from_array(weight[0], "b")])
    source = read_source(ir.from_proto(model))
    assert list(source.weights) == ["w"] and len(source.model) < 10_000
    x = np.ones((1, 512), np.float32)
    np.testing.assert_allclose(
        create_session(source, "cpu").ort.run(None, {"x": x})[0], x @ weight + weight[0], rtol=1e-6
    )
    np.testing.assert_array_equal(to_numpy(create_session(read_source(model), "cpu").weights["w"]), weight)


def test_unknown_levels_are_errors():
    with pytest.raises(OptionError, match="'max'"):
        session_of("g (float[N] x) => (float[N] y) { y = Relu(x) }", level="max")


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
def test_every_level_runs(level):
    session = session_of("g (float[N] x) => (float[N] y) { a = Identity(x) y = Relu(a) }", level=level, spinning=False)
    assert session.level == level
    assert session.ort.run(None, {"x": f32([-1, 1])})[0].tolist() == [0, 1]


def test_a_plan_hands_values_from_region_to_region():
    first = SessionRegion(session_of("g (float[N] x) => (float[N] h) { h = Abs(x) }"))
    second = SessionRegion(session_of("g (float[N] h, float[N] x) => (float[N] y) { y = Add(h, x) }"))
    result = Plan((first, second), ("y", "h")).run({"x": f32([-1, 2])})
    assert {name: np.asarray(value).tolist() for name, value in result.items()} == {"y": [0, 4], "h": [1, 2]}


class Thing:
    """What a cache may hold: it can be weakly referenced."""


def test_threads_that_want_one_entry_wait_for_it_and_share_it():
    cache = SessionCache[Thing](entries=4, size=100)
    made = []

    def make():
        time.sleep(0.05)
        made.append(Thing())
        return made[-1]

    threads = [threading.Thread(target=lambda: cache.get("key", 1, make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(cache) == 1


def test_the_cache_keeps_the_last_used_within_its_bounds_and_all_that_is_in_use():
    cache = SessionCache[Thing](entries=2, size=100)
    in_use = cache.get("a", 10, Thing)
    for key in "bc":
        cache.get(key, 10, Thing)
    assert len(cache) == 2 and cache.get("a", 10, Thing) is in_use
    cache.get("big", 99, Thing)
    assert len(cache) == 1
    cache.get("bigger", 101, Thing)
    assert len(cache) == 0 and cache.get("a", 10, Thing) is in_use


def test_an_entry_that_could_not_be_made_is_tried_again():
    cache = SessionCache[Thing](entries=2, size=100)

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("a", 1, fail)
    assert isinstance(cache.get("a", 1, Thing), Thing)


# --- serialization ----------------------------------------------------------------------------------------------------


def test_dimensions_are_spelled_as_in_the_file():
    model = ir.from_proto(model_of("g (float[s_0, any_1] x) => (float[s_0, any_1] y) { y = Relu(x) }"))
    model.graph.outputs[0].shape = ir.Shape([ir.SymbolicDim("s_0*2"), ir.SymbolicDim("any_1*2")])
    model.graph.meta[DIM_NAMES] = {"s_0": "a::b", "any_1": "?"}
    graph = serialize(model).graph
    assert [dim.dim_param for dim in graph.input[0].type.tensor_type.shape.dim] == ["a::b", "?"]
    doubled, unnamed = (dim.dim_param for dim in graph.output[0].type.tensor_type.shape.dim)
    assert "a::b" in doubled and "any_1" in unnamed
    assert str(model.graph.inputs[0].shape) == "[s_0,any_1]"


BRANCHES = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    t = Mul(x, w)
    y = If(c) <then_branch = a () => (float[2] z) <float[2] v = {5, 6}> { z = Add(x, v) },
               else_branch = b () => (float[2] u) { u = Neg(t) }> }"""


def test_functions_of_the_graph_are_written_with_the_model():
    model = ir.from_proto(model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }"))
    body = ir.from_proto(model_of("double (float[N] a) => (float[N] b) { b = Add(a, a) }").graph)
    function = add_function(functions_of(model.graph), "Double", body)
    function.opset_imports[""] = 21
    node = model.graph[0]
    model.graph.insert_after(node, ir.node("Double", [node.inputs[0]], domain="onnxgrad", outputs=[ir.Value(name="z")]))
    model.graph.outputs.append(model.graph[1].outputs[0])
    result = SessionRegion(create_session(model, "cpu")).run({"x": f32([-1, 2])})
    assert [np.asarray(value).tolist() for value in result] == [[0, 2], [-2, 4]]
    assert [function.name for function in serialize(model).functions] == ["Double"]


def test_detaching_weights_leaves_the_model_as_it_is(tmp_path):
    model = model_of(BRANCHES)
    for graph in (model.graph, model.graph.node[1].attribute[0].g):
        for tensor in graph.initializer:  # only raw data can be put into a file
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    loaded = ir.load(tmp_path / "m.onnx")
    copy, weights = detach_weights(loaded, 10**9)
    assert list(weights) == ["w"] and weights["w"] is loaded.graph.initializers["w"].const_value
    assert copy.graph.initializers["w"].const_value is not weights["w"]
    (inner,) = [graph for graph in copy.graph.subgraphs() if graph.initializers]
    assert not isinstance(inner.initializers["v"].const_value, ir.ExternalTensor)
    run = SessionRegion(create_session(loaded, "cpu")).run
    x = f32([1, 2])
    assert [np.asarray(run({"c": np.array(flag), "x": x})[0]).tolist() for flag in (True, False)] == [[6, 8], [-1, -4]]


# --- state on the device ----------------------------------------------------------------------------------------------

# p' = p - rate * mean(x) * p;  n' = n + 1;  the frozen f only takes part.
STEP = """g (float[N, 2] x, float[2] p, int64 n, float[2] f)
    => (float[2] p_next, int64 n_next, float loss, float[N, 2] y)
    <float rate = {0.5}, int64 one = {1}> {
    m = ReduceMean<keepdims = 0>(x)  g = Mul(m, p)  s = Mul(g, rate)  p_next = Sub(p, s)  n_next = Add(n, one)
    q = Mul(x, p)  y = Add(q, f)  loss = ReduceSum<keepdims = 0>(y) }"""


def runner(**options):
    state = {
        "p": ("p_next", f32([4, 8])),
        "n": ("n_next", np.asarray(7)),
        "f": (None, f32([10, 20])),
    }
    return StepRunner(session_of(STEP), state, **({"fetches": ["loss", "y"]} | options))


def test_state_moves_on_from_step_to_step():
    run = runner()
    p = f64([4, 8])
    for number in range(5):
        x = np.full((number + 1, 2), 0.5, np.float32)  # the batch may change
        result = run.step(x=x)
        assert list(result) == ["loss", "y"]
        np.testing.assert_allclose(result["y"], x * p + [10, 20], rtol=1e-6)
        np.testing.assert_allclose(result["loss"], (x * p + [10, 20]).sum(), rtol=1e-6)
        p -= 0.25 * p
    np.testing.assert_allclose(run.state("p"), p, rtol=1e-6)
    assert run.state("n") == 12 and run.state("n").dtype == np.int64
    assert run.state("f").tolist() == [10, 20]


def test_state_takes_turns_in_two_buffers_and_is_never_copied():
    run = runner()
    x = np.ones((1, 2), np.float32)
    places = []
    for _ in range(6):
        places.append((run.value("p").data_ptr(), run.value("f").data_ptr()))
        run.step(x=x)
    assert len({p for p, _ in places}) == 2 and len({f for _, f in places}) == 1
    assert [p for p, _ in places] == [places[0][0], places[1][0]] * 3
    np.testing.assert_allclose(run.state("p"), f32([4, 8]) / 64)


def test_the_initial_array_is_copied_and_an_ort_value_is_taken_over():
    mine, given = f32([1, 2]), to_ort(f32([1, 2]))
    for initial, same in ((mine, False), (given, True)):
        run = runner()
        run = StepRunner(run.session, {"p": ("p_next", initial), "n": ("n_next", np.asarray(0)), "f": (None, mine)})
        address = given.data_ptr() if same else mine.ctypes.data
        assert (run.value("p").data_ptr() == address) is same
        run.step(x=np.ones((1, 2), np.float32))
        run.step(x=np.ones((1, 2), np.float32))
    assert mine.tolist() == [1, 2] and to_numpy(given).tolist() == [0.25, 0.5]


def test_results_and_snapshots_stay_as_they_are_in_later_steps():
    run = runner()
    first = run.step(x=np.ones((3, 2), np.float32))
    kept, snapshot = first["y"].copy(), run.state("p")
    value = snapshot.copy()
    for _ in range(4):
        run.step(x=np.zeros((3, 2), np.float32) + 0.1)
    np.testing.assert_array_equal(first["y"], kept)
    np.testing.assert_array_equal(snapshot, value)


def test_state_can_be_set():
    run = runner()
    run.step(x=np.ones((1, 2), np.float32))
    run.set_state("p", f32([1, 1]))
    run.set_state("f", f32([0, 0]))
    assert run.step(x=np.ones((1, 2), np.float32))["y"].tolist() == [[1, 1]]
    with pytest.raises(InputError, match="float64"):
        run.set_state("p", np.ones(2))
    with pytest.raises(InputError, match="3"):
        run.set_state("p", np.ones(3, np.float32))
    with pytest.raises(OptionError, match="'q'"):
        run.set_state("q", np.ones(3, np.float32))


def test_feeds_are_checked_and_may_be_given_as_a_dict():
    run = runner()
    assert set(run.step({"x": [[1, 1]]})) == {"loss", "y"}
    for wrong, part in (({}, "missing"), ({"x": np.ones((1, 2))}, "float64"), ({"p": [1, 2], "x": [[1, 1]]}, "'p'")):
        with pytest.raises(InputError, match=part):
            run.step(wrong)


def test_strided_feeds_are_right():
    run = runner()
    x = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_allclose(run.step(x=x)["y"], x * [4, 8] + [10, 20])


def test_a_step_that_fails_leaves_the_state():
    session = session_of(
        "g (float[N] x, float[2] p) => (float[2] p_next, float[M] y) { p_next = Neg(p) [bad] y = Add(x, p_next) }"
    )
    run = StepRunner(session, {"p": ("p_next", f32([1, 2]))}, ["y"])
    with pytest.raises(ExecutionError, match="'bad'"):
        run.step(x=np.ones(3, np.float32))
    assert run.state("p").tolist() == [1, 2]
    assert run.step(x=np.zeros(2, np.float32))["y"].tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("state", "fetches", "kind", "part"),
    [
        ({"q": ("p_next", np.ones(2, np.float32))}, [], OptionError, "no input 'q'"),
        ({"p": ("q", np.ones(2, np.float32))}, [], OptionError, "no output 'q'"),
        ({"p": ("p_next", np.ones(2, np.float32))}, ["q"], OptionError, "no output 'q'"),
        ({"p": ("p_next", np.ones(2, np.float32))}, ["p_next"], OptionError, "twice"),
        ({"p": ("p_next", np.ones(2))}, [], InputError, "float64"),
        ({"p": ("p_next", np.ones(3, np.float32))}, [], InputError, "shape"),
    ],
)
def test_state_that_does_not_fit_is_an_error(state, fetches, kind, part):
    with pytest.raises(kind, match=part):
        StepRunner(session_of(STEP), state, fetches)


def test_bfloat16_and_zero_size_state_work():
    session = session_of(
        "g (bfloat16[2] h, float[0] e) => (bfloat16[2] h_next, float[0] e_next, bfloat16[2] seen)"
        "{ a = Cast<to = 1>(h) b = Add(a, a) h_next = Cast<to = 16>(b) seen = Identity(h) e_next = Neg(e) }"
    )
    initial = f32([1, 3]).astype(ml_dtypes.bfloat16)
    run = StepRunner(session, {"h": ("h_next", initial), "e": ("e_next", np.zeros(0, np.float32))}, ["seen"])
    assert [run.step()["seen"].astype(int).tolist() for _ in range(3)] == [[1, 3], [2, 6], [4, 12]]
    assert run.state("h").dtype == ml_dtypes.bfloat16 and run.state("e").shape == (0,)


def test_an_optional_feed_of_one_step_is_gone_in_the_next():
    value = lambda name: helper.make_tensor_value_info(name, 1, [1])  # noqa: E731
    graph = helper.make_graph(
        [helper.make_node("Add", ["p", "w"], ["q"])], "g", [value("p"), value("w")], [value("q")],
        [numpy_helper.from_array(np.ones(1, np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    run = StepRunner(create_session(model, "cpu"), {"p": ("q", np.zeros(1, np.float32))})
    seen = []
    for feeds in ({}, {"w": [10]}, {"w": [100]}, {}, {}):
        run.step(feeds)
        seen.append(run.state("p").item())
    assert seen == [1, 11, 111, 112, 113]
