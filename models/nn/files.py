"""Tensors by name in safetensors files, which PyTorch and others read and write too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.exporters.atomic import write_atomically


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """Write the file; what was there before stays until it is complete. Raises: OptionError without its folder."""
    from safetensors.numpy import save

    target = Path(path)
    if not target.parent.is_dir():
        raise OptionError("the folder of the file does not exist", where=str(target), fix=f"create '{target.parent}'")
    data = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    write_atomically(target, lambda file: file.write(data))


def read_tensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a file. Raises: InputError for a file that is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(Path(path).read_bytes()))
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be read as safetensors", why=str(error)) from error
