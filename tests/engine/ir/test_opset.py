"""engine.ir.opset: a raised model computes what it computed before."""

import glob
import os

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import parser

from onnxgrad.engine.errors import OpsetError
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.opset import OLDEST, is_compatible, opset_of, raise_opset
from onnxgrad.engine.ir.opset_changes import CHANGES
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.ir.verify import verify
from onnxgrad.importers import load

NEWEST = 21  # an opset that the runtime of the tests loads

SCATTER = "int64[1, 2] i = {1, 0}"
# (opset, graph): every operator in CHANGES at every version before a change
CASES = [
    (7, "(float[2, 3, 4] x) => (float[] y) { y = Softmax(x) }"),
    (11, "(float[2, 3, 4] x) => (float[] y) { y = Softmax <axis = -2> (x) }"),
    (12, "(float[2, 3, 4] x) => (float[] y) { y = Softmax <axis = -1> (x) }"),
    (12, "(float[2, 3] x) => (float[] y) { y = Softmax(x) }"),
    (12, "(float[N, 3, M] x) => (float[] y) { y = Softmax(x) }"),
    (12, "(float[] x) => (float[A, B, C] y) { y = Softmax <axis = 2> (x) }"),
    (9, "(float[2, 3, 4] x) => (float[] y) { y = Softmax <axis = 0> (x) }"),
    (7, "(float[2, 3, 4] x) => (float[] y) { y = LogSoftmax(x) }"),
    (11, "(float[2, 3, 4] x) => (float[] y) { y = Hardmax(x) }"),
    (7, "(float[2, 3] x) => (float[] y) { y = Clip <min = -0.5, max = 0.25> (x) }"),
    (10, "(float[2, 3] x) => (float[] y) { y = Clip <max = 0.25> (x) }"),
    (10, "(float16[2, 3] x) => (float16[] y) { y = Clip <min = -0.25> (x) }"),
    (7, "(float[2, 3] x) => (float[] y) { y = Dropout <ratio = 0.3> (x) }"),
    (10, "(float[2, 3] x) => (float[] y) { y = Dropout(x) }"),
    (7, "(float[2, 3] x) => (float[] y) { y = Pad <pads = [0, 1, 2, 0], value = 1.5> (x) }"),
    (10, '(float[2, 3] x) => (float[] y) { y = Pad <pads = [0, 1, 0, 2], mode = "reflect"> (x) }'),
    (10, "(double[2, 3] x) => (double[] y) { y = Pad <pads = [0, 1, 2, 0], value = 1.5> (x) }"),
    (7, "(float[4, 5] x) => (float[] y) { y = Slice <starts = [1, 0], ends = [9, -2]> (x) }"),
    (9, "(float[4, 5] x) => (float[] y) { y = Slice <starts = [1], ends = [3], axes = [1]> (x) }"),
    (7, "(float[4, 5] x) => (float[] y, int64[] i) { y, i = TopK <k = 2> (x) }"),
    (9, "(float[4, 5] x) => (float[] y, int64[] i) { y, i = TopK <k = 3, axis = 0> (x) }"),
    (7, "(float[1, 2, 3, 4] x) => (float[] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 3.0]> (x) }"),
    (
        7,
        """(float[1, 2, 3, 4] x) => (float[] y)
            { y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x) }""",
    ),
    (9, "(float[1, 2, 3, 4] x) => (float[] y) <float[4] s = {1.0, 1.0, 2.0, 1.5}> { y = Upsample(x, s) }"),
    (10, "(float[1, 2, 3, 4] x) => (float[] y) <float[4] s = {1.0, 1.0, 2.0, 1.5}> { y = Resize(x, s) }"),
    (10, "(float[1, 2, 6, 8] x) => (float[] y) <float[4] s = {1.0, 1.0, 0.5, 0.6}> { y = Resize(x, s) }"),
    (
        10,
        """(float[1, 1, 4, 6] x) => (float[] y) <float[4] s = {1.0, 1.0, 0.5, 2.0}>
            { y = Resize <mode = "linear"> (x, s) }""",
    ),
    (
        11,
        """(float[1, 2, 3, 4] x) => (float[] y) <float[0] r = {}, float[0] s = {}, int64[4] z = {1, 2, 5, 7}>
            { y = Resize(x, r, s, z) }""",
    ),
    (
        11,
        """(float[1, 2, 3, 4] x) => (float[] y) <float[0] r = {}, float[4] s = {1.0, 1.0, 2.0, 3.0}>
            { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "floor">
              (x, r, s) }""",
    ),
    (
        11,
        """(float[1, 2, 3, 4] x) => (float[] y) <float[0] r = {}, float[4] s = {1.0, 1.0, 2.0, 3.0}>
            { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, s) }""",
    ),
    (
        13,
        """(float[1, 2, 3, 4] x) => (float[] y) <float[4] s = {1.0, 1.0, 2.0, 3.0}>
            { y = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (x, "", s) }""",
    ),
    (7, "(float[2, 1, 3, 1] x) => (float[] y) { y = Squeeze <axes = [1, 3]> (x) }"),
    (11, "(float[2, 1, 3, 1] x) => (float[] y) { y = Squeeze <axes = [-1]> (x) }"),
    (12, "(float[2, 1, 3, 1] x) => (float[] y) { y = Squeeze(x) }"),
    (7, "(float[2, 3] x) => (float[] y) { y = Unsqueeze <axes = [0, 3]> (x) }"),
    (7, "(float[2, 3, 4] x) => (float[] y) { y = ReduceSum <axes = [1], keepdims = 0> (x) }"),
    (12, "(float[2, 3, 4] x) => (float[] y) { y = ReduceSum(x) }"),
    *(
        (7, f"(float[2, 3, 4] x) => (float[] y) {{ t = Abs(x) y = Reduce{kind} <axes = [0, 2]> (t) }}")
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    ),
    (17, "(float[2, 3, 4] x) => (float[] y) { y = ReduceMean <axes = [-1], keepdims = 0> (x) }"),
    (7, "(float[2, 6] x) => (float[] y, float[] z) { y, z = Split <axis = 1> (x) }"),
    (11, "(float[2, 6] x) => (float[] y, float[] z) { y, z = Split <axis = -1, split = [2, 4]> (x) }"),
    (13, "(float[2, 6] x) => (float[] y, float[] z) <int64[2] s = {1, 5}> { y, z = Split <axis = 1> (x, s) }"),
    (17, "(float[2, 6] x) => (float[] y, float[] z, float[] w) { y, z, w = Split <axis = 1> (x) }"),
    (
        7,
        """(float[2, 3, 4] x) => (float[] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}, float[3] m = {3, 2, 1},
           float[3] v = {1, 4, 9}> { y = BatchNormalization <spatial = 1, epsilon = 0.01> (x, s, b, m, v) }""",
    ),
    (
        9,
        """(float[2, 3, 4] x) => (float[] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}, float[3] m = {3, 2, 1},
           float[3] v = {1, 4, 9}> { y = BatchNormalization(x, s, b, m, v) }""",
    ),
    (9, f"(float[2, 2] x, float[1, 2] u) => (float[] y) <{SCATTER}> {{ y = Scatter(x, i, u) }}"),
    (10, f"(float[2, 2] x, float[1, 2] u) => (float[] y) <{SCATTER}> {{ y = Scatter <axis = 1> (x, i, u) }}"),
    (
        10,
        """(float[1, 2, 8, 8] x) => (float[] y) <float[1, 4] r = {0, 1, 5, 6}, int64[1] b = {0}>
            { y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2> (x, r, b) }""",
    ),
    (16, "(float[1, 2, 4, 4] x, float[1, 3, 3, 2] g) => (float[] y) { y = GridSample(x, g) }"),
    (16, '(float[1, 2, 4, 4] x, float[1, 3, 3, 2] g) => (float[] y) { y = GridSample <mode = "bicubic"> (x, g) }'),
    (17, "(float[2, 8, 1] x) => (float[] y) { y = DFT(x) }"),
    (17, "(float[2, 3, 8, 1] x) => (float[] y) { y = DFT <axis = 2, onesided = 1> (x) }"),
    (
        18,
        """(float[2, 6, 4] x) => (float[2, 6, 4] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, -1}>
            { y = GroupNormalization <num_groups = 3> (x, s, b) }""",
    ),
    (
        8,
        """(float[2, 3] s, float[2, 4, 3] x) => (float[2, 3] z, float[2, 4, 3] zs)
           { z, zs = Scan <num_scan_inputs = 1, directions = [1],
             body = b (float[3] a, float[3] v) => (float[3] o, float[3] p) { o = Add(a, v) p = Mul(a, v) }>
             ("", s, x) }""",
    ),
    (
        9,
        """(int64 n, float[2, 3] x) => (float[] y) { c = Constant <value = bool {1}> ()
           y = Loop(n, c, x) <body = b (int64 i, bool d, float[2, 3] v) => (bool e, float[2, 3] u)
             { e = Identity(d) u = Softmax <axis = 0> (v) }> }""",
    ),
    (
        10,
        """(bool c, float[2, 3] x) => (float[] y) { y = If(c) <
           then_branch = t () => (float[2, 3] a) { a = Clip <min = 0.0> (x) },
           else_branch = e () => (float[2, 3] b) { m = ReduceMax <axes = [0]> (x) b = Add(x, m) }> }""",
    ),
    (
        15,
        """(float[2, 3, 4] x) => (float[] y) { y = own.f <ax = [1]> (x) }
           <domain: "own", opset_import: ["" : 15]> f <ax> (a) => (b)
             { b = ReduceMean <axes: ints = @ax, keepdims = 0> (a) }""",
    ),
    (7, "(float[2, 3] x, float[3, 4] w, float[4] b) => (float[] y) { y = Gemm <alpha = 0.5> (x, w, b) }"),
    (9, "(float[1, 2, 5, 5] x) => (float[] y) { t = MaxPool <kernel_shape = [2, 2]> (x) y = Flatten(t) }"),
    (
        7,
        """(float[3, 2, 4] x, float[1, 20, 4] w, float[1, 20, 5] r) => (float[] y)
           { y = LSTM <hidden_size = 5> (x, w, r) }""",
    ),
]


