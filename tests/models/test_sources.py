"""Data for fine-tuning from files."""

import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from onnxgrad.engine.errors import InputError
from onnxgrad.models.finetune.data import as_feeds, batches, by_name, number_of_batches, split
from onnxgrad.models.finetune.sources import (
    ImageFormat,
    encode_texts,
    load_tokenizer,
    read_arrays,
    read_image,
    read_image_folder,
    read_text_table,
)

TOKENIZER: dict[str, object] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"[PAD]": 0, "[UNK]": 1, "corn": 2, "oil": 3, "up": 4},
        "unk_token": "[UNK]",
    },
}
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(TOKENIZER))
    return path


def data_of(examples):
    """Inputs and labels, not typed: arrays or dicts of arrays, as the kind of file has it."""
    return examples.data


def test_arrays_are_found_by_the_names_of_the_model(tmp_path):
    np.savez(tmp_path / "d.npz", ids=np.zeros((3, 2)), mask=np.ones((3, 2)), label=np.arange(3), extra=np.zeros(1))
    inputs, labels = data_of(read_arrays(tmp_path / "d.npz", ["ids", "mask"], ["label"]))
    assert list(inputs) == ["ids", "mask"] and inputs["mask"].all()
    assert labels["label"].tolist() == [0, 1, 2]


def test_x_and_y_stand_for_the_only_input_and_label(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((3, 2), "f4"), y=np.arange(3))
    inputs, labels = data_of(read_arrays(tmp_path / "d.npz", ["pixels"], ["label"]))
    assert inputs["pixels"].dtype == np.float32 and labels["label"].shape == (3,)


def test_a_missing_array_is_named(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros(3))
    with pytest.raises(
        InputError, match=r"no array for 'label'(.|\n)*it holds x(.|\n)*np.savez\(path, pixels=..., label=...\)"
    ):
        read_arrays(tmp_path / "d.npz", ["pixels"], ["label"])


def damaged(path, how):
    """A file that is no .npz, each in its own way."""
    np.savez_compressed(path, x=np.zeros(1000), y=np.arange(1000))
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "noise":
        path.write_bytes(data[:60] + bytes(40) + data[100:])
    elif how == "text":
        path.write_text("hello")
    elif how == "one array":
        np.save(path.open("wb"), np.zeros(3))
    elif how == "objects":
        np.savez(path, x=np.array([{}], dtype=object), y=np.arange(1))
    elif how == "no array inside":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", b"hello")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["cut", "noise", "text", "one array", "objects", "no array inside", "missing"])
def test_a_damaged_file_is_a_clear_error(tmp_path, how):
    damaged(tmp_path / "d.npz", how)
    with pytest.raises(InputError, match=r"cannot be read as \.npz"):
        read_arrays(tmp_path / "d.npz", ["x"], ["y"])


