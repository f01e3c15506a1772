"""Inputs of calls from files: what int8 models are calibrated with and measured on."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.models.finetune.sources import ImageFormat, image_files, read_arrays, read_image

Array = npt.NDArray[np.generic]


def read_calls(
    path: str | os.PathLike[str],
    model: ir.Model,
    batch: int = 8,
    limit: int = 256,
    mean: Sequence[float] = (0.5,),
    std: Sequence[float] = (0.5,),
) -> list[dict[str, Array]]:
    """The inputs of some calls of a model, from an .npz file or a folder of images (at any depth).

    An .npz file holds an array for each input, of examples along the first axis; where their lengths differ it is one
    call. Scalars are given to every call.  batch: examples of a call, where the model does not fix it.  limit: so many
    examples at most.  mean, std: of images, by channel: (pixel / 255 - mean) / std.

    Raises: InputError for files that cannot be read, or do not fit the model.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    if Path(path).is_dir():
        arrays = _read_images(Path(path), inputs, limit, mean, std)
    else:
        found = read_arrays(path, [value.name or "" for value in inputs], ())
        assert isinstance(found.data[0], dict)
        arrays = found.data[0]
    return _split(arrays, _fixed_batch(inputs) or batch, limit)


def _read_images(
    folder: Path, inputs: Sequence[ir.Value], limit: int, mean: Sequence[float], std: Sequence[float]
) -> dict[str, Array]:
    if len(inputs) != 1:
        raise InputError("Images are for models of one input.", why=f"this one has {len(inputs)}", fix="give an .npz")
    (value,) = inputs
    dims = list(value.shape) if value.shape is not None else []
    if len(dims) != 4 or dims[1] not in (1, 3) or not all(isinstance(size, int) for size in dims[2:]):
        raise InputError(
            "Images are for an input [N, 1 or 3, height, width] of known height and width.",
            where=f"{value.name}: {value.shape}",
            fix="--input-shape of `onnxgrad optimize` fixes it; or give an .npz",
        )
    channels, height, width = (int(str(size)) for size in dims[1:])
    form = ImageFormat(height, width, channels, mean, std)
    images = np.stack([read_image(file, form) for file in image_files(folder)[:limit]])
    return {value.name or "": images.astype(value.dtype.numpy() if value.dtype else np.float32)}


def _fixed_batch(inputs: Sequence[ir.Value]) -> int | None:
    sizes = {value.shape[0] for value in inputs if value.shape}
    numbers = [size for size in sizes if isinstance(size, int)]
    return numbers[0] if len(sizes) == 1 and numbers else None


def _split(arrays: dict[str, Array], batch: int, limit: int) -> list[dict[str, Array]]:
    lengths = {array.shape[0] for array in arrays.values() if array.ndim}
    if len(lengths) != 1:
        return [arrays]
    (length,) = lengths
    starts = range(0, min(length, limit) // batch * batch, batch)  # a last batch that is not full may not fit
    if not starts:
        starts = range(1) if length else range(0)
    return [
        {name: array[start : start + batch] if array.ndim else array for name, array in arrays.items()}
        for start in starts
    ]
