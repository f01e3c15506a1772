"""exporters.report: counts that can be checked by hand."""

import json

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from onnxgrad.exporters import save, summary, to_proto
from onnxgrad.exporters.report import Constants, ValueInfo, _quantity
from onnxgrad.importers import load


def parsed(graph, opset=18, imports=""):
    return load(
        parser.parse_model(f'<ir_version: 9, producer_name: "me", opset_import: ["" : {opset}{imports}]> g {graph}')
    )


def test_a_model_is_described():
    model = parsed("""(float["batch size", 3] x, float[?] z) => (float["batch size", 2] y, float[] t)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
          k = Constant <value_ints = [1, 2]> () h = MatMul(x, w) r = Relu(h) y = Relu(r) t = Abs(z) }""")
    found = summary(model)
    assert found.inputs == (ValueInfo("x", "float", ("batch size", 3)), ValueInfo("z", "float", ("?",)))
    assert found.outputs[1] == ValueInfo("t", "float", None)
    assert found.operators == {"Relu": 2, "Abs": 1, "Constant": 1, "MatMul": 1}
    assert found.parameters == {"float": Constants(1, 6, 24), "int64": Constants(1, 2, 16)}
    assert found.parameter_count == 6
    assert (found.macs, found.flops, found.nodes) == (6, 12, 5)
    assert found.notes == ("with batch size = 1",)
    assert found.opsets == {"": 18} and found.producer == "me" and found.ir_version == 9
    assert found.file_bytes == to_proto(model).ByteSize()


def test_the_text_holds_every_fact_and_the_dict_is_json():
    found = summary(parsed("(float[N, 3] x) => (float[N, 3] y) { y = com.acme.Foo(x) }", imports=', "com.acme" : 2'))
    text = str(found)
    for fact in ("com.acme::Foo", "x: float[N, 3]", "ai.onnx 18, com.acme 2", "IR version 9", "me"):
        assert fact in text
    assert json.loads(json.dumps(found.to_dict()))["inputs"][0] == {"name": "x", "type": "float", "shape": ["N", 3]}


# graph -> multiply-accumulates, by hand
WORK = {
    "convolution": ("(float[2, 4, 8, 8] x, float[6, 4, 3, 3] w) => (float[] y) { y = Conv(x, w) }", 2 * 6 * 36 * 4 * 9),
    "groups": (
        "(float[1, 4, 8, 8] x, float[4, 1, 3, 3] w) => (float[] y) { y = Conv <group = 4, strides = [2, 2]> (x, w) }",
        4 * 9 * 9,
    ),
    "transposed": (
        "(float[1, 4, 5, 5] x, float[4, 3, 2, 2] w) => (float[] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        4 * 25 * 3 * 4,
    ),
    "batched product": ("(float[5, 2, 3] a, float[5, 3, 4] b) => (float[] y) { y = MatMul(a, b) }", 5 * 2 * 3 * 4),
    "vectors": ("(float[7] a, float[7] b) => (float[] y) { y = MatMul(a, b) }", 7),
    "gemm": ("(float[3, 2] a, float[3, 4] b) => (float[] y) { y = Gemm <transA = 1> (a, b) }", 2 * 3 * 4),
    "lstm": (
        """(float[10, 2, 3] x, float[2, 20, 3] w, float[2, 20, 5] r) => (float[] y)
           { y = LSTM <hidden_size = 5, direction = "bidirectional"> (x, w, r) }""",
        10 * 2 * 2 * 20 * 8,
    ),
    "einsum": ('(float[2, 3] a, float[3, 4] b) => (float[] y) { y = Einsum <equation = "ij,jk->ik"> (a, b) }', 24),
    "quantized": ("(uint8[2, 3] a, uint8[3, 4] b) => (int32[] y) { y = MatMulInteger(a, b) }", 24),
    "symbols": ("(float[N, 3] a, float[3, M] b) => (float[] y) { y = MatMul(a, b) }", 3),
    "nothing to multiply": ("(float[2, 3] a) => (float[] y) { y = Relu(a) }", 0),
    "the longer branch": (
        """(bool c, float[2, 3] a, float[3, 4] b, float[2, 4] d) => (float[] y) { y = If(c) <
           then_branch = t () => (float[2, 4] p) { p = MatMul(a, b) },
           else_branch = e () => (float[2, 4] q) { u = MatMul(a, b) v = MatMul(a, b) q = Add(u, v) }> }""",
        48,
    ),
    "a function": (
        """(float[2, 3] a, float[3, 4] b) => (float[] y) { y = own.f(a, b) }
           <domain: "own", opset_import: ["" : 18]> f (p, q) => (r) { r = MatMul(p, q) }""",
        24,
    ),
}


