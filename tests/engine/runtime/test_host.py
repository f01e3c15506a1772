"""Nodes on the host: by onnx's reference implementation, corrected where it is wrong."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from onnxgrad.engine.errors import ExecutionError
from onnxgrad.engine.runtime.host import HostNode, HostRegion
from onnxgrad.engine.runtime.probe import Probe, newest_ir_version
from onnxgrad.engine.runtime.providers import choose_providers
from onnxgrad.engine.runtime.session import create_session
from tests.engine.text_models import f32, model_of


def on_host(node, opset, **feeds):
    names = tuple(name for name in node.input if name)
    region = HostRegion([HostNode(node, names, {"": opset})], names, tuple(node.output), {}, "")
    return region.run(feeds)


def make(op_type, inputs, **attributes):
    return helper.make_node(op_type, inputs, ["y"], name="n", **attributes)


X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(2, 3, 4)
W = np.arange(18, dtype=np.float32).reshape(3, 2, 3)
SAME_AS_ONNXRUNTIME = [  # node, opset, inputs
    ("y = Softmax <axis: int = 1> (x)", 11, {"x": X}),
    ("y = Softmax(x)", 11, {"x": X}),
    ("y = Softmax <axis: int = 1> (x)", 13, {"x": X}),
    ("y = LogSoftmax <axis: int = -1> (x)", 11, {"x": X}),
    ("y = LogSoftmax <axis: int = 0> (x)", 13, {"x": X}),
    ("y = Pad <pads: ints = [0, -1, 1, 0, 0, -2]> (x)", 10, {"x": X}),
    ('y = Pad <pads: ints = [0, 1, 1, 0, 0, 0], mode: string = "edge"> (x)', 10, {"x": X}),
    ("y = Pad (x, p)", 18, {"x": X, "p": np.asarray([0, -1, 1, 0, 0, -2])}),
    ("y = ConvTranspose <strides = [2], group = 3, pads = [1, 0]> (x, w)", 11, {"x": X, "w": W}),
    ("y = ConvTranspose <strides = [2], output_shape = [9]> (x, w)", 11, {"x": X, "w": W}),
    (
        'y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2]> (x, w, b)',
        11,
        {"x": X, "w": W[..., :2], "b": f32([1, -1])},
    ),
    ("y = GatherElements <axis: int = -1> (x, i)", 13, {"x": X, "i": np.asarray([[[0, -1, 2, 2, 1]]])}),
    ("y = GatherElements (x, i)", 13, {"x": f32(np.arange(70)), "i": np.asarray([69, -70, 3])}),
    ("y = GlobalMaxPool (x)", 22, {"x": X}),
    (
        "y = OneHot <axis: int = 1> (i, d, v)",
        13,
        {"i": np.asarray([[1, -1], [5, 0]]), "d": np.asarray([3]), "v": f32([-1, 7])},
    ),
    ("y = Scatter <axis: int = 1> (x, i, u)", 9, {"x": X[0], "i": np.asarray([[0, 2]]), "u": f32([[7, 8]])}),
]


@pytest.mark.parametrize(
    ("text", "opset", "feeds"), SAME_AS_ONNXRUNTIME, ids=[f"{r[0]} {r[1]}" for r in SAME_AS_ONNXRUNTIME]
)
def test_the_host_agrees_with_onnxruntime(text, opset, feeds):
    kinds = {"f": "float", "i": "int64"}
    inputs = ", ".join(f"{kinds[v.dtype.kind]}[{', '.join(map(str, v.shape))}] {k}" for k, v in feeds.items())
    model = model_of(f"g ({inputs}) => (float y) {{ {text} }}", opset, 8)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (want,) = create_session(model, providers="cpu", threads=1).ort.run(None, feeds)
    (got,) = on_host(model.graph.node[0], opset, **feeds)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5)


BODIES = [  # node, inputs
    (
        """y, z = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
            scan_output_directions = [1], body = b (float[2] s, float[2] r) => (float[2] t, float[2] q) {
                t = Add(s, r)  q = Mul(s, r) }> (s, x)""",
        {"s": f32([1, 2]), "x": f32([[1, 2, 3], [4, 5, 6]])},
    ),
    (
        """y, z = Loop <body = b (int64 i, bool c, float s) => (bool going, float t, float q) {
                ten = Constant <value = float {10.0}> ()  t = Add(s, s)  q = Mul(s, ten)  going = Less(t, ten)
            }> (n, , s)""",
        {"n": np.asarray(9), "s": np.asarray(1, np.float32)},
    ),
    (
        """y, z = Loop <body = b (int64 i, bool c, float s) => (bool c2, float t, float[2] q) {
                c2 = Identity(c)  t = Add(s, s)  two = Constant <value = int64[1] {2}> ()  q = Expand(s, two)
            }> (n, , s)""",
        {"n": np.asarray(0), "s": np.asarray(1, np.float32)},
    ),
    (
        """y, z = Loop <body = b (int64[1] i, bool[1] c, float[1] s) => (bool[1] c2, float[1] t, float[1] q) {
                c2 = Identity(c)  q = Cast <to = 1> (i)  t = Add(s, q) }> (n, , s)""",
        {"n": np.asarray([3]), "s": f32([1])},
    ),
]


@pytest.mark.parametrize(("text", "feeds"), BODIES, ids=["Scan", "Loop", "no round", "lists of one"])
def test_a_body_on_the_host_gives_what_it_gives_in_onnxruntime(text, feeds):
    kinds = {"f": "float", "i": "int64"}
    inputs = ", ".join(f"{kinds[v.dtype.kind]}{list(v.shape) or ''} {k}" for k, v in feeds.items())
    model = model_of(f"g ({inputs}) => (float y, float z) {{ {text} }}", 21, 8)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    want = create_session(model, providers="cpu", threads=1).ort.run(None, feeds)
    for got, expected in zip(on_host(model.graph.node[0], 21, **feeds), want, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


CELLS = [  # operator, gates, attributes
    ("LSTM", 4, ""),
    ("LSTM", 4, 'direction = "reverse", clip = 0.5'),
    ("LSTM", 4, 'activations = ["HardSigmoid", "Elu", "Softsign"], input_forget = 1'),
    ("GRU", 3, ""),
    ("GRU", 3, 'direction = "reverse", linear_before_reset = 1'),
    ("GRU", 3, 'activations = ["Affine", "Relu"], activation_alpha = [0.5], activation_beta = [0.1]'),
    ("RNN", 1, ""),
    ("RNN", 1, 'direction = "bidirectional", activations = ["LeakyRelu", "Softplus"], activation_alpha = [0.2]'),
    ("RNN", 1, 'activations = ["ScaledTanh"], activation_alpha = [0.7], activation_beta = [1.5]'),
]


@pytest.mark.parametrize(("op_type", "gates", "options"), CELLS, ids=[f"{op} {options}" for op, _, options in CELLS])
@pytest.mark.parametrize("lens", [None, [3, 0]], ids=["whole", "cut"])
def test_a_recurrence_on_the_host_agrees_with_onnxruntime(op_type, gates, options, lens):
    rng, count = np.random.default_rng(0), 2 if "bidirectional" in options else 1
    shapes = {
        "x": (4, 2, 3),
        "w": (count, 2 * gates, 3),
        "r": (count, 2 * gates, 2),
        "b": (count, 4 * gates),
        "h": (count, 2, 2),
    }
    feeds = {name: f32(rng.standard_normal(shape)) for name, shape in shapes.items()}
    names, states = "x, w, r, b, l, h" if lens else "x, w, r, b, , h", "y, yh, yc" if op_type == "LSTM" else "y, yh"
    inputs = ", ".join(f"float[{', '.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    outputs = ", ".join(f"float[{'A, B, C, D' if name == 'y' else 'A, B, C'}] {name}" for name in states.split(", "))
    if lens:
        inputs, feeds["l"] = f"{inputs}, int32[2] l", np.asarray(lens, np.int32)
    if op_type == "LSTM":
        shape = (count, 2, 2)
        inputs, names = f"{inputs}, float[{count}, 2, 2] c, float[{count}, 6] p", f"{names}, c, p"
        feeds |= {"c": f32(rng.standard_normal(shape)), "p": f32(rng.standard_normal((count, 6)))}
    attributes = f"hidden_size = 2{', ' if options else ''}{options}"
    model = model_of(f"g ({inputs}) => ({outputs}) {{ {states} = {op_type} <{attributes}> ({names}) }}", 14, 8)
    want = create_session(model, providers="cpu", threads=1).ort.run(None, feeds)
    for got, expected in zip(on_host(model.graph.node[0], 14, **feeds), want, strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_strings_come_as_objects_and_numbers_as_arrays():
    (y,) = on_host(make("StringConcat", ["a", "b"]), 20, a=np.asarray(["x"], object), b=np.asarray(["y"], object))
    assert y.dtype == object and y.tolist() == ["xy"]
    (size,) = on_host(make("Size", ["x"]), 13, x=X)
    assert isinstance(size, np.ndarray) and size == 24


def test_a_node_that_fails_is_named():
    with pytest.raises(ExecutionError, match=r"Reshape failed[\s\S]*'n' on the host, inputs x: float32\[2, 3, 4\]"):
        on_host(make("Reshape", ["x", "s"]), 13, x=X, s=np.asarray([5]))


def test_an_operator_that_nobody_has_is_an_error_at_once():
    with pytest.raises(ExecutionError, match="neither onnxruntime nor the host"):
        on_host(helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", y="y"), 17, x=X)


def test_the_probe_asks_onnxruntime():
    text = "g (bfloat16[N] x, float[N] z) => (bfloat16[N] y, float[N] w) { y = Neg(x) w = Neg(z) }"
    probe = Probe(choose_providers("cpu"))
    assert [bool(probe.refusal(node, 21)) for node in ir.from_proto(model_of(text)).graph] == [True, False]
    assert probe.newest("") >= 26 and newest_ir_version() >= 13 and probe.newest("nobody's") > 1000
