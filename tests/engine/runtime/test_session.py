import threading
import time

import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.runtime import source as source_module
from onnxgrad.engine.runtime.plan import Plan, SessionRegion
from onnxgrad.engine.runtime.session import create_session
from onnxgrad.engine.runtime.session_cache import SessionCache
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import to_numpy, to_ort
from tests.engine.text_models import f32, model_of, session_of

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
