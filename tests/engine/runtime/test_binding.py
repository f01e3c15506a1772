import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

from onnxgrad.engine.errors import ExecutionError, InputError, OptionError
from onnxgrad.engine.runtime.binding import StepRunner
from onnxgrad.engine.runtime.session import create_session
from onnxgrad.engine.runtime.values import to_numpy, to_ort
from tests.engine.text_models import f32, f64, session_of

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
