"""importers.onnx: what is valid stays, what is repairable is repaired, the rest is one clear error."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnxgrad.engine.errors import ExternalDataError, ModelError
from onnxgrad.importers import load

ADD = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }
"""


def f32(values):
    return np.array(values, np.float32)


def weight(model):
    """The content of the weight of ADD."""
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    return tensor.numpy()


def text(model):
    return parser.parse_model(model)


def run(model, **inputs):
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "proto"])
def test_every_kind_of_source_gives_the_model(kind, tmp_path):
    proto = text(ADD)
    path = tmp_path / "add.onnx"
    onnx.save(proto, path)
    sources = {"path": path, "str": str(path), "bytes": path.read_bytes(), "proto": proto}
    model = load(sources[kind])
    np.testing.assert_array_equal(run(model, x=np.ones((2, 4), np.float32))[0], [[2, 3, 4, 5]] * 2)


def test_an_ir_model_is_returned_as_it_is():
    model = load(text(ADD))
    assert load(model) is model


def test_a_proto_is_not_changed():
    proto = text(ADD.replace("[N, 4] x", '["?", 4] x'))
    before = proto.SerializeToString()
    load(proto).graph.inputs[0].name = "renamed"
    assert proto.SerializeToString() == before


DAMAGED = {
    "missing file": ("absent.onnx", None, "no such model file"),
    "empty": ("m.onnx", b"", "empty"),
    "zip": ("m.onnx", b"PK\x03\x04rest", "zip archive"),
    "lfs pointer": ("m.onnx", b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
    "text": ("m.onnx", b"hello, this is no model at all", "could not be read as ONNX"),
    "truncated": ("m.onnx", text(ADD).SerializeToString()[:-9], "could not be read as ONNX"),
    "no graph": ("m.onnx", onnx.ModelProto(ir_version=8).SerializeToString(), "no graph"),
    "no version": ("m.onnx", onnx.ModelProto(graph=text(ADD).graph).SerializeToString(), "no IR version"),
}


@pytest.mark.parametrize("case", DAMAGED, ids=str)
def test_a_damaged_file_is_a_clear_error(case, tmp_path):
    name, content, message = DAMAGED[case]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_a_folder_is_an_error_that_names_a_model_in_it(tmp_path):
    onnx.save(text(ADD), tmp_path / "add.onnx")
    with pytest.raises(ModelError, match=r"folder(.|\n)*add\.onnx"):
        load(tmp_path)


def test_another_type_is_an_error():
    with pytest.raises(ModelError, match="type list"):
        load([1])  # type: ignore[arg-type]


INVALID = {
    "two definitions": ("{ t = Abs(x) t = Neg(x) y = Add(t, t) }", "defined twice"),
    "output hides input": ("{ x = Abs(x) y = Abs(x) }", "defined twice"),
    "undefined value": ("{ y = Add(x, nowhere) }", "'nowhere'"),
    "undefined output": ("{ z = Abs(x) }", "never computed"),
    "cycle": ("{ a = Add(x, b) b = Abs(a) y = Abs(x) }", "cycle(.|\n)*Abs"),
    "own result": ("{ a = Add(x, a) y = Abs(x) }", "cycle"),
    "unknown domain": ("{ y = com.acme.Foo(x) }", "com.acme"),
}


@pytest.mark.parametrize("case", INVALID, ids=str)
def test_an_ill_defined_graph_is_refused(case):
    body, message = INVALID[case]
    proto = text('<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Abs(x) }')
    proto.graph.CopyFrom(parser.parse_graph(f"g (float[2] x) => (float[2] y) {body}"))
    with pytest.raises(ModelError, match=message):
        load(proto)


def test_nodes_out_of_order_are_sorted():
    model = load(
        text("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) { y = Add(b, x) b = Neg(a) a = Abs(x) }""")
    )
    assert [node.op_type for node in model.graph] == ["Abs", "Neg", "Add"]
    np.testing.assert_array_equal(run(model, x=f32([1, -2]))[0], [0, -4])


def test_a_node_waits_for_what_its_body_captures():
    model = load(
        text("""<ir_version: 10, opset_import: ["" : 20]>
        g (bool c, float[2] x) => (float[2] y) {
          y = If(c) <then_branch = t () => (float[2] r) { r = Neg(a) },
                    else_branch = e () => (float[2] r) { r = Abs(a) }>
          a = Add(x, x)
        }""")
    )
    assert [node.op_type for node in model.graph] == ["Add", "If"]
    np.testing.assert_array_equal(run(model, c=np.array(True), x=f32([1, -2]))[0], [-2, 4])


def test_a_branch_that_returns_an_outer_value_gets_an_identity():
    model = load(
        text("""<ir_version: 10, opset_import: ["" : 20]>
        g (bool c, float[2] x) => (float[2] y) {
          y = If(c) <then_branch = t () => (float[2] r) { r = Neg(x) }, else_branch = e () => (float[2] x) { }>
        }""")
    )
    branch = model.graph[0].attributes["else_branch"].as_graph()
    assert [node.op_type for node in branch] == ["Identity"]
    np.testing.assert_array_equal(run(model, c=np.array(False), x=f32([1, -2]))[0], [1, -2])


def test_names_of_a_body_that_hide_outer_names_are_renamed():
    model = load(
        text("""<ir_version: 10, opset_import: ["" : 20]>
        g (int64 n, float[2] x) => (float[2] y) {
          c = Constant<value = bool {1}>()
          t = Abs(x)
          y = Loop(n, c, x) <body = b (int64 i, bool c, float[2] x) => (bool c, float[2] t) { t = Add(x, x) }>
        }""")
    )
    names = [value.name for value in model.graph.inputs] + [v.name for node in model.graph for v in node.outputs]
    body = next(node for node in model.graph if node.op_type == "Loop").attributes["body"].as_graph()
    inner = [value.name for value in body.inputs] + [v.name for node in body for v in node.outputs]
    assert not set(names) & set(inner)
    np.testing.assert_array_equal(run(model, n=np.array(3), x=f32([1, -2]))[0], [8, -16])


def test_node_names_become_unique_and_unique_ones_stay():
    body = "r = Neg(x)"
    proto = text(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (bool c, float[2] x) => (float[2] y) {{
          a = Abs(x) b = Neg(a)
          z = If(c) <then_branch = t () => (float[2] r) {{ {body} }}, else_branch = e () => (float[2] r) {{ {body} }}>
          y = Add(b, z)
        }}""")
    for node, name in zip(proto.graph.node, ["same", "same", "", "keep"], strict=True):
        node.name = name
    names = [node.name for node in load(proto).graph.all_nodes()]
    assert len(set(names)) == len(names) == 6 and all(names)
    assert names[0] == "same" and names[-1] == "keep"


def test_an_initializer_that_is_an_input_stays_both():
    proto = text(ADD)
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    model = load(proto)
    assert [value.name for value in model.graph.inputs] == ["x", "w"]
    assert "w" in model.graph.initializers
    result = run(model, x=np.zeros((1, 4), np.float32), w=np.full(4, 7, np.float32))[0]
    np.testing.assert_array_equal(result, [[7] * 4])


def test_unused_inputs_foreign_imports_and_metadata_are_kept():
    proto = text(ADD.replace("x) =>", "x, float[2] unused) =>"))
    proto.opset_import.add(domain="Paddle", version=1)
    proto.metadata_props.add(key="labels", value="a\nb")
    proto.doc_string = "words"
    back = ir.to_proto(load(proto))
    assert [value.name for value in back.graph.input] == ["x", "unused"]
    assert {entry.domain: entry.version for entry in back.opset_import} == {"": 20, "Paddle": 1}
    assert back.metadata_props[0].value == "a\nb" and back.doc_string == "words"


def test_the_long_name_of_the_default_domain_is_shortened():
    proto = text(ADD)
    proto.opset_import[0].domain = proto.graph.node[0].domain = "ai.onnx"
    model = load(proto)
    assert dict(model.opset_imports) == {"": 20} and model.graph[0].domain == ""


def test_two_versions_of_a_domain_are_refused():
    proto = text(ADD)
    proto.opset_import.add(domain="ai.onnx", version=18)
    with pytest.raises(ModelError, match="two versions"):
        load(proto)


def test_sparse_initializers_become_dense():
    proto = text(ADD)
    del proto.graph.initializer[:]
    values = numpy_helper.from_array(f32([5, 6]), "w")
    indices = numpy_helper.from_array(np.array([0, 3]), "w_indices")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    np.testing.assert_array_equal(run(load(proto), x=np.zeros((1, 4), np.float32))[0], [[5, 0, 0, 6]])


def test_functions_are_loaded_and_checked():
    source = """<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
        g (float[2] x) => (float[2] y) { y = own.twice(x) }
        <domain: "own", opset_import: ["" : 20]> twice (a) => (b) { c = Abs(a) b = Add(c, c) }"""
    model = load(text(source))
    np.testing.assert_array_equal(run(model, x=f32([1, -2]))[0], [2, 4])
    broken = text(source)
    broken.functions[0].node[1].input[0] = "missing"
    with pytest.raises(ModelError, match="missing"):
        load(broken)


OVERSIZED: dict[str, tuple[dict[str, Any], str]] = {
    "too many elements": ({"dims": [10**12], "data_type": 1}, "1000000000000 values and 0"),
    "short raw data": ({"dims": [4], "data_type": 1, "raw_data": b"\0" * 12}, "16 bytes and 12"),
    "negative dim": ({"dims": [-1], "data_type": 1, "float_data": [1]}, "negative dimension"),
    "no type": ({"dims": [1], "float_data": [1]}, "no data type"),
    "unknown type": ({"dims": [1], "data_type": 99, "float_data": [1]}, "unknown data type"),
}


@pytest.mark.parametrize("case", OVERSIZED, ids=str)
def test_a_tensor_must_hold_what_its_shape_says(case):
    fields, message = OVERSIZED[case]
    proto = text(ADD)
    proto.graph.initializer[0].CopyFrom(TensorProto(name="w", **fields))
    with pytest.raises(ModelError, match=message) as caught:
        load(proto)
    assert "'w'" in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (TensorProto.FLOAT16, [1.5, 2]),
        (TensorProto.BFLOAT16, [1.5, 2]),
        (TensorProto.INT4, [1, -2, 3]),
        (TensorProto.UINT2, [1, 2, 3, 0, 1]),
        (TensorProto.FLOAT8E4M3FN, [1.5]),
        (TensorProto.COMPLEX64, [1 + 2j, 3]),
        (TensorProto.STRING, [b"a", b"b"]),
        (TensorProto.BOOL, [1, 0]),
        (TensorProto.UINT64, [2**63]),
        (TensorProto.DOUBLE, []),
    ],
    ids=lambda value: TensorProto.DataType.Name(value) if isinstance(value, int) else "",
)
def test_every_data_type_is_read_from_its_typed_field(dtype, values):
    tensor = helper.make_tensor("t", dtype, [len(values)], values)
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    output = helper.make_tensor_value_info("y", dtype, [len(values)])
    model = load(helper.make_model(helper.make_graph([node], "g", [], [output])))
    assert model.graph[0].attributes["value"].as_tensor().numpy().shape == (len(values),)


def external(tmp_path, folder="model", size=16, **entries):
    """ADD with its weight in weights.bin."""
    proto = text(ADD)
    tensor = proto.graph.initializer[0]
    data = np.array(tensor.float_data, np.float32).tobytes()
    tensor.Clear()
    tensor.name, tensor.data_type, tensor.data_location = "w", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.append(4)
    for key, value in {"location": "weights.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "weights.bin").write_bytes(data[:size])
    (tmp_path / "outside.bin").write_bytes(data)
    onnx.save(proto, tmp_path / folder / "m.onnx")
    return tmp_path / folder / "m.onnx"


def test_external_data_is_read_lazily_from_the_folder_of_the_model(tmp_path, monkeypatch):
    path = external(tmp_path)
    monkeypatch.chdir(path.parent)
    model = load("m.onnx")
    monkeypatch.chdir(tmp_path)
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    np.testing.assert_array_equal(tensor.numpy(), [1, 2, 3, 4])


def test_bytes_with_external_data_need_a_folder(tmp_path):
    path = external(tmp_path)
    with pytest.raises(ExternalDataError, match="base_dir="):
        load(path.read_bytes())
    model = load(path.read_bytes(), base_dir=path.parent)
    np.testing.assert_array_equal(weight(model), [1, 2, 3, 4])


UNSAFE = {
    "parent": ({"location": "../outside.bin"}, "not a path below"),
    "parent inside": ({"location": "sub/../../outside.bin"}, "not a path below"),
    "backslashes": ({"location": "..\\outside.bin"}, "not a path below"),
    "absolute": ({"location": "/etc/hostname"}, "not a path below"),
    "drive": ({"location": "C:\\x.bin"}, "not a path below"),
    "empty": ({"location": ""}, "not a path below"),
    "missing": ({"location": "absent.bin"}, "missing"),
    "folder": ({"location": "."}, "missing"),
    "negative offset": ({"offset": "-4"}, "offset"),
    "offset of letters": ({"offset": "one"}, "offset"),
    "negative length": ({"length": "-16"}, "length"),
    "length behind the end": ({"offset": "4"}, "ends at byte 20"),
    "wrong length": ({"length": "12"}, "the length is 12 bytes"),
}


@pytest.mark.parametrize("case", UNSAFE, ids=str)
def test_unsafe_external_data_is_refused(case, tmp_path):
    entries, message = UNSAFE[case]
    with pytest.raises(ExternalDataError, match=message) as caught:
        load(external(tmp_path, **entries))
    assert "'w'" in str(caught.value)


def test_a_short_data_file_is_refused(tmp_path):
    with pytest.raises(ExternalDataError, match="has 12 bytes"):
        load(external(tmp_path, size=12))


@pytest.mark.parametrize("kind", ["symlink", "hard link", "link to a folder"])
def test_links_that_leave_the_folder_are_refused(kind, tmp_path):
    path = external(tmp_path, location="sub/outside.bin" if kind == "link to a folder" else "weights.bin")
    data = path.parent / "weights.bin"
    data.unlink()
    if kind == "symlink":
        data.symlink_to(tmp_path / "outside.bin")
    elif kind == "hard link":
        data.hardlink_to(tmp_path / "outside.bin")
    else:
        (path.parent / "sub").symlink_to(tmp_path)
    with pytest.raises(ExternalDataError, match="refused"):
        load(path)


def test_a_link_inside_the_folder_is_followed(tmp_path):
    path = external(tmp_path, location="link.bin")
    (path.parent / "link.bin").symlink_to(path.parent / "weights.bin")
    np.testing.assert_array_equal(weight(load(path)), [1, 2, 3, 4])
