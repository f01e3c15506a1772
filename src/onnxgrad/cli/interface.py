"""Options that change the inputs and outputs of a model before anything else is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    import onnx_ir as ir

Number = int | float | bool


@dataclass(frozen=True)
class Interface:
    """The options as they are written; nothing changes where all are empty."""

    batch: str | None = None
    constants: Sequence[str] = ()
    add_outputs: Sequence[str] = ()
    remove_outputs: Sequence[str] = ()
    rename: Sequence[str] = ()

    def apply(self, model: "ir.Model") -> "ir.Model":
        """The model with this interface. Raises: OptionError, InputError, ShapeError."""
        from onnxgrad.engine.passes.interface import with_batch_size, with_constants, with_names, with_outputs

        if self.batch is not None:
            model = with_batch_size(model, int(self.batch) if self.batch.isdecimal() else self.batch)
        if self.constants:
            model = with_constants(model, {name: _content(text) for name, text in _pairs(self.constants, "--constant")})
        if self.add_outputs or self.remove_outputs:
            model = with_outputs(model, add=self.add_outputs, remove=self.remove_outputs)
        return with_names(model, dict(_pairs(self.rename, "--rename"))) if self.rename else model


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """`name=value` -> (name, value); the name may hold equal signs."""
    found = [text.rpartition("=") for text in texts]
    for text, (name, _, value) in zip(texts, found, strict=True):
        if not name or not value:
            raise OptionError(f"{text!r} has no name and value.", fix=f"{option} NAME=VALUE")
    return [(name, value) for name, _, value in found]


def _content(text: str) -> Number | npt.NDArray[np.generic]:
    """A number, true or false, or the array in a .npy file."""
    if text.endswith(".npy"):
        try:
            array: npt.NDArray[np.generic] = np.load(text, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise OptionError(f"{text} cannot be read.", why=str(error)) from error
        return array
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass  # then it is a float
    try:
        return float(text)
    except ValueError as error:
        raise OptionError(f"{text!r} is no number.", fix="a number, true, false, or a .npy file") from error