def draw(path, color, size=(6, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)


def test_images_are_read_by_class_in_alphabetic_order(tmp_path):
    draw(tmp_path / "dog" / "1.png", (255, 0, 0))
    draw(tmp_path / "cat" / "1.jpg", (0, 0, 0))
    draw(tmp_path / "cat" / "2.PNG", (255, 255, 255), size=(100, 50))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    examples = read_image_folder(tmp_path, ImageFormat(8, 5))
    images, labels = data_of(examples)
    assert examples.classes == ("cat", "dog") and labels.tolist() == [0, 0, 1]
    assert images.shape == (3, 3, 8, 5) and images.dtype == np.float32
    assert np.allclose(images[0], -1, atol=0.01) and (images[1] == 1).all()
    assert (images[2, 0] == 1).all() and (images[2, 1:] == -1).all()


@pytest.mark.parametrize(
    ("mode", "color"), [("L", 255), ("RGB", (255, 255, 255)), ("RGBA", (255, 255, 255, 0)), ("1", 1)]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_of_image_has_the_channels_of_the_model(tmp_path, mode, color, channels):
    draw(tmp_path / "a.png", color, mode=mode)
    pixels = read_image(tmp_path / "a.png", ImageFormat(2, 2, channels, mean=(0.25,), std=(0.5,)))
    assert pixels.shape == (channels, 2, 2) and (pixels == 1.5).all()


def test_mean_and_deviation_are_by_channel(tmp_path):
    draw(tmp_path / "a.png", (255, 255, 255))
    pixels = read_image(tmp_path / "a.png", ImageFormat(2, 2, 3, mean=(0, 0.5, 1), std=(1, 0.25, 1)))
    assert pixels[:, 0, 0].tolist() == [1, 2, 0]


def test_folders_that_hold_no_classes_are_errors(tmp_path):
    form = ImageFormat(2, 2)
    with pytest.raises(InputError, match="no sub-folders"):
        read_image_folder(tmp_path / "none", form)
    (tmp_path / "cat").mkdir()
    with pytest.raises(InputError, match="no images"):
        read_image_folder(tmp_path, form)
    draw(tmp_path / "cow" / "1.png", (0, 0, 0))
    with pytest.raises(InputError, match="classes cow are not those of the training data"):
        read_image_folder(tmp_path, form, ["cat", "dog"])


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_a_file_that_is_no_image_is_named(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=r"a.png' cannot be read as an image"):
        read_image(tmp_path / "a.png", ImageFormat(2, 2))


def test_texts_become_tokens_of_one_length(tmp_path, tokenizer):
    (tmp_path / "t.tsv").write_text("grain\tCorn up\nenergy\toil up up up up\n\ngrain\tsilver\n")
    examples = read_text_table(tmp_path / "t.tsv", tokenizer, 4, INPUTS)
    inputs, labels = data_of(examples)
    assert examples.classes == ("energy", "grain") and labels.tolist() == [1, 0, 1]
    assert inputs["input_ids"].tolist() == [[2, 4, 0, 0], [3, 4, 4, 4], [1, 0, 0, 0]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]
    assert inputs["token_type_ids"].dtype == np.int64


def test_the_padding_of_the_tokenizer_is_kept(tmp_path, tokenizer):
    padding = {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 4}
    padding.update(pad_type_id=1, pad_token="up")
    tokenizer.write_text(json.dumps({**TOKENIZER, "padding": padding}))
    tokens = encode_texts(["corn"], load_tokenizer(tokenizer), 3, INPUTS)
    assert tokens["input_ids"].tolist() == [[4, 4, 2]] and tokens["token_type_ids"].tolist() == [[1, 1, 0]]


TABLES = [
    ("grain corn\n", r"line 1: no tab"),
    ("a\tcorn\n\nb corn\n", r"line 3: no tab"),
    ("", "holds no line"),
    ("grain\tcorn\n", "labels grain are not those of the training data"),
]


@pytest.mark.parametrize(("text", "message"), TABLES)
def test_tables_that_are_none_are_errors(tmp_path, tokenizer, text, message):
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_text_table(tmp_path / "t.tsv", tokenizer, 4, INPUTS, ["energy"] if "labels" in message else None)


def test_tables_and_tokenizers_that_cannot_be_read_are_errors(tmp_path, tokenizer):
    (tmp_path / "t.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as text"):
        read_text_table(tmp_path / "t.tsv", tokenizer, 4, INPUTS)
    with pytest.raises(InputError, match="no tokenizer file"):
        load_tokenizer(tmp_path / "none.json")
    tokenizer.write_text("{")
    with pytest.raises(InputError, match="cannot be read as a tokenizer"):
        load_tokenizer(tokenizer)


def test_an_input_that_a_tokenizer_does_not_make_is_an_error(tokenizer):
    with pytest.raises(InputError, match="inputs pixels are none of input_ids"):
        encode_texts(["corn"], load_tokenizer(tokenizer), 4, ["input_ids", "pixels"])


GIVEN = [
    (np.zeros((3, 2)), ["x"]),
    ((np.zeros(3),), ["x"]),
    ([np.zeros(3), np.ones(3)], ["x", "z"]),
    ({"z": np.ones(3), "x": np.zeros(3)}, ["x", "z"]),
    ([[1.0, 2.0], [3.0, 4.0]], ["x"]),
]


@pytest.mark.parametrize(("arrays", "names"), GIVEN)
def test_arrays_are_taken_by_order_or_name(arrays, names):
    found = by_name(arrays, names, "input")
    assert set(found) == set(names)
    if "z" in names:
        assert found["z"].all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (({"q": np.zeros(3)}, np.zeros(3)), r"unknown \['q'\], missing \['x'\]"),
        ((np.zeros(3), np.zeros(4)), "x: 3, label: 4"),
        ((np.zeros(3), np.zeros(())), "label: a scalar"),
        ((np.zeros(0), np.zeros(0)), "no example"),
        ([np.zeros(3), np.zeros(3)], "pair"),
    ],
)
def test_data_that_does_not_fit_is_an_error(data, message):
    with pytest.raises(InputError, match=message):
        as_feeds(data, ["x"], ["label"])


@pytest.mark.parametrize(
    ("count", "size", "keep", "sizes"),
    [(10, 4, True, [4, 4, 2]), (10, 4, False, [4, 4]), (3, 4, False, [3]), (3, 4, True, [3]), (8, 4, False, [4, 4])],
)
def test_batches_have_the_size_that_was_asked_for(count, size, keep, sizes):
    made = [len(b["x"]) for b in batches({"x": np.arange(count)}, size, keep_last=keep)]
    assert made == sizes and number_of_batches(count, size, keep) == len(sizes)


def test_a_wrong_number_of_arrays_is_an_error():
    with pytest.raises(InputError, match="1 input arrays for 2 inputs: x, z"):
        by_name([np.zeros(3)], ["x", "z"], "input")


def test_shuffled_batches_keep_examples_together(rng):
    made = list(batches({"x": np.arange(10), "label": np.arange(10) * 2}, 4, rng))
    assert sorted(i for b in made for i in b["x"]) == list(range(10)) != [i for b in made for i in b["x"]]
    assert all((b["label"] == 2 * b["x"]).all() for b in made)


def halves(data, share):
    return split(data, share)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_split_leaves_something_on_both_sides(share):
    (x, y), (held_x, held_y) = halves((np.arange(10), {"label": np.arange(10)}), share)
    assert sorted([*x, *held_x]) == list(range(10)) and len(x) and len(held_x)
    assert (y["label"] == x).all() and (held_y["label"] == held_x).all()
