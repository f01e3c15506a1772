"""The data sets, as arrays."""

import numpy as np
import pytest

from onnxgrad.engine.errors import CatalogError, OptionError
from onnxgrad.models import datasets
from onnxgrad.models.ts_format import read_ts


def test_mnist_sample_has_500_images_of_each_digit():
    images, labels = datasets.mnist_sample()
    assert images.shape == (5000, 28, 28)
    assert images.dtype == np.uint8 and labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [500] * 10
    assert (images.min(), images.max()) == (0, 255)
    assert (images.reshape(5000, -1).max(axis=1) > 0).all()


def test_a_split_is_disjoint_stratified_and_fixed():
    labels = np.repeat(np.arange(10), 50)
    train, test = datasets.stratified_split(labels, 100)
    assert sorted([*train, *test]) == list(range(500))
    assert np.bincount(labels[test]).tolist() == [10] * 10
    again_train, again_test = datasets.stratified_split(labels, 100)
    assert (again_train == train).all() and (again_test == test).all()
    assert (datasets.stratified_split(labels, 100, seed=1)[1] != test).any()


@pytest.mark.parametrize("held_out", [1, 2, 5, 7, 11])
def test_a_split_of_uneven_classes_holds_out_the_exact_number(held_out):
    train, test = datasets.stratified_split([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2], held_out)
    assert (len(train), len(test)) == (12 - held_out, held_out)
    assert set(train).isdisjoint(test)


@pytest.mark.parametrize("held_out", [0, 3, -1])
def test_a_split_that_leaves_a_side_empty_is_an_error(held_out):
    with pytest.raises(OptionError, match="cannot hold out"):
        datasets.stratified_split([0, 1, 2], held_out)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_rows_of_text_are_split_at_tabs_and_quotes_are_kept(tmp_path, ending):
    path = tmp_path / "x-train.tab"
    lines = ["Category\tText", "d\tstring", "class\t", "", "\t", 'earn\tthe "big" one', 'acq\t"open', "acq\tshut", ""]
    path.write_bytes(ending.join(lines).encode())
    assert list(datasets._read_rows(path)) == [("earn", 'the "big" one'), ("acq", '"open'), ("acq", "shut")]


@pytest.mark.parametrize("row", ["no tab", "\tno category"])
def test_a_damaged_row_of_text_is_an_error_with_its_line(tmp_path, row):
    path = tmp_path / "x-train.tab"
    path.write_text(f"Category\tText\nd\tstring\nclass\t\n{row}\n")
    with pytest.raises(CatalogError, match=r"x-train\.tab:4"):
        list(datasets._read_rows(path))


def test_a_data_set_without_a_published_split_is_refused():
    with pytest.raises(OptionError, match="no pair of files"):
        datasets.text_classes("iris")


TS = """# a comment: not data
@problemName toy
@classLabel true up down
@data
1,2,3:4,5,6:down
7,?:8,9:up
"""


def test_time_series_keep_their_lengths_and_missing_values(tmp_path):
    path = tmp_path / "toy.ts"
    path.write_text(TS)
    (first, second), labels = read_ts(path)
    np.testing.assert_array_equal(first, np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    np.testing.assert_array_equal(second, np.array([[7, np.nan], [8, 9]], np.float32))
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("line", ["1,2:sideways", "1,2:3:up", "1,x:up", "no label"])
def test_a_damaged_time_series_is_an_error_with_its_line(tmp_path, line):
    path = tmp_path / "toy.ts"
    path.write_text(TS + line + "\n")
    with pytest.raises(CatalogError, match=r"toy\.ts:7"):
        read_ts(path)


TABLES = [
    (datasets.digits, (1797, 8, 8), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]),
    (datasets.iris, (150, 4), [50, 50, 50]),
    (datasets.wine, (178, 13), [59, 71, 48]),
    (datasets.breast_cancer, (569, 30), [212, 357]),
    (datasets.faces, (200, 25, 25), [100, 100]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("read", "shape", "counts"), TABLES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_table_has_its_published_size(read, shape, counts):
    values, labels = read()
    assert values.shape == shape
    assert np.bincount(labels).tolist() == counts


TEXTS = [
    (datasets.reuters_r8, 5485, 2189, 8),
    (datasets.reuters_r52, 6532, 2568, 52),
    (datasets.newsgroups, 11293, 7528, 20),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "train_size", "test_size", "classes"), TEXTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_text_set_has_its_published_size(read, train_size, test_size, classes):
    (train, train_labels), (test, test_labels) = read()
    assert (len(train), len(train_labels), len(test), len(test_labels)) == (
        train_size,
        train_size,
        test_size,
        test_size,
    )
    assert set(train_labels) == set(test_labels) == set(range(classes))
    assert all(text.strip() for text in train)


SERIES = [("japanese-vowels", 270, 370, 12, 9), ("basic-motions", 40, 40, 6, 4), ("gunpoint", 50, 150, 1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "train_size", "test_size", "channels", "classes"), SERIES)
def test_a_time_series_set_has_its_published_size(name, train_size, test_size, channels, classes):
    (train, train_labels), (test, _) = datasets.time_series(name)
    assert (len(train), len(test), len(set(train_labels))) == (train_size, test_size, classes)
    assert {values.shape[0] for values in train} == {channels}
