"""The catalog's data sets as arrays and lists. Each function pulls what it needs; labels are int64 class indices."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from onnxgrad.engine.errors import CatalogError, OptionError
from onnxgrad.models.catalog import find_entry, pull
from onnxgrad.models.ts_format import read_ts

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Texts(NamedTuple):
    """Texts and the class index of each. `texts, labels = train` works."""

    texts: list[str]
    labels: Labels


class Series(NamedTuple):
    """Time series [channels, length], whose lengths may differ, and the class index of each."""

    series: list[Floats]
    labels: Labels


def mnist_sample() -> tuple[Bytes, Labels]:
    """Handwritten digits: images uint8 [5000, 28, 28] (0 is background), labels [5000]; 500 of each digit, in order."""
    table = np.loadtxt(pull("mnist-sample"), dtype=np.uint8, delimiter=",")
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def digits() -> tuple[Bytes, Labels]:
    """Handwritten digits: images uint8 [1797, 8, 8] from 0 to 16, labels [1797]."""
    table = np.loadtxt(pull("digits"), dtype=np.uint8, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def faces() -> tuple[Floats, Labels]:
    """Images float32 [200, 25, 25] from 0 to 1; label 1 is a face (the first 100), 0 is not."""
    images = np.load(pull("faces"), allow_pickle=False).astype(np.float32)
    return images, np.repeat(np.array([1, 0], np.int64), 100)


def iris() -> tuple[Floats, Labels]:
    """Flowers: features float32 [150, 4] in centimetres, labels [150] of 3 species."""
    return _read_features("iris")


def wine() -> tuple[Floats, Labels]:
    """Wines: features float32 [178, 13], labels [178] of 3 growers."""
    return _read_features("wine")


def breast_cancer() -> tuple[Floats, Labels]:
    """Cell nuclei: features float32 [569, 30], labels [569]: 0 malignant, 1 benign."""
    return _read_features("breast-cancer")


def reuters_r8() -> tuple[Texts, Texts]:
    """News of 8 classes: 5485 texts to train on and 2189 to test with, the publisher's split."""
    return _read_texts("reuters-r8")


def reuters_r52() -> tuple[Texts, Texts]:
    """News of 52 classes: 6532 texts to train on and 2568 to test with, the publisher's split."""
    return _read_texts("reuters-r52")


def newsgroups() -> tuple[Texts, Texts]:
    """Posts to 20 newsgroups: 11293 texts to train on and 7528 to test with, the publisher's split."""
    return _read_texts("20newsgroups")


def text_classes(name: str) -> tuple[str, ...]:
    """The class names of a text data set of the catalog, in the order of its labels: sorted."""
    return tuple(sorted({category for category, _ in _read_rows(_pull_pair(name, "-train.tab", "-test.tab")[0])}))


def time_series(name: str) -> tuple[Series, Series]:
    """A time series data set of the catalog, such as "japanese-vowels": to train on, and to test with."""
    train, test = (Series(*read_ts(path)) for path in _pull_pair(name, "_TRAIN.ts", "_TEST.ts"))
    return train, test


def stratified_split(labels: Sequence[int] | Labels, held_out: int, seed: int = 0) -> tuple[Labels, Labels]:
    """Indices to train on and `held_out` indices to test with, each class in proportion; the same for the same seed.

    Both are shuffled. Rounding goes to the classes that lost most by it.
    """
    classes = np.asarray(labels)
    if not 0 < held_out < len(classes):
        raise OptionError(
            f"cannot hold out {held_out} of {len(classes)} examples", fix="choose a number between the two ends"
        )
    random = np.random.default_rng(seed)
    values, counts = np.unique(classes, return_counts=True)
    shares = counts * held_out / len(classes)
    quotas = np.floor(shares).astype(np.int64)
    quotas[np.argsort(quotas - shares, kind="stable")[: held_out - quotas.sum()]] += 1
    train, test = [], []
    for value, quota in zip(values, quotas, strict=True):
        members = random.permutation(np.flatnonzero(classes == value))
        test.append(members[:quota])
        train.append(members[quota:])
    return random.permutation(np.concatenate(train)), random.permutation(np.concatenate(test))


def _read_features(name: str) -> tuple[Floats, Labels]:
    table = np.loadtxt(pull(name), delimiter=",", skiprows=1)
    return table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64)


def _read_texts(name: str) -> tuple[Texts, Texts]:
    classes = {category: index for index, category in enumerate(text_classes(name))}
    train, test = (_label(_read_rows(path), classes) for path in _pull_pair(name, "-train.tab", "-test.tab"))
    return train, test


def _label(rows: Iterable[tuple[str, str]], classes: dict[str, int]) -> Texts:
    texts, labels = [], []
    for category, text in rows:
        texts.append(text)
        labels.append(classes[category])
    return Texts(texts, np.array(labels, np.int64))


def _read_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Category and text of each row: after three header lines, split at the tab. Quotes are part of the text."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            category, tab, text = line.rstrip("\r\n").partition("\t")
            if number <= 3 or not line.strip():
                continue
            if not tab or not category:
                raise CatalogError("a row has no category or no text", where=f"{path}:{number}")
            yield category, text


def _pull_pair(name: str, train: str, test: str) -> tuple[Path, Path]:
    """The two files of an entry that publishes its own split. Raises OptionError for any other entry."""
    files = {file.name for file in find_entry(name).files}
    stems = {file.removesuffix(train) for file in files if file.endswith(train)}
    if len(files) != 2 or len(stems) != 1 or f"{(stem := stems.pop())}{test}" not in files:
        raise OptionError(
            f"the catalog's {name!r} has no pair of files *{train} and *{test}", fix="onnxgrad models list"
        )
    folder = pull(name)
    return folder / f"{stem}{train}", folder / f"{stem}{test}"
