"""Images as a camera or a file gives them: the cast, the layout and the normalization become a part of the model."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.ir.builder import Builder, describe_value
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.opset import raise_opset

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)
_CHANNELS = (1, 3, 4)
_OLDEST = 7
"""Below, Sub and Mul do not broadcast by shape."""


@dataclass(frozen=True)
class ImageInput:
    """Images of bytes for an input of floats: (pixel / 255 - mean) / std.

    name: of the input; may be left out where the model has one.  layout: of the images, "NHWC" or "NCHW".
    mean, std: one number, or one for each channel of the model.  reverse_channels: the images are BGR where the model
    wants RGB, or the other way round.
    """

    name: str | None = None
    layout: str = "NHWC"
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    reverse_channels: bool = False


def with_image_input(model: ir.Model, image: ImageInput) -> ir.Model:
    """A copy of `model` that takes images as uint8. The input keeps its name, its place and its other dimensions.

    Whether the model itself wants channels first or last is read off its input: the axis of 1, 3 or 4, the first
    where both are. The scale goes into the weights of a convolution when the model is optimized.

    Raises: OptionError for an input that does not take images, or options that do not fit it.
    """
    if image.layout not in ("NHWC", "NCHW"):
        raise OptionError(f"{image.layout!r} is no layout of images.", fix="NHWC or NCHW")
    copy = clone(model)
    raise_opset(copy, _OLDEST)
    x = _find_input(copy, image.name)
    _check_input(x)
    first = _has_channels_first(x)
    scale, shift = _constants(image, x, first)
    readers = list(x.uses())
    nodes = list(copy.graph)
    op = Builder(copy.graph, before=nodes[0] if nodes else None)
    dtype = x.dtype
    assert dtype is not None
    _store_as_bytes(x, channels_first=first, images_first=image.layout == "NCHW")
    y = _prepare(op, x, image, first, scale, shift, dtype)
    for node, index in readers:
        node.replace_input_with(index, y)
    return copy


def _prepare(
    op: Builder,
    x: ir.Value,
    image: ImageInput,
    first: bool,
    scale: np.ndarray,
    shift: np.ndarray,
    dtype: ir.DataType,
) -> ir.Value:
    """Layout, cast, shift, scale. Bytes are moved before they are floats, four times as large."""
    y = x
    if first and image.layout == "NHWC":
        y = op.Transpose(y, perm=[0, 3, 1, 2])
    elif not first and image.layout == "NCHW":
        y = op.Transpose(y, perm=[0, 2, 3, 1])
    if image.reverse_channels:
        count = scale.size if scale.size > 1 else _channels(y, first)
        y = op.Gather(y, list(reversed(range(count))), axis=1 if first else 3)
    wide = ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    y = op.Cast(y, to=int(wide))
    if shift.any():
        y = op.Sub(y, op.constant(shift.astype(wide.numpy())))
    if (scale != 1).any():
        y = op.Mul(y, op.constant(scale.astype(wide.numpy())))
    return y if dtype == wide else op.Cast(y, to=int(dtype))


def _find_input(model: ir.Model, name: str | None) -> ir.Value:
    inputs = {value.name or "": value for value in model.graph.inputs if not value.is_initializer()}
    if name is None:
        images = [value for value in inputs.values() if value.shape is not None and len(value.shape) == 4]
        if len(images) != 1:
            raise OptionError(f"The model has {len(images)} inputs of four dimensions.", fix="name the one for images")
        return images[0]
    if name not in inputs:
        near = difflib.get_close_matches(name, inputs, 3) or inputs
        raise OptionError(f"The model has no input {name!r}.", fix=f"one of {', '.join(near)}")
    return inputs[name]


def _check_input(x: ir.Value) -> None:
    if x.dtype not in _FLOATS or x.shape is None or len(x.shape) != 4:
        raise OptionError("Images are for an input of floats with four dimensions.", where=describe_value(x))
    if x.is_graph_output():
        raise OptionError("An input that is an output, too, cannot have another type.", where=describe_value(x))
    if not {x.shape[1], x.shape[3]} & set(_CHANNELS):
        why = "neither its second nor its last dimension is 1, 3 or 4"
        raise OptionError("The axis of the channels is not known.", where=describe_value(x), why=why)


def _has_channels_first(x: ir.Value) -> bool:
    assert x.shape is not None
    return x.shape[1] in _CHANNELS


def _channels(x: ir.Value, first: bool) -> int:
    assert x.shape is not None
    count = x.shape[1 if first else 3]
    assert isinstance(count, int)
    return count


def _constants(image: ImageInput, x: ir.Value, first: bool) -> tuple[np.ndarray, np.ndarray]:
    """(pixel / 255 - mean) / std = (pixel - shift) * scale, in the shape of the channels."""
    mean, std = np.array(image.mean, np.float64), np.array(image.std, np.float64)
    count = _channels(x, first)
    for name, numbers in (("mean", mean), ("std", std)):
        if numbers.ndim != 1 or numbers.size not in (1, count) or not np.isfinite(numbers).all():
            fix = f"one number, or {count}"
            raise OptionError(f"{name} does not fit the channels.", where=describe_value(x), fix=fix)
    if (std <= 0).any():
        raise OptionError("std has a number that is not positive.", where=describe_value(x))
    size = max(mean.size, std.size)
    shape = (size, 1, 1) if first and size > 1 else (size,) if size > 1 else ()
    shift = np.broadcast_to(mean * 255, size).reshape(shape)
    return np.broadcast_to(1 / (255 * std), size).reshape(shape), shift


def _store_as_bytes(x: ir.Value, *, channels_first: bool, images_first: bool) -> None:
    assert x.shape is not None
    batch, *rest = x.shape.dims
    channels, height, width = rest if channels_first else (rest[2], rest[0], rest[1])
    dims = [batch, channels, height, width] if images_first else [batch, height, width, channels]
    x.shape = ir.Shape(dims)
    x.type = ir.TensorType(ir.DataType.UINT8)
