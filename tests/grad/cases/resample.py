"""Cases for grad/rules/resample.py."""

import numpy as np

from tests.grad.checks import Case, Input


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def blocks(shape, image, block, **attributes) -> Case:
    return Case("Col2Im", [shape, ints(*image), ints(*block)], attributes, name=f"Col2Im-{image}-{block}-{attributes}")


def resize(shape, scales=None, sizes=None, roi=None, **attributes) -> Case:
    """Scales, sizes and roi are constants; float16 is left out, as the reference evaluator rounds coordinates there."""
    opset = attributes.pop("opset", 22)
    inputs = [shape, roi and floats(*roi), scales and floats(*scales), sizes and ints(*sizes)]
    while inputs[-1] is None:
        inputs.pop()
    fixed = [i for i in (1, 2) if i < len(inputs) and inputs[i] is not None]
    spelled = ",".join(f"{v}" for v in attributes.values())
    name = f"Resize-{shape}-{scales or sizes}-{spelled}"
    return Case("Resize", inputs, attributes, name=name, fixed=fixed, half=False, opset=opset)


def grid(shape, points, **attributes) -> Case:
    spelled = ",".join(f"{v}" for v in attributes.values())
    at = np.random.default_rng(1).uniform(-1.4, 1.4, points)
    opset = 20 if len(shape) == 5 else attributes.pop("opset", 22)
    return Case(
        "GridSample",
        [shape, at],
        attributes,
        name=f"GridSample-{shape}-{spelled}",
        opset=opset,
        domain=(-1, 1),
        half=False,
    )


def crop(mode, **attributes) -> Case:
    """Differentiated by roi too."""
    inputs: list[Input] = [(1, 1, 4, 5), np.array([0, 0, 0.41, 0.22, 1, 1, 0.73, 1.3]), None, ints(1, 1, 3, 4)]
    settings = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", **attributes}
    name = f"Resize-roi-{mode}-{attributes}"
    if mode == "cubic":  # the reference evaluator has its weights in float32
        return Case("Resize", inputs, settings, name=name, half=False, second=False, tolerance=1e-2)
    return Case("Resize", inputs, settings, name=name, half=False)


COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")

CASES = [
    blocks((1, 8, 4), (3, 3), (2, 2)),
    blocks((2, 6, 6), (4, 7), (1, 3), strides=[2, 2]),
    blocks((1, 4, 9), (3, 3), (2, 2), pads=[1, 0, 0, 1]),
    blocks((1, 4, 4), (4, 4), (2, 2), dilations=[2, 2]),
    blocks((1, 3, 5), (5,), (3,), pads=[1, 1]),
    *(
        resize((1, 2, 3, 4), scales=[1, 1, 1.6, 0.7], mode=mode, coordinate_transformation_mode=at)
        for mode in ("nearest", "linear", "cubic")
        for at in COORDINATES
    ),
    *(
        resize((1, 2, 3, 4), sizes=[1, 2, 5, 3], mode=mode, coordinate_transformation_mode="align_corners")
        for mode in ("nearest", "linear", "cubic")
    ),
    *(
        resize((1, 1, 4, 4), sizes=[1, 1, 3, 7], mode="nearest", nearest_mode=nearest)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    resize((1, 2, 3, 2), scales=[1, 1, 2, 3], mode="nearest"),
    resize(
        (1, 2, 3, 2),
        scales=[1, 1, 2, 3],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    resize((2, 2, 3), sizes=[6], axes=[2], mode="nearest"),
    resize((1, 2, 3, 4), scales=[1, 1, 2, 1], mode="linear"),
    resize((2, 3, 4), scales=[1, 1, 2], mode="linear"),
    resize((3, 4), sizes=[5, 3], mode="linear"),
    resize((1, 1, 2, 3, 2), scales=[1, 1, 2, 1, 1.5], mode="linear"),
    resize((1, 1, 6, 5), scales=[0.5, 0.6], axes=[2, 3], mode="linear", antialias=1),
    resize((1, 1, 6, 5), scales=[0.5, 0.6], axes=[2, 3], mode="cubic", antialias=1),
    resize((1, 1, 4, 5), sizes=[1, 1, 6, 3], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    resize((1, 1, 4, 5), sizes=[7, 3], axes=[3, 2], mode="linear"),
    resize((1, 1, 4, 5), sizes=[7, 6], axes=[2, 3], mode="linear", keep_aspect_ratio_policy="not_larger"),
    resize((1, 1, 4, 5), sizes=[7, 6], axes=[2, 3], mode="nearest", keep_aspect_ratio_policy="not_smaller"),
    resize(
        (1, 1, 4, 5),
        sizes=[1, 1, 3, 4],
        roi=[0, 0, 0.4, 0.2, 1, 1, 0.7, 1.3],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=2.0,
    ),
    *(crop(mode, **more) for mode, more in (("linear", {}), ("cubic", {}), ("cubic", {"exclude_outside": 1}))),
    *(
        grid((2, 1, 3, 4), (2, 1, 3, 2), mode=mode, padding_mode=padding, align_corners=align)
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ),
    *(
        grid((1, 2, 2, 3, 2), (1, 2, 1, 2, 3), mode="linear", padding_mode=padding)
        for padding in ("zeros", "border", "reflection")
    ),
    Case("AffineGrid", [(2, 2, 3), ints(2, 1, 3, 4)], {"align_corners": 1}),
    Case("AffineGrid", [(1, 3, 4), ints(1, 1, 2, 3, 2)]),
]
