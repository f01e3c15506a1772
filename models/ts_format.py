"""The .ts text format of the time series archives: header lines with @, one series a line after @data."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from onnxgrad.engine.errors import CatalogError


def read_ts(path: Path) -> tuple[list[npt.NDArray[np.float32]], npt.NDArray[np.int64]]:
    """Series [channels, length], whose lengths may differ, and labels as indices into the header's list of classes.

    A missing value, `?`, becomes NaN. Raises CatalogError for a file without classes or with ragged channels.
    """
    classes: dict[str, int] = {}
    series: list[npt.NDArray[np.float32]] = []
    labels: list[int] = []
    in_data = False
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(map(str.strip, lines), start=1):
            if not line or line.startswith("#"):
                continue
            if line.lower().startswith("@classlabel"):
                classes = {name: index for index, name in enumerate(line.split()[2:])}
            elif line.startswith("@"):
                in_data = line.lower() == "@data"
            elif in_data:
                values, _, label = line.rpartition(":")
                try:
                    labels.append(classes[label.strip()])
                    series.append(_read_channels(values))
                except (KeyError, ValueError) as error:
                    raise CatalogError(
                        "a time series cannot be read", where=f"{path}:{number}", why=repr(error)
                    ) from error
    return series, np.array(labels, np.int64)


def _read_channels(text: str) -> npt.NDArray[np.float32]:
    return np.array([channel.replace("?", "nan").split(",") for channel in text.split(":")], np.float32)
