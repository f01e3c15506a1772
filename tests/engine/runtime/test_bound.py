import ml_dtypes
import numpy as np
import pytest

from onnxgrad.engine.errors import ExecutionError, InputError, OptionError
from onnxgrad.engine.runtime.bound import BoundFunction
from onnxgrad.engine.runtime.call_signature import CallSignature
from onnxgrad.engine.runtime.plan import Plan
from onnxgrad.engine.runtime.values import to_numpy
from tests.engine.text_models import ADD, RELU, compiled, f32, floats

NONZERO = "g (float[N] x) => (int64[1, M] y) { y = NonZero(x) }"
BFLOAT16 = "g (bfloat16[N] x) => (bfloat16[N] y) { y = Neg(x) }"
UPPER = 'g (string[N] x) => (string[N] y) { y = StringNormalizer <case_change_action = "UPPER"> (x) }'
UNALIGNED = np.frombuffer(bytes(25), np.uint8)[1:]
SEQUENCE = "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct(x) }"


def test_calls_read_the_given_array_and_write_the_same_outputs():
    x = floats(2, 3)
    bound = compiled(RELU).bind(x)
    assert bound.inputs["x"] is x
    first = bound.outputs["y"]
    np.testing.assert_array_equal(first, np.maximum(x, 0))
    x[...] = -x
    assert bound()["y"] is first
    np.testing.assert_array_equal(first, np.maximum(x, 0))


@pytest.mark.parametrize(
    "given",
    [floats(3, 2).T, floats(2, 3)[:, ::-1], floats(2, 3).tolist(), UNALIGNED.view("<f4").reshape(2, 3)],
    ids=["transposed", "reversed", "list", "not aligned"],
)
def test_what_cannot_be_bound_in_place_is_copied_once(given):
    bound = compiled(RELU).bind(given)
    assert bound.inputs["x"] is not given
    np.testing.assert_array_equal(bound.outputs["y"], np.maximum(given, 0))
    bound.inputs["x"][...] = 7
    assert (bound()["y"] == 7).all()


def test_outputs_do_not_share_memory_with_inputs_weights_or_other_bindings():
    run = compiled(
        "g (float[2] x) => (float[2] y, float[2] w, float[2] z) <float[2] w = {1, 2}> { y = Identity(x) z = Add(x, w) }"
    )
    x = f32([3, 4])
    one, two = run.bind(x), run.bind(f32([5, 6]))
    one.outputs["w"][...] = one.outputs["y"][...] = 99
    assert x.tolist() == [3, 4]
    assert {name: array.tolist() for name, array in two().items()} == {"y": [5, 6], "w": [1, 2], "z": [6, 8]}
    assert {name: array.tolist() for name, array in one().items()} == {"y": [3, 4], "w": [1, 2], "z": [4, 6]}


def test_a_shape_that_changes_with_the_values_is_an_error():
    x = f32([1, 0, 1])
    bound = compiled(NONZERO).bind(x)
    x[...] = 1
    with pytest.raises(ExecutionError, match=r"(?s)shape that it had.*call the function itself"):
        bound()


@pytest.mark.parametrize(
    ("graph", "given", "later", "expected"),
    [
        (BFLOAT16, np.ones(3, ml_dtypes.bfloat16), 2, [-2, -2, -2]),
        (RELU, np.zeros((0, 3), np.float32), 1, []),
        ("g (float x) => (float y) { y = Neg(x) }", np.array(1, np.float32), 3, -3),
        (UPPER, np.array(["a", "b"], object), "c", ["C", "C"]),
        ("g (float[N] x) => (int4[N] y) { y = Cast <to = 22> (x) }", f32([1, 2]), 3, [3, 3]),
    ],
    ids=["bfloat16", "no elements", "scalar", "strings", "int4"],
)
def test_every_tensor_can_be_bound(graph, given, later, expected):
    bound = compiled(graph).bind(given)
    before = bound.outputs["y"]
    given[...] = later
    assert bound()["y"] is before
    assert before.tolist() == expected


def test_a_sequence_cannot_be_bound():
    with pytest.raises(OptionError, match="no tensor but list"):
        compiled(SEQUENCE).bind(f32([1]))


def test_wrong_inputs_are_errors_of_bind():
    with pytest.raises(InputError, match="wants float32"):
        compiled(RELU).bind(np.zeros((2, 3)))


def test_a_plan_of_several_regions_is_bound_too():
    first, second = (
        compiled("g (float[N] x) => (float[N] m) { m = Neg(x) }"),
        compiled("g (float[N] m) => (float[N] y) { y = Relu(m) }"),
    )
    plan = Plan((*first.plan.regions, *second.plan.regions), ("y",))
    signature = CallSignature(first._signature.inputs, second._signature.outputs)
    x = f32([1, -2])
    bound = BoundFunction(plan, signature, {"x": x})
    array = bound.outputs["y"]
    x[...] = [-5, 3]
    assert bound()["y"] is array
    assert array.tolist() == [5, 0]


def test_an_error_of_a_node_names_it():
    run = compiled("g (int64[1] s, float[4] x) => (float[M] y) { y = Reshape(x, s) }")
    s = np.array([4])
    bound = run.bind(s, floats(4))
    s[0] = 3
    with pytest.raises(ExecutionError, match="Reshape failed"):
        bound()


def test_outputs_on_the_device_are_inputs_of_the_next_call():
    run = compiled(ADD)
    once = run.on_device(floats(2, 3), floats(2, 3))["y"]
    twice = run.on_device(once, floats(2, 3))["y"]
    np.testing.assert_array_equal(to_numpy(twice), 3 * floats(2, 3))
    np.testing.assert_array_equal(np.from_dlpack(once), 2 * floats(2, 3))
    np.testing.assert_array_equal(run(once, twice)["y"], 5 * floats(2, 3))


def test_values_of_narrow_types_stay_on_the_device_too():
    value = compiled(BFLOAT16).on_device(np.ones(3, ml_dtypes.bfloat16))["y"]
    assert to_numpy(value).tolist() == [-1, -1, -1]


def test_a_sequence_stays_as_it_is():
    assert compiled(SEQUENCE).on_device(f32([1]))["y"].is_tensor_sequence()
