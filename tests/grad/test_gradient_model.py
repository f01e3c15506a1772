"""og.gradient_model: gradients of a file as a file."""

import numpy as np
import onnx
import onnx.checker
import pytest
from onnx import parser

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import GradientError, GradientRuleMissing, OptionError
from onnxgrad.engine.ir.opset import opset_of
from onnxgrad.engine.ir.verify import verify
from onnxgrad.exporters import to_proto
from onnxgrad.grad.gradient_model import differentiable_copy, gradient_model
from onnxgrad.grad.reverse import gradients, stop_gradient
from onnxgrad.importers import load
from tests.engine.text_models import f32, model_of
from tests.grad.checks import Arrays, run_in_onnxruntime

AFFINE = """g (float[N, 2] x) => (float[N, 3] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[3] b = {0.5, 1, 2}> {
    m = MatMul(x, w)  y = Add(m, b) }"""
SQUARE = "g (float[N] x) => (float loss) { s = Mul(x, x)  loss = ReduceSum<keepdims = 0>(s) }"


def gradient_of(graph, wrt=None, of=None, opset=21):
    """The gradient model of a text, after every check that there is for one."""
    model = gradient_model(model_of(graph, opset), wrt, of)
    verify(model)
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def names(values):
    return [value.name for value in values]


def run(proto, **feeds) -> Arrays:
    return run_in_onnxruntime(proto, {name.replace("__", "."): f32(value) for name, value in feeds.items()})


def test_inputs_are_seeds_and_outputs_are_gradients():
    proto = gradient_of(AFFINE)
    assert names(proto.graph.input) == ["x", "y.grad"]
    assert names(proto.graph.output) == ["y", "x.grad"]
    got = run(proto, x=[[1, 1]], y__grad=[[1, 0, 2]])
    assert got["y"].tolist() == [[5.5, 8, 11]]
    assert got["x.grad"].tolist() == [[1 + 6, 4 + 12]]


def test_initializers_and_inner_values_have_gradients_too():
    proto = gradient_of(AFFINE, wrt=["w", "m", "b", "x"])
    assert names(proto.graph.output) == ["y", "w.grad", "m.grad", "b.grad", "x.grad"]
    got = run(proto, x=[[1, 2], [3, 4]], y__grad=[[1, 0, 0], [0, 1, 0]])
    assert got["w.grad"].tolist() == [[1, 3, 0], [2, 4, 0]]
    assert got["m.grad"].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert got["b.grad"].tolist() == [1, 1, 0]


def test_the_seed_of_a_scalar_is_optional_and_one():
    proto = gradient_of(SQUARE)
    assert run(proto, x=[1, 2])["x.grad"].tolist() == [2, 4]
    assert run(proto, x=[1, 2], loss__grad=3)["x.grad"].tolist() == [6, 12]


def test_the_seed_of_a_vector_has_no_default():
    assert names(gradient_of(AFFINE).graph.initializer) == ["w", "b"]


def test_of_chooses_among_outputs():
    graph = "g (float[N] x) => (float[N] y, float[N] z, int64[1] n) { y = Mul(x, x) z = Neg(x) n = Shape(x) }"
    assert names(gradient_of(graph, of=["z"]).graph.input) == ["x", "z.grad"]
    both = gradient_of(graph)
    assert names(both.graph.input) == ["x", "y.grad", "z.grad"]
    assert run(both, x=[3], y__grad=[1], z__grad=[10])["x.grad"].tolist() == [6 - 10]


def test_what_an_output_does_not_depend_on_gets_zeros_where_it_is_named():
    graph = "g (float[N, 2] x, float[N, 3] z) => (float[N, 2] y, float[N, 3] v) { y = Neg(x) v = Neg(z) }"
    named = gradient_of(graph, wrt=["z", "x"], of=["y"])
    got = run(named, x=[[1, 2]], z=[[1, 2, 3]], y__grad=[[1, 1]])
    assert got["z.grad"].tolist() == [[0, 0, 0]] and got["x.grad"].tolist() == [[-1, -1]]
    assert names(gradient_of(graph, of=["y"]).graph.output) == ["y", "v", "x.grad"]


CLASHES = [
    ("inner value", "g (float[N] x) => (float[N] y) { {x.grad} = Mul(x, x) y = Neg({x.grad}) }", "x.grad"),
    (
        "value of two branches",
        """g (float[N] x, bool c) => (float[N] y) {
           y = If(c) <then_branch = a () => (float[N] t) { {x.grad} = Mul(x, x) t = Neg({x.grad}) },
                      else_branch = b () => (float[N] e) { {x.grad} = Mul(x, x) e = Neg({x.grad}) }> }""",
        "x.grad",
    ),
    ("input", "g (float[N] x, float[N] {x.grad}) => (float[N] y) { m = Mul(x, x) y = Sub({x.grad}, m) }", "x.grad_1"),
    (
        "output",
        "g (float[N] x) => (float[N] y, float[N] {x.grad}) { m = Mul(x, x) y = Neg(m) {x.grad} = Abs(x) }",
        "x.grad_1",
    ),
]


