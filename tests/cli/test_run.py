"""onnxgrad run: inputs from arguments, outputs in figures and in a file."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from onnxgrad.cli.arrays import measure, write_npz
from onnxgrad.cli.main import app
from onnxgrad.engine.errors import OptionError

ADD = "agraph (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add (x, z) }"
SCALE = "agraph (float[N] x, int64 k) => (float[N] y) { f = Cast <to = 1> (k)  y = Mul (x, f) }"


@pytest.fixture
def save(tmp_path: Path):
    def save(graph: str, **renamed: str) -> Path:
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {graph}')
        for old, new in renamed.items():
            rename(model.graph, old, new)
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return save


def rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Give a value a name that the text format cannot spell."""
    for value in graph.input:
        value.name = new if value.name == old else value.name
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]


def invoke(*arguments: str | Path):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def report(*arguments: str | Path):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_inputs_are_read_from_files(save, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3]], np.float32))
    np.save(tmp_path / "z.npy", np.array([[10, 20, 30]], np.float32))
    outputs = report(save(ADD), "-i", f"x={tmp_path / 'x.npy'}", "-i", f"z={tmp_path / 'z.npy'}")["outputs"]
    assert outputs["y"] == {
        "dtype": "float32",
        "shape": [1, 3],
        "min": 11.0,
        "max": 33.0,
        "mean": 22.0,
        "not_finite": 0,
        "values": [[11.0, 22.0, 33.0]],
    }


def test_inputs_are_random_where_nothing_is_said(save):
    inputs = report(save(ADD))["inputs"]
    assert {name: (row["source"], row["shape"]) for name, row in inputs.items()} == {
        "x": ("random", [1, 3]),
        "z": ("random", [1, 3]),
    }
    assert inputs["x"]["values"] != inputs["z"]["values"]


def test_the_same_seed_gives_the_same_inputs(save):
    path = save(ADD)
    assert report(path)["outputs"] == report(path, "--seed", "0")["outputs"] != report(path, "--seed", "1")["outputs"]


def test_a_shape_is_random_and_its_symbols_hold_for_the_other_inputs(save):
    inputs = report(save(ADD), "--input", "z:4,3")["inputs"]
    assert inputs["x"]["shape"] == inputs["z"]["shape"] == [4, 3]


def test_numbers_are_given_in_place(save):
    outputs = report(save(SCALE), "-i", "x=1.5,-2", "-i", "k=3")["outputs"]
    assert outputs["y"]["values"] == [4.5, -6.0]


def test_names_may_hold_the_separators(save):
    path = save(
        "agraph (float[2] a, float[2] b, float[2] c) => (float[2] y) { t = Add (a, b) y = Add (t, c) }",
        b="a:0",
        c="a=0",
    )
    outputs = report(path, "-i", "a=1,2", "-i", "a:0=10,20", "-i", "a=0=100,200")["outputs"]
    assert outputs["y"]["values"] == [111.0, 222.0]


def test_an_input_with_a_default_keeps_it(save):
    path = save("agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {5, 7}> { y = Mul (x, w) }")
    assert report(path, "-i", "x=1,1")["outputs"]["y"]["values"] == [5.0, 7.0]
    assert report(path, "-i", "x=1,1", "-i", "w=2,3")["outputs"]["y"]["values"] == [2.0, 3.0]


TYPES = ["float16", "double", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_type_can_be_random(save, dtype):
    row = report(
        save(f"agraph ({dtype}[N, 2, 0] e, {dtype}[M] x) => ({dtype}[M] y) {{ y = Identity (x) }}"), "-i", "x:50"
    )
    assert row["inputs"]["e"]["shape"] == [1, 2, 0]
    assert 0 <= row["outputs"]["y"]["min"] < row["outputs"]["y"]["max"] <= 1


def test_text_is_given_in_place(save):
    path = save("agraph (string[N] x) => (string[N] y) { y = Identity (x) }")
    assert report(path, "-i", "x=one,two")["outputs"]["y"]["values"] == ["one", "two"]


def test_numbers_that_are_not_finite_are_legal_json(save):
    path = save("agraph (float[N] x) => (float[N] y) { y = Log (x) }")
    row = report(path, "-i", "x=0,-1,1")["outputs"]["y"]
    assert row["values"] == ["-inf", "nan", 0.0]
    assert (row["min"], row["max"], row["not_finite"]) == (0.0, 0.0, 2)


def test_outputs_are_written_to_a_file(save, tmp_path):
    out = tmp_path / "out.npz"
    assert invoke(save(SCALE), "-i", "x=1,2", "-i", "k=2", "--output", out).exit_code == 0
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["y"], np.array([2, 4], np.float32))
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", "out.npz"}


