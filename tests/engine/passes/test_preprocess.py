"""Images of bytes as inputs; options of other engines."""

import inspect

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.passes.fusions.grain import RULES
from onnxgrad.engine.passes.preprocess import ImageInput, with_image_input
from tests.engine.passes.checks import check, model_of

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def network(dtype="float", layout="NCHW", opset=18):
    dims = "N,3,5,4" if layout == "NCHW" else "N,5,4,3"
    return model_of(f"g ({dtype}[{dims}] x) => ({dtype}[{dims}] y) {{ y = Neg(x) }}", opset=opset)


def output(model, *inputs, **named) -> np.ndarray:
    (y,) = og.compile(model)(*inputs, **named).values()
    return y


def expected(pixels, image, layout="NCHW"):
    """What people do by hand. pixels: uint8 [N,H,W,3]."""
    if image.reverse_channels:
        pixels = pixels[..., ::-1]
    y = -((pixels / 255 - np.array(image.mean)) / np.array(image.std))
    return y.transpose(0, 3, 1, 2) if layout == "NCHW" else y


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", ["NHWC", "NCHW"])
@pytest.mark.parametrize("own", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float", 1e-6), ("float16", 2e-3), ("double", 1e-14)])
def test_images_of_bytes_give_what_normalized_ones_gave(rng, dtype, tolerance, own, given, reverse):
    pixels = rng.integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    image = ImageInput("x", given, MEAN, STD, reverse)
    model = network(dtype, own)
    result = og.optimize_for_inference(model, fuse_preprocess=image)
    onnx.checker.check_model(og.to_proto(result), full_check=True)
    assert result.graph.inputs[0].name == "x"
    assert result.graph.inputs[0].dtype == ir.DataType.UINT8
    assert model.graph.inputs[0].dtype not in (None, ir.DataType.UINT8)
    x = pixels if given == "NHWC" else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(output(result, x), expected(pixels, image, own), rtol=tolerance, atol=tolerance * 4)


@pytest.mark.parametrize("opset", [7, 11, 13, 21])
def test_the_opset_stays(opset):
    assert with_image_input(network(opset=opset), ImageInput(mean=MEAN, std=STD)).opset_imports[""] == opset


def test_the_scale_goes_into_the_convolution_in_spite_of_its_padding(rng):
    weight = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
    text = "g (float[N,3,6,6] x) => (float[N,8,6,6] y) { y = Conv<pads = [1,1,1,1]>(x, w) }"
    model = model_of(text, w=weight)
    image = ImageInput(mean=MEAN, std=STD)
    result = og.optimize_for_inference(model, fuse_preprocess=image, check=2)
    assert [node.op_type for node in result.graph] == ["Transpose", "Cast", "Sub", "Conv"]


def test_bodies_read_the_prepared_image(rng):
    model = model_of("""g (float[1,3,2,2] x, bool c) => (float[1,3,2,2] y) {
        y = If (c) <then_branch = t () => (float[1,3,2,2] a) { a = Neg(x) },
                    else_branch = e () => (float[1,3,2,2] b) { b = Abs(x) }> }""")
    result = with_image_input(model, ImageInput("x", "NCHW"))
    x = rng.integers(0, 256, (1, 3, 2, 2), dtype=np.uint8)
    np.testing.assert_allclose(output(result, x=x, c=np.array(True)), x / -255, rtol=1e-6)


MISTAKES = [
    ("float[N,3,5,4] x", ImageInput("z"), "no input 'z'"),
    ("float[N,3,5,4] x", ImageInput(layout="HWC"), "no layout"),
    ("float[N,3,5,4] x", ImageInput(mean=(1, 2)), "mean does not fit"),
    ("float[N,3,5,4] x", ImageInput(std=(1, 0, 1)), "not positive"),
    ("int32[N,3,5,4] x", ImageInput("x"), "input of floats"),
    ("float[N,3,5] x", ImageInput("x"), "four dimensions"),
    ("float[N,3,5] x", ImageInput(), "0 inputs of four"),
    ("float[N,C,5,7] x", ImageInput(), "channels is not known"),
]


@pytest.mark.parametrize(("value", "image", "words"), MISTAKES)
def test_mistakes_are_explained(value, image, words):
    kind = value.partition("[")[0]
    model = model_of(f"g ({value}) => ({kind} y) {{ y = Abs(x) }}")
    with pytest.raises(OptionError, match=words):
        with_image_input(model, image)


def test_an_input_that_is_an_output_is_refused():
    model = model_of("g (float[N,3,5,4] x) => (float[N,3,5,4] x) { }")
    with pytest.raises(OptionError, match="is an output"):
        with_image_input(model, ImageInput())


@pytest.mark.parametrize("layout", ["nchw4", "nhwcd4", "nchw88", "nchw44", "nchw44_dot", "nchw32", "chwn4", "nchw64"])
def test_layouts_of_other_engines_are_refused_with_a_reason(layout):
    with pytest.raises(OptionError, match="no meaning") as caught:
        og.optimize_for_inference(network(), layout=layout)
    assert "unknown" not in caught.value.why
    with pytest.raises(OptionError, match="unknown"):
        og.optimize_for_inference(network(), layout=f"{layout}x")


def test_packed_weights_are_refused_with_a_reason():
    with pytest.raises(OptionError, match="packs constant weights"):
        og.optimize_for_inference(network(), weight_preprocess=True)


SUM = "g (float[N,3,4] x) => (float[N,3] y) { s = ReduceSum<keepdims = 0>(x, a) y = Div(s, n) }"
AXES = np.array([2], np.int64)
FOUR = np.float32(4)


def test_a_divided_sum_is_a_mean():
    result = check(model_of(SUM, a=AXES, n=FOUR), *RULES, hits=1)
    assert [node.op_type for node in result.graph if node.op_type != "Constant"] == ["ReduceMean"]
    old = SUM.replace("ReduceSum<keepdims = 0>(x, a)", "ReduceSum<keepdims = 0, axes = [-1]>(x)")
    assert "ReduceMean" in {node.op_type for node in check(model_of(old, opset=11, n=FOUR), *RULES, hits=1).graph}


OTHER: dict[str, tuple[str, dict[str, np.ndarray | np.generic]]] = {
    "another number": (SUM, {"a": AXES, "n": np.float32(4.000001)}),
    "an open axis": (SUM.replace("[N,3] y", "[3,4] y"), {"a": np.array([0], np.int64), "n": FOUR}),
    "more dimensions": (SUM.replace("[N,3] y", "[1,1,N,3] y"), {"a": AXES, "n": FOUR.reshape(1, 1, 1, 1)}),
    "another reader": (SUM.replace("y = Div(s, n)", "d = Div(s, n) y = Add(d, s)"), {"a": AXES, "n": FOUR}),
    "float16": (SUM.replace("float[", "float16["), {"a": AXES, "n": np.float16(4)}),
}


@pytest.mark.parametrize("case", OTHER)
def test_other_sums_stay(case):
    text, constants = OTHER[case]
    check(model_of(text, **constants), *RULES, hits=0)


def test_fuse_grain_can_be_switched_off():
    model = model_of(SUM, a=AXES, n=FOUR)
    kinds = [
        "ReduceMean" in {node.op_type for node in og.optimize_for_inference(model, fuse_grain=on).graph}
        for on in (True, False)
    ]
    assert kinds == [True, False]


def test_every_option_is_described():
    text = inspect.getdoc(og.optimize_for_inference) or ""
    for name in inspect.signature(og.optimize_for_inference).parameters:
        assert name in text