@pytest.mark.parametrize("case", WORK, ids=str)
def test_work_is_counted(case):
    graph, macs = WORK[case]
    assert summary(parsed(graph, imports=', "own" : 1' if "own." in graph else "")).macs == macs


def test_what_was_assumed_is_noted():
    found = summary(parsed("(float[N, 3] a, float[3, M] b) => (float[] y) { y = MatMul(a, b) }"))
    assert found.notes == ("with M, N = 1",)
    data = parsed("""(float[2, 3] a) => (float[] y)
        { i = NonZero(a) f = Cast <to = 1> (i) t = Transpose(f) y = MatMul(f, t) }""")
    assert summary(data).notes == ("with 1 for each size that depends on data",)
    loop = parsed("""(int64 n, float[2, 2] x) => (float[] y) { c = Constant <value = bool {1}> ()
        y = Loop(n, c, x) <body = b (int64 i, bool d, float[2, 2] v) => (bool e, float[2, 2] u)
        { e = Identity(d) u = MatMul(v, v) }> }""")
    assert summary(loop).macs == 8
    assert summary(loop).notes == ("with one round of each loop",)
    unknown = parsed(
        "(float[2, 3] a) => (float[] y) { b = com.acme.Foo(a) y = MatMul(a, b) }", imports=', "com.acme" : 1'
    )
    assert summary(unknown).notes == ("without MatMul of unknown shape",)


def test_nodes_of_bodies_and_functions_count():
    model = parsed(
        """(bool c, float[2] x) => (float[2] y) {
          z = If(c) <then_branch = t () => (float[2] p) { p = Abs(x) },
                     else_branch = e () => (float[2] q) { q = Neg(x) }>
          y = own.f(z) }
        <domain: "own", opset_import: ["" : 18]> f (a) => (b) { b = Abs(a) }""",
        imports=', "own" : 1',
    )
    found = summary(model)
    assert found.operators == {"Abs": 2, "If": 1, "Neg": 1, "own::f": 1}
    assert found.functions == {"own::f": 1}


def test_external_data_counts_as_size(tmp_path):
    model = parsed("(float[300] x, float[300] w) => (float[300] y) { y = Add(x, w) }")
    weight = model.graph.inputs.pop()
    weight.const_value = ir.tensor(np.ones(300, np.float32), name="w")
    model.graph.register_initializer(weight)
    assert summary(model).file_bytes == to_proto(model).ByteSize()
    save(model, tmp_path / "m.onnx", external_data=True)
    files = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert summary(load(tmp_path / "m.onnx")).file_bytes == files


def test_summarizing_changes_nothing():
    model = parsed("(float[?, 3] x) => (float[] y) { t = Relu(x) y = Abs(t) }")
    before = to_proto(model).SerializeToString()
    str(summary(model))
    assert to_proto(model).SerializeToString() == before


QUANTITIES = {
    0: "0",
    999: "999",
    1000: "1 k",
    999_999: "1 M",
    1_234_567: "1.23 M",
    25_600_000: "25.6 M",
    10**16: "1e+04 T",
}


@pytest.mark.parametrize("number", QUANTITIES)
def test_quantities_read_well(number):
    assert _quantity(number, "") == QUANTITIES[number]
