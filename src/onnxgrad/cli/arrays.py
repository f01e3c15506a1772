"""What is shown of the arrays that go in and come out, and how they are written to a file."""

import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from onnxgrad.engine.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SHOWN = 5
_LISTED = 100


@dataclass(frozen=True)
class Measured:
    """A value in figures: those of its finite numbers, None where it has none.

    dtype: of an array, or what else the value is.  shown: the first few elements.  values: all, where they are few.
    """

    dtype: str
    shape: tuple[int, ...] | None
    shown: str
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    not_finite: int = 0
    values: object = None

    def __str__(self) -> str:
        kind = self.dtype if self.shape is None else f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        named = {"min": self.min, "max": self.max, "mean": self.mean, "not finite": self.not_finite or None}
        figures = ", ".join(f"{name} {figure:.6g}" for name, figure in named.items() if figure is not None)
        return f"{kind}\n        {'; '.join(part for part in (self.shown, figures) if part)}"

    def to_dict(self) -> dict[str, object]:
        """For JSON: everything but the text."""
        return {name: value for name, value in asdict(self).items() if name != "shown"}


def measure(value: object, shown: str | None = None) -> Measured:
    """Figures of an array; of a sequence or a map only how long it is. `shown` stands in for the elements."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        length = f" of {len(value)}" if isinstance(value, list | dict) else ""
        return Measured(f"{type(value).__name__}{length}", None, shown or "")
    if value.dtype.kind in "OSUT":
        texts = _storable(value) if value.size <= _LISTED else None
        few = _join([str(item) for item in value.flat[: _SHOWN + 1]])
        return Measured("string", value.shape, shown or few, values=None if texts is None else texts.tolist())
    if value.dtype.kind == "c":
        return Measured(value.dtype.name, value.shape, shown or _join([str(item) for item in value.flat[: _SHOWN + 1]]))
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    few = _join([f"{item:.6g}" for item in numbers.flat[: _SHOWN + 1]])
    lost = numbers.size - finite.size
    plain = Measured(value.dtype.name, value.shape, shown or few, not_finite=lost, values=_list(value))
    if not finite.size:
        return plain
    return replace(plain, min=float(finite.min()), max=float(finite.max()), mean=float(finite.mean()))


def write_npz(path: Path, arrays: Mapping[str, object]) -> None:
    """Write arrays under their names; the file appears when it is complete.

    Types that numpy files do not have (bfloat16, float8, int4, ...) are written as float32, which holds them exactly.
    Raises OptionError for an output that is not an array, and where the file cannot be written.
    """
    import numpy as np

    from onnxgrad.exporters.atomic import write_atomically

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in arrays.items():
                if not isinstance(array, np.ndarray):
                    raise OptionError(f"output {name!r} is a {type(array).__name__}, which no .npz file can hold")
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, _storable(array), allow_pickle=False)

    try:
        write_atomically(path, write)
    except OSError as error:
        raise OptionError("the outputs cannot be written", where=str(path), why=str(error)) from error


def _join(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _list(array: "npt.NDArray[np.generic]") -> object:
    """Nested lists of numbers that JSON has: NaN and infinities as text."""
    import numpy as np

    if array.size > _LISTED:
        return None
    plain = _storable(array)
    if plain.dtype.kind != "f" or np.isfinite(plain).all():
        return plain.tolist()
    return np.vectorize(lambda item: float(item) if np.isfinite(item) else str(item), otypes=[object])(plain).tolist()


def _storable(array: "npt.NDArray[np.generic]") -> "npt.NDArray[np.generic]":
    import numpy as np

    if array.dtype.kind == "O":
        return array.astype(np.str_)
    return array.astype(np.float32) if array.dtype.isbuiltin == 2 else array
