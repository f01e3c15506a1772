"""Data for fine-tuning from files: arrays, folders of images, tables of labelled texts."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.models.finetune.data import Array, Data

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PADDING = ("direction", "pad_id", "pad_type_id", "pad_token")  # what a tokenizer keeps of its own settings
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclass(frozen=True)
class Examples:
    """A data set: a pair (inputs, labels) for `Trainer.fit`, and the names of the classes if there are any."""

    data: Data
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageFormat:
    """How images become arrays [N, 3, height, width] (or 1 channel): (pixel / 255 - mean) / std, by channel."""

    height: int
    width: int
    channels: int = 3
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)


def read_arrays(path: str | os.PathLike[str], inputs: Sequence[str], labels: Sequence[str]) -> Examples:
    """The arrays of an .npz file: named as the inputs and labels of the model, or x and y where there is one of each.

    Raises: InputError if the file cannot be read or lacks an array.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be read as .npz", why=str(error)) from error
    plain = {**dict(zip(inputs, "x", strict=False)), **dict(zip(labels, "y", strict=False))}
    found = {name: arrays.get(name, arrays.get(plain.get(name, ""))) for name in (*inputs, *labels)}
    missing = [name for name, array in found.items() if array is None]
    if missing:
        raise InputError(
            f"{os.fspath(path)!r} holds no array for {', '.join(map(repr, missing))}",
            where=f"it holds {', '.join(arrays)}",
            fix="save it with np.savez(path, " + ", ".join(f"{name}=..." for name in (*inputs, *labels)) + ")",
        )
    picked = {name: array for name, array in found.items() if array is not None}
    return Examples(({name: picked[name] for name in inputs}, {name: picked[name] for name in labels}))


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def read_image_folder(
    folder: str | os.PathLike[str], form: ImageFormat, classes: Sequence[str] | None = None
) -> Examples:
    """Images of a folder with one sub-folder for each class. classes: their order; by default that of the alphabet.

    Raises: InputError for a folder without images, a file that is no image, a class that is not among `classes`.
    """
    root = Path(folder)
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
    if not names:
        raise InputError(f"{os.fspath(folder)!r} has no sub-folders: there must be one for each class")
    order = list(classes) if classes else names
    if unknown := sorted(set(names) - set(order)):
        raise InputError(f"the classes {', '.join(unknown)} are not those of the training data", where=str(root))
    files = [(path, order.index(name)) for name in names for path in sorted((root / name).iterdir()) if _is_image(path)]
    if not files:
        raise InputError(f"no images in the sub-folders of {os.fspath(folder)!r}", fix=f"files ending in {_IMAGES}")
    images = np.empty((len(files), form.channels, form.height, form.width), np.float32)
    for index, (path, _) in enumerate(files):
        images[index] = read_image(path, form)
    return Examples((images, np.array([label for _, label in files], np.int64)), tuple(order))


def read_image(path: str | os.PathLike[str], form: ImageFormat) -> Array:
    """One image file as float32 [channels, height, width], resized with antialiasing."""
    try:
        from PIL import Image
    except ImportError as error:
        raise OptionError("reading images needs Pillow", fix='pip install "onnxgrad[vision]"') from error
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB" if form.channels == 3 else "L").resize((form.width, form.height)))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be read as an image", why=str(error)) from error
    single: Array = normalize(pixels[None], form)[0]
    return single


def normalize(pixels: Array, form: ImageFormat) -> Array:
    """uint8 [N, H, W] or [N, H, W, C] to float32 [N, channels, H, W], by mean and deviation; grey is repeated."""
    if pixels.ndim == 3:
        pixels = np.repeat(pixels[..., None], form.channels, axis=3)
    scaled: Array = (pixels.astype(np.float32) / 255 - np.asarray(form.mean, np.float32)) / np.asarray(
        form.std, np.float32
    )
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2), np.float32)


def read_text_table(
    path: str | os.PathLike[str],
    tokenizer: str | os.PathLike[str],
    length: int,
    inputs: Sequence[str],
    classes: Sequence[str] | None = None,
) -> Examples:
    """Lines "label<tab>text" as token arrays [N, length] for the inputs of an encoder.

    Raises: InputError for a file without such lines, or a label that is not among `classes`.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be read as text", why=str(error)) from error
    rows = [(number, line.split("\t", 1)) for number, line in enumerate(lines, 1) if line.strip()]
    for number, parts in rows:
        if len(parts) != 2:
            raise InputError(f"{os.fspath(path)!r}, line {number}: no tab between a label and a text")
    names = sorted({label for _, (label, _) in rows})
    order = list(classes) if classes else names
    if unknown := sorted(set(names) - set(order)):
        raise InputError(f"the labels {', '.join(unknown)} are not those of the training data", where=os.fspath(path))
    if not rows:
        raise InputError(f"{os.fspath(path)!r} holds no line")
    tokens = encode_texts([text for _, (_, text) in rows], load_tokenizer(tokenizer), length, inputs)
    return Examples((tokens, np.array([order.index(label) for _, (label, _) in rows], np.int64)), tuple(order))


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """A tokenizer.json of the tokenizers library."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise OptionError("reading texts needs tokenizers", fix='pip install "onnxgrad[text]"') from error
    if not Path(path).is_file():
        raise InputError(f"there is no tokenizer file {os.fspath(path)!r}")
    try:
        return Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{os.fspath(path)!r} cannot be read as a tokenizer", why=str(error)) from error


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer, length: int, inputs: Sequence[str]) -> dict[str, Array]:
    """Token ids, masks and segment ids int64 [N, length], cut and padded, for the `inputs` that ask for them by name.

    Raises: InputError for an input that is none of them.
    """
    tokenizer.enable_truncation(length)
    own = tokenizer.padding or {}
    tokenizer.enable_padding(**{**{name: own[name] for name in own if name in _PADDING}, "length": length})
    encoded = tokenizer.encode_batch(list(texts))
    columns = {
        "input_ids": [e.ids for e in encoded],
        "attention_mask": [e.attention_mask for e in encoded],
        "token_type_ids": [e.type_ids for e in encoded],
    }
    unknown = [name for name in inputs if name not in columns]
    if unknown:
        raise InputError(
            f"the model's inputs {', '.join(unknown)} are none of {', '.join(columns)}",
            fix="prepare the arrays yourself and give them as .npz",
        )
    return {name: np.asarray(columns[name], np.int64) for name in inputs}


def image_files(folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """All image files below a folder, in the order of their names. Raises: InputError where there are none."""
    found = tuple(sorted(path for path in Path(folder).rglob("*") if _is_image(path)))
    if not found:
        raise InputError(f"no images in {os.fspath(folder)!r}", fix=f"files ending in {_IMAGES}")
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _IMAGES
