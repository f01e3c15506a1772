"""Checkpoints: the state of a training run as one safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from onnxgrad.engine.errors import TrainingError
from onnxgrad.exporters.atomic import write_atomically

FORMAT = "onnxgrad.checkpoint"
VERSION = 1


def save_checkpoint(path: str | os.PathLike[str], state: Mapping[str, np.ndarray], facts: Mapping[str, object]) -> None:
    """Write `state` and `facts` (JSON) to `path`; the file is replaced as a whole or not at all."""
    from safetensors.numpy import save

    metadata = {"format": FORMAT, "version": str(VERSION), "facts": json.dumps(facts)}
    data = save({name: np.asarray(array, order="C") for name, array in state.items()}, metadata)
    target = Path(path)
    if not target.parent.is_dir():
        raise TrainingError(f"the folder of the checkpoint does not exist: {target.parent}", fix="make it first")
    write_atomically(target, lambda file: file.write(data))


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """State and facts of a checkpoint.

    Raises: TrainingError for a file that is missing, damaged or of another version.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise TrainingError(f"there is no checkpoint {os.fspath(path)!r}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        facts: dict[str, object] = dict(json.loads(metadata.get("facts", "{}")))
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise TrainingError(f"{os.fspath(path)!r} is damaged, or no checkpoint", why=str(error)) from error
    if metadata.get("format") != FORMAT or metadata.get("version") != str(VERSION):
        raise TrainingError(
            f"{os.fspath(path)!r} is no checkpoint that this version reads",
            why=f"it says format {metadata.get('format')!r}, version {metadata.get('version')!r}; "
            f"this is {FORMAT!r}, version {VERSION}",
        )
    return state, facts