def parse(opset, graph):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]> g {graph}')
    if "own." not in graph:
        del model.opset_import[1]
    return load(model)


def inputs_of(model):
    """Random inputs; unknown dimensions are 2, 4, 3 and so on."""
    rng = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.inputs:
        dims = (
            [2, 3, 4]
            if value.shape is None
            else [d if isinstance(d, int) else 2 + i for i, d in enumerate(value.shape)]
        )
        assert value.dtype is not None
        kind = value.dtype.numpy()
        numbers = rng.uniform(-1, 1, dims) if kind.kind == "f" else np.full(dims, 2)
        feeds[str(value.name)] = np.asarray(numbers).astype(kind)
    return feeds


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = serialize(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


RAISED = [(opset, graph, target) for opset, graph in CASES for target in (18, NEWEST) if opset < target]


@pytest.mark.parametrize(("opset", "graph", "target"), RAISED, ids=[f"{o}-{t}-{g[:60]}" for o, g, t in RAISED])
def test_a_raised_model_computes_the_same(opset, graph, target):
    model = parse(opset, graph)
    feeds = inputs_of(model)
    before = run(model, feeds)
    names = [value.name for value in (*model.graph.inputs, *model.graph.outputs)]
    raise_opset(model, target)
    assert opset_of(model) == target
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == names
    verify(model)
    if all(value.shape is not None for value in model.graph.inputs):  # the checker wants shapes
        onnx.checker.check_model(serialize(model))
    for old, new in zip(before, run(model, feeds), strict=True):
        assert old.dtype == new.dtype and old.shape == new.shape
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6)


