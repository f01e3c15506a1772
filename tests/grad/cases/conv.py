"""Cases for grad/rules/conv.py."""

from tests.grad.checks import Case


def conv(x, w, bias=False, op="Conv", runs32=True, **attributes) -> Case:
    group = attributes.get("group", 1)
    inputs = [x, w] + ([(w[0] if op == "Conv" else w[1] * group,)] if bias else [])
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    name = f"{op}-{x}-{w}-{spelled}{'-bias' if bias else ''}"
    return Case(op, inputs, attributes, name=name, domain=(-1.0, 1.0), runs32=runs32)


def transpose(x, w, bias=False, **attributes) -> Case:
    return conv(x, w, bias, op="ConvTranspose", **attributes)


ACTIVATIONS = [
    ("",),
    ("Relu",),
    ("Tanh",),
    ("Sigmoid",),
    ("LeakyRelu", 0.1),
    ("Clip", -0.5, 0.7),
    ("HardSigmoid", 0.3, 0.4),
]


def fused(activation, *numbers) -> Case:
    attributes = {"pads": [1, 0, 0, 1]}
    attributes |= {"activation": activation} if activation else {}
    attributes |= {"activation_params": list(numbers)} if numbers else {}
    inputs = [(1, 2, 4, 4), (3, 2, 3, 3), (3,)]
    return Case(
        "FusedConv", inputs, attributes, name=f"FusedConv-{activation}", op_domain="com.microsoft", domain=(-1, 1)
    )


CASES = [
    conv((2, 3, 5), (4, 3, 3), bias=True),
    conv((2, 2, 5, 4), (3, 2, 3, 2), pads=[1, 0, 1, 1]),
    conv((2, 2, 5, 6), (3, 2, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], bias=True),
    conv((1, 2, 6, 5), (3, 2, 3, 3), strides=[2, 3], pads=[0, 2, 1, 0]),
    conv((1, 2, 7, 7), (2, 2, 3, 2), dilations=[2, 3], pads=[1, 0, 2, 1], strides=[2, 1]),
    conv((1, 2, 3, 4, 3), (2, 2, 2, 3, 1), strides=[1, 2, 1], pads=[0, 1, 0, 1, 1, 0]),
    conv((2, 2, 3, 3), (3, 2, 1, 1)),
    conv((2, 2, 1, 1), (3, 2, 1, 1), bias=True, kernel_shape=[1, 1]),
    conv((2, 2, 6, 6), (3, 2, 1, 1), strides=[2, 2]),
    conv((2, 2, 2, 2), (3, 2, 1, 1), pads=[1, 1, 1, 1]),
    conv((1, 4, 5, 5), (6, 2, 3, 3), group=2, pads=[1, 1, 1, 1]),
    conv((1, 6, 4), (4, 3, 2), group=2, strides=[2]),
    conv((2, 3, 5, 5), (3, 1, 3, 3), group=3, pads=[1, 1, 1, 1], bias=True),
    conv((1, 3, 6, 6), (3, 1, 3, 3), group=3, strides=[2, 2], pads=[1, 1, 1, 1]),
    conv((1, 2, 5), (4, 1, 3), group=2, dilations=[2]),
    conv((1, 33, 3), (33, 1, 2), group=33),
    conv((1, 2, 5, 6), (2, 2, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    conv((1, 2, 5, 6), (2, 2, 2, 3), auto_pad="SAME_LOWER", strides=[2, 3], kernel_shape=[2, 3]),
    conv((1, 2, 5, 6), (2, 2, 2, 4), auto_pad="SAME_LOWER"),
    conv((1, 2, 5, 6), (2, 2, 3, 3), auto_pad="VALID"),
    conv((1, 36, 2, 2), (5, 36, 2, 2)),
    conv((1, 40, 3, 3), (48, 40, 3, 3), pads=[1, 1, 1, 1]),
    conv((2, 2, 150), (4, 1, 130), strides=[6], pads=[2, 3], group=2),
    transpose((2, 3, 4), (3, 2, 3), bias=True),
    transpose((1, 2, 3, 4), (2, 3, 3, 2), strides=[2, 3], pads=[1, 0, 0, 1], bias=True),
    transpose((1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1]),
    transpose((1, 2, 3, 3), (2, 2, 2, 2), strides=[2, 2], dilations=[2, 3]),
    transpose((1, 4, 3), (4, 3, 2), group=2, strides=[2], bias=True),
    transpose((1, 3, 3, 3), (3, 1, 3, 3), group=3, strides=[2, 2], pads=[1, 1, 1, 1]),
    transpose((1, 2, 3), (2, 2, 3), strides=[2], output_shape=[6]),
    transpose((1, 2, 3), (2, 2, 3), strides=[2], output_shape=[6], auto_pad="SAME_UPPER"),
    transpose((1, 2, 3, 4), (2, 2, 3, 4), strides=[2, 3], auto_pad="SAME_LOWER"),
    # onnxruntime gives 11 elements here, where the standard says 12
    transpose((1, 2, 4), (2, 2, 2), strides=[3], auto_pad="SAME_UPPER", runs32=False),
    transpose((1, 2, 2, 2, 2), (2, 1, 2, 1, 2), strides=[1, 2, 2]),
    # onnxruntime refuses output_padding that is not below the stride
    transpose((1, 2, 3), (2, 2, 2), dilations=[3], output_padding=[2], strides=[2], runs32=False),
    *(fused(name, *numbers) for name, *numbers in ACTIVATIONS),
    Case(
        "FusedConv",
        [(1, 2, 4, 4), (3, 2, 3, 3), None, (1, 3, 2, 2)],
        {"activation": "Relu"},
        name="FusedConv-without-bias",
        op_domain="com.microsoft",
    ),
]