@pytest.mark.parametrize(("graph", "expected"), [c[1:] for c in CLASHES], ids=[c[0] for c in CLASHES])
def test_a_name_that_the_model_has_is_kept_apart(graph, expected):
    model = model_of(graph.replace("{x.grad}", "taken"))
    rename(model.graph, "taken", "x.grad")
    result = to_proto(gradient_model(model, wrt=["x"], of=["y"]))
    onnx.checker.check_model(result, full_check=True)
    assert names(result.graph.output)[-1] == expected
    assert names(result.graph.output)[:-1] == names(model.graph.output)
    feeds = {"x": f32([3]), "y.grad": f32([1]), "c": np.array(True), "x.grad": f32([5])}
    wanted = names(result.graph.input)
    got = run_in_onnxruntime(result, {name: feeds[name] for name in wanted})
    assert got[expected].tolist() == [-6]


def rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Give a value a name that the text format cannot spell, here and in the bodies below."""
    for info in (*graph.input, *graph.output):
        info.name = new if info.name == old else info.name
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
        for attribute in node.attribute:
            rename(attribute.g, old, new)


UNKNOWN = [
    ({"wrt": ["bb"]}, OptionError, r"no input, initializer or value 'bb'(.|\n)*did you mean 'b'"),
    ({"of": ["yy"]}, OptionError, r"no output 'yy'(.|\n)*did you mean 'y'"),
    ({"of": ["qqq"]}, OptionError, "as the model spells it"),
]


@pytest.mark.parametrize(("options", "error", "message"), UNKNOWN)
def test_unknown_names_are_errors_that_suggest_others(options, error, message):
    with pytest.raises(error, match=message):
        gradient_model(model_of(AFFINE), **options)


def test_only_floats_have_gradients():
    graph = "g (int64[N] i, float[N] x) => (float[N] y, int64[N] k) { f = Cast<to = 1>(i) y = Mul(f, x) k = Neg(i) }"
    with pytest.raises(GradientError, match=r"only floating-point(.|\n)*i: int64\[N\]"):
        gradient_model(model_of(graph), wrt=["i"])
    with pytest.raises(GradientError, match=r"only floating-point(.|\n)*k: int64\[N\]"):
        gradient_model(model_of(graph), of=["k"])
    with pytest.raises(GradientError, match="no floating-point input"):
        gradient_model(model_of("g (int64[N] i) => (float[N] y) { y = Cast<to = 1>(i) }"))
    with pytest.raises(GradientError, match="no floating-point output"):
        gradient_model(model_of("g (float[N] x) => (int64[1] n) { n = Shape(x) }"))


@pytest.mark.parametrize(("given", "result"), [(11, 18), (17, 18), (18, 18), (21, 21)])
def test_the_opset_is_at_least_18_and_kept_above(given, result):
    graph = "g (float[N, 3] x) => (float[N, 1] y) { y = ReduceMean<axes = [1]>(x) }" if given < 18 else AFFINE
    assert opset_of(gradient_model(model_of(graph, given))) == result


def test_the_argument_is_not_changed():
    proto = model_of(AFFINE)
    model = load(proto)
    before = [to_proto(model).SerializeToString(deterministic=True), proto.SerializeToString(deterministic=True)]
    gradient_model(model, wrt=["w", "x"])
    gradient_model(proto, wrt=["w", "x"])
    after = [to_proto(model).SerializeToString(deterministic=True), proto.SerializeToString(deterministic=True)]
    assert after == before


def test_the_gradient_of_a_gradient_is_the_second_derivative():
    cube = "g (float[N] x) => (float[N] y) { s = Mul(x, x) y = Mul(s, x) }"
    first = gradient_model(model_of(cube))
    second = to_proto(gradient_model(first, wrt=["x"], of=["x.grad"]))
    onnx.checker.check_model(second, full_check=True)
    assert names(second.graph.input) == ["x", "y.grad", "x.grad.grad"]
    assert names(second.graph.output) == ["y", "x.grad", "x.grad_1"]
    got = run(second, x=[2, 3], y__grad=[1, 1], x__grad__grad=[1, 1])
    assert got["x.grad"].tolist() == [12, 27] and got["x.grad_1"].tolist() == [12, 18]


FUNCTION = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[N] x) => (float[N] y) { h = my.Twice(x) y = Mul(h, h) }
<domain: "my", opset_import: ["": 21, "my": 1]> Twice (a) => (b) { b = my.Plus(a, a) }
<domain: "my", opset_import: ["": 21]> Plus (a, c) => (d) { d = Add(a, c) }"""