def test_every_change_is_tried_from_the_version_before_it():
    tried = {(op, opset) for opset, graph in CASES for op in CHANGES if op in graph}
    missing = {
        (op, since)
        for op, (boundaries, _) in CHANGES.items()
        for since in boundaries
        if not any(name == op and opset < since for name, opset in tried)
    }
    assert not missing


def test_every_incompatible_change_of_a_schema_is_known():
    history: dict[str, dict[int, onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, {})[schema.since_version] = schema
    unknown = []
    for name, versions in history.items():
        order = sorted(versions)
        start = max((index for index, version in enumerate(order) if version <= OLDEST), default=0)
        for old, new in zip(order[start:], order[start + 1 :], strict=False):
            if not is_compatible(versions[old], versions[new]) and new not in CHANGES.get(name, ((), None))[0]:
                unknown.append((name, new))
    assert not unknown


def test_softmax_over_the_last_axis_stays_one_node():
    model = parse(9, "(float[N, 3] x) => (float[] y) { y = Softmax(x) }")
    raise_opset(model, 18)
    assert [node.op_type for node in model.graph] == ["Softmax"]


def test_a_mask_keeps_its_old_dtype():
    model = parse(7, "(float[2, 3] x) => (float[] y, float[] m) { y, m = Dropout(x) }")
    raise_opset(model, 18)
    verify(model)
    assert model.graph.outputs[1].dtype == ir.DataType.FLOAT
    onnx.checker.check_model(serialize(model), full_check=True)


def test_batch_normalization_over_activations_becomes_arithmetic():
    graph = """(float[2, 3, 4] x, float[3, 4] s, float[3, 4] b, float[3, 4] m, float[3, 4] v) => (float[] y)
        { w = Abs(v) y = BatchNormalization <spatial = 0> (x, s, b, m, w) }"""
    model = parse(7, graph)
    feeds = inputs_of(model)
    raise_opset(model, 18)
    x, s, b, m, v = feeds.values()
    np.testing.assert_allclose(run(model, feeds)[0], (x - m) / np.sqrt(abs(v) + 1e-5) * s + b, rtol=1e-5)


def test_batch_normalization_with_statistics_is_in_training_mode():
    graph = """(float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[] y, float[] rm)
        { y, rm, rv, sm, sv = BatchNormalization <momentum = 0.75> (x, s, b, m, v) }"""
    model = parse(9, graph)
    feeds = inputs_of(model)
    raise_opset(model, 18)
    mean = feeds["m"] * 0.75 + feeds["x"].mean((0, 2)) * 0.25
    np.testing.assert_allclose(run(model, feeds)[1], mean, rtol=1e-5)


def test_a_newer_model_stays_as_it_is():
    model = parse(20, "(float[2, 3] x) => (float[] y) { y = Abs(x) }")
    before = serialize(model).SerializeToString()
    raise_opset(model, 18)
    assert serialize(model).SerializeToString() == before


def test_a_clone_can_be_raised_alone():
    model = parse(9, "(float[2, 3, 4] x) => (float[] y) { y = Softmax(x) }")
    copy = clone(model)
    raise_opset(copy, 18)
    assert opset_of(model) == 9 and len(model.graph) == 1 < len(copy.graph)
    verify(model)


def test_opsets_below_seven_go_through_the_converter_of_onnx():
    model = parse(6, "(float[2, 3] x, float[3] b) => (float[] y) { y = Add <broadcast = 1> (x, b) }")
    raise_opset(model, 18)
    assert opset_of(model) == 18
    np.testing.assert_allclose(run(model, inputs_of(model))[0], sum(inputs_of(model).values()))


IMPOSSIBLE = {
    "unknown opset": (18, "(float[2] x) => (float[] y) { y = Abs(x) }", 99, "Opset 99 is unknown"),
    "operator of a later opset": (9, "(float[2] x) => (float[] y) { y = Gelu(x) }", 18, "Gelu"),
    "sequence lengths": (
        8,
        """(int64[2] l, float[2, 3] s, float[2, 4, 3] x) => (float[] z) { z = Scan <num_scan_inputs = 1,
        body = b (float[3] a, float[3] v) => (float[3] o) { o = Add(a, v) }> (l, s, x) }""",
        18,
        "different lengths",
    ),
    "saved statistics": (
        9,
        """(float[2, 3] x, float[3] s) => (float[] y, float[] sm)
        { y, rm, rv, sm, sv = BatchNormalization(x, s, s, s, s) }""",
        18,
        "saved_mean",
    ),
    "nearest both ways": (
        10,
        "(float[1, 1, 4, 4] x) => (float[] y) <float[4] s = {1.0, 1.0, 2.0, 0.5}> { y = Resize(x, s) }",
        18,
        "shrinks another",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE, ids=str)
def test_what_has_no_counterpart_is_refused(case):
    opset, graph, target, message = IMPOSSIBLE[case]
    with pytest.raises(OpsetError, match=message):
        raise_opset(parse(opset, graph), target)


CONVERTED = sorted(glob.glob(os.path.dirname(onnx.__file__) + "/backend/test/data/pytorch-*/*/model.onnx"))


@pytest.mark.parametrize("path", CONVERTED, ids=lambda path: path.split("/")[-2])
def test_old_models_of_the_standard_give_their_outputs(path):
    """Models of opset 6 and later with the outputs that their authors recorded."""
    model = load(path)
    if opset_of(model) >= 18:
        return
    raise_opset(model, 18)
    verify(model)
    folder = os.path.dirname(path) + "/test_data_set_0/"
    names = [value.name for value in model.graph.inputs if value.const_value is None]
    feeds = {name: read_tensor(folder + f"input_{index}.pb") for index, name in enumerate(names)}
    expected = [read_tensor(folder + f"output_{index}.pb") for index in range(len(model.graph.outputs))]
    for right, result in zip(expected, run(model, feeds), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-3, atol=1e-5)


def read_tensor(path):
    return onnx.numpy_helper.to_array(onnx.load_tensor(path))