def test_the_text_shows_inputs_outputs_and_the_provider(save):
    output = invoke(save(SCALE), "-i", "x=1,2", "-i", "k=2").output
    assert "input   k: int64[]" in output
    assert "output  y: float32[2]\n        2, 4; min 2, max 4, mean 3" in output
    assert "ExecutionProvider" in output


ERRORS = [
    (["-i", "q:3"], "does not begin with an input of the model"),
    (["-i", "x"], "does not begin with an input of the model"),
    (["-i", "x:1,two"], "is not a shape"),
    (["-i", "x:-1,3"], "is not a shape"),
    (["-i", "x=missing.npy"], "missing.npy cannot be read"),
    (["-i", "x=one"], "'one' is no value of this input"),
    (["-i", "k=1.5"], "'1.5' is no value of this input"),
    (["-i", "k=99999999999999999999"], "is no value of this input"),
    (["-i", "k=1", "-i", "k=2"], "an input is given twice"),
    (["-i", "k:5"], "k"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), ERRORS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_input_is_a_clear_error(save, arguments, message):
    result = invoke(save(SCALE), *arguments)
    assert result.exit_code == 1
    assert message in result.stderr and result.stdout == ""


def test_pickled_arrays_are_refused(save, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    result = invoke(save(SCALE), "-i", f"x={tmp_path / 'x.npy'}")
    assert result.exit_code == 1
    assert "cannot be read as an array" in result.stderr


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("agraph (string[N] x) => (string[N] y) { y = Identity (x) }", "an input of this type cannot be random"),
        ("agraph (float x) => (float y) { y = Identity (x) }", ""),
    ],
)
def test_text_cannot_be_random_but_scalars_can(save, graph, message):
    result = invoke(save(graph))
    assert (result.exit_code, message in result.stderr) == (1 if message else 0, True)


def test_a_file_that_cannot_be_written_is_a_clear_error(save, tmp_path):
    result = invoke(save(SCALE), "-o", tmp_path / "no" / "out.npz")
    assert result.exit_code == 1
    assert "the outputs cannot be written" in result.stderr


def test_types_that_numpy_files_lack_are_written_as_float32(tmp_path):
    write_npz(tmp_path / "x.npz", {"x": np.array([1.5, -2], ml_dtypes.bfloat16), "file": np.array(["a", "bc"], object)})
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["x"].tolist() == [1.5, -2.0] and arrays["x"].dtype == np.float32
        assert arrays["file"].tolist() == ["a", "bc"]


def test_a_sequence_is_measured_but_not_written(tmp_path):
    assert str(measure([np.zeros(2)])).startswith("list of 1")
    with pytest.raises(OptionError, match=r"no \.npz file can hold"):
        write_npz(tmp_path / "x.npz", {"x": [np.zeros(2)]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [np.zeros((0, 3), np.float32), np.array(2 + 1j), np.array(1.5, ml_dtypes.bfloat16)])
def test_odd_arrays_are_measured(value):
    row = measure(value)
    assert (row.dtype, row.shape) == (value.dtype.name, value.shape)
    json.dumps(row.to_dict())


def test_explain_says_where_the_model_runs(save):
    path = save("agraph (bfloat16[2] x) => (bfloat16[2] y) { y = Neg (x) }")
    result = invoke(path, "--explain")
    assert result.exit_code == 0 and "1 region" in result.stdout and "widened: Neg" in result.stdout
    explanation = report(path, "--explain")["explanation"]
    assert explanation["remedies"][0]["kind"] == "widened" and explanation["delegated"] == 1
    assert "explanation" not in report(path)