def test_functions_of_the_model_are_differentiated_through():
    proto = to_proto(gradient_model(parser.parse_model(FUNCTION), wrt=["x", "h"]))
    onnx.checker.check_model(proto, full_check=True)
    got = run(proto, x=[3], y__grad=[1])
    assert got["x.grad"].tolist() == [24] and got["h.grad"].tolist() == [12]


def test_stop_gradient_makes_a_value_a_constant():
    model = differentiable_copy(model_of("g (float[N] x) => (float[N] y) { s = Mul(x, x) y = Mul(s, x) }"))
    values = {value.name: value for node in model.graph for value in node.outputs}
    stop_gradient(values["s"])
    x, y = model.graph.inputs[0], values["y"]
    found = gradients(y, [x, values["s"]], seed=x)
    assert found[1] is None and found[0] is not None
    found[0].name = "dx"
    model.graph.outputs.append(found[0])
    assert run(to_proto(model), x=[3])["dx"].tolist() == [27]


def test_a_missing_rule_says_what_where_and_what_to_do():
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N, 768] x) => (float[N, 768] y) { f = my.Foo(x) y = Neg(f) }"""
    with pytest.raises(GradientRuleMissing) as caught:
        gradient_model(parser.parse_model(text))
    message = str(caught.value)
    assert "no gradient rule for my::Foo" in message
    assert "f = my::Foo(x: float32[N, 768])" in message
    assert "@og.register_gradient(\"Foo\", domain='my')" in message and "og.stop_gradient('f')" in message


def test_an_operator_off_the_path_needs_no_rule():
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N] x, float[N] t) => (float[N] y) { f = my.Foo(t) y = Mul(f, x) }"""
    assert names(gradient_model(parser.parse_model(text), wrt=["x"]).graph.outputs) == ["y", "x.grad"]


def test_the_bytes_are_the_same_from_run_to_run():
    graph = """g (float[N, 3, 8, 8] x) => (float[N, 4] y) <float[4, 3, 3, 3] w = {0}> {
        c = Conv(x, w) p = MaxPool<kernel_shape = [2, 2]>(c) a = GlobalAveragePool(p) f = Flatten(a) y = Softmax(f) }"""
    graph = graph.replace("<float[4, 3, 3, 3] w = {0}>", "").replace("x) =>", "x, float[4, 3, 3, 3] w) =>")
    made = {to_proto(gradient_model(model_of(graph), wrt=["x", "w"])).SerializeToString() for _ in range(3)}
    assert len(made) == 1


@pytest.mark.parametrize("size", [1, 4, 0])
def test_a_symbolic_dimension_may_be_one_at_run_time(size):
    graph = "g (float[N, 3] x, float[M, 3] z) => (float[K, 3] y) { y = Mul(x, z) }"
    proto = gradient_of(graph)
    x, z = np.ones((4 if size == 1 else size, 3), "f4"), np.full((1, 3), 2, "f4")
    got = run(proto, x=x, z=z, y__grad=np.ones_like(x))
    assert got["x.grad"].shape == x.shape and (got["x.grad"] == 2).all()
    assert got["z.grad"].tolist() == [[len(x)] * 3]


def test_shapes_and_types_are_those_of_the_differentiated_values():
    result = gradient_model(model_of("g (float16[N, 2] x) => (float16[N, 2] y) { y = Tanh(x) }"))
    x, grad = result.graph.inputs[0], result.graph.outputs[-1]
    assert (grad.dtype, grad.shape) == (x.dtype, x.shape)


def test_seeds_of_outputs_that_a_file_gives_one_name_for_two_sizes_may_be_fed():
    text = """g (float[4] x) => (float[M] y, float[M] z) <int64[1] half = {2}, int64[1] none = {0}> {
        y = Mul(x, x)  z = Slice(y, none, half) }"""
    found = compile(gradient_model(model_of(text)))(
        **{"x": f32([1, 2, 3, 4]), "y.grad": f32([1, 0, 0, 1]), "z.grad": f32([0, 1])}
    )
    np.testing.assert_array_equal(found["x.grad"], [2, 4, 0, 8])


@pytest.mark.parametrize(
    "path", ["r = Floor(x)", "one = Constant <value = float {1.0}> () r = CastLike(one, x)"], ids=["rounded", "type"]
)
def test_what_depends_on_an_input_in_no_smooth_way_needs_no_rule(path):
    text = f"""<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[N] x) => (float[N] y) {{ {path} h = my.Foo(r) y = Mul(x, h) }}"""
    assert names(gradient_model(parser.parse_model(text)).graph.outputs) == ["y", "x.grad"]
