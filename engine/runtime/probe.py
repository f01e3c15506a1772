"""What onnxruntime can run, asked of onnxruntime itself: sessions of one node."""

import functools
import re
from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnxgrad.engine.partition.bodies import bodies_of
from onnxgrad.engine.partition.regions import captured_values
from onnxgrad.engine.partition.versions import schema_at
from onnxgrad.engine.runtime.providers import CPU, ProviderChoice

_NEWEST_IR = re.compile(r"max supported IR version: (\d+)")
_NEWEST_OPSET = re.compile(r"domain \S+ is till opset (\d+)")
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_NO_KERNEL = re.compile(r"(?:Could not find an implementation for|Failed to find kernel for) (\w+)\((\d+)\)")
_SMALL = 64  # elements: constants of this size go into the probe, they decide about types and kernels
_TOO_NEW = 9999


class Probe:
    """The `Target` of engine.partition for onnxruntime with these providers."""

    name = "onnxruntime"

    def __init__(self, providers: Sequence[ProviderChoice]) -> None:
        self._providers = tuple(choice.name for choice in providers)
        self.on_cpu = all(name == CPU for name in self._providers)

    def newest(self, domain: str) -> int:
        """The newest version of an operator domain that onnxruntime loads; without limit for domains that it lacks."""
        return _newest_opset(domain)

    def refusal(self, node: ir.Node, opset: int, inputs: Sequence[ir.Value | None] | None = None) -> str:
        """Why onnxruntime makes no session of this node; "" if it does, or if types are missing to ask it."""
        given = list(node.inputs if inputs is None else inputs)
        outer = [value for value in captured_values(node) if value not in node.inputs]
        if any(value is not None and value.type is None for value in (*given, *outer)):
            return "" if inputs is None else "a type is not known"
        return _ask(_one_node_model(node, opset, given, outer), self._providers)


def newest_ir_version() -> int:
    """The newest IR version that onnxruntime loads."""
    return _newest_ir()


@functools.lru_cache(maxsize=1)
def _newest_ir() -> int:
    found = _NEWEST_IR.search(_ask(_relu(onnx.helper.make_opsetid("", 17), _TOO_NEW), (CPU,)))
    return int(found[1]) if found else _TOO_NEW


@functools.lru_cache(maxsize=64)
def _newest_opset(domain: str) -> int:
    found = _NEWEST_OPSET.search(_ask(_relu(onnx.helper.make_opsetid(domain, _TOO_NEW), 8), (CPU,)))
    return int(found[1]) if found else _TOO_NEW


def _relu(opset: onnx.OperatorSetIdProto, ir_version: int) -> bytes:
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "probe", ports[:1], ports[1:])
    opsets = [opset] if opset.domain == "" else [onnx.helper.make_opsetid("", 17), opset]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString())


def _one_node_model(node: ir.Node, opset: int, inputs: Sequence[ir.Value | None], outer: Sequence[ir.Value]) -> bytes:
    proto: onnx.NodeProto = ir.to_proto(node)
    proto.name = "probe"
    graph = onnx.GraphProto(name="probe")
    names: dict[ir.Value, str] = {}
    has_bodies = bool(bodies_of(node))  # they name what they read
    del proto.input[:], proto.output[:]
    for index, value in enumerate(inputs):
        if value is not None and value not in names:
            names[value] = (value.name or "") if has_bodies else f"x{index}"
            _add_input(graph, value, names[value])
        proto.input.append("" if value is None else names[value])
    for value in outer:
        _add_input(graph, value, value.name or "")
    for index, output in enumerate(node.outputs):
        proto.output.append("" if output.name == "" else f"y{index}")
        if proto.output[index]:
            graph.output.add(name=f"y{index}")
    schema = schema_at(node.domain, node.op_type, opset)
    if schema is not None:
        kept = [attribute for attribute in proto.attribute if attribute.name in schema.attributes]
        del proto.attribute[:]
        proto.attribute.extend(kept)
    del proto.metadata_props[:]
    proto.doc_string = ""
    graph.node.append(proto)
    model = onnx.ModelProto(ir_version=_newest_ir(), graph=graph)
    main = opset if node.domain in ("", "ai.onnx") else min(_newest_opset(""), 21)
    model.opset_import.add(domain="", version=main)
    if node.domain not in ("", "ai.onnx"):
        model.opset_import.add(domain=node.domain, version=opset)
    return bytes(model.SerializeToString(deterministic=True))


def _add_input(graph: onnx.GraphProto, value: ir.Value, name: str) -> None:
    tensor = value.const_value
    if tensor is not None and tensor.size <= _SMALL:
        plain = tensor if tensor.dtype == ir.DataType.STRING else ir.Tensor(tensor.numpy(), dtype=tensor.dtype)
        proto: onnx.TensorProto = ir.to_proto(plain)
        proto.name = name
        graph.initializer.append(proto)
        return
    info: onnx.ValueInfoProto = ir.to_proto(ir.Value(name=name, type=value.type))
    if value.shape is not None and isinstance(value.type, ir.TensorType):
        info.type.tensor_type.shape.SetInParent()
        for _ in value.shape:
            info.type.tensor_type.shape.dim.add()
    graph.input.append(info)


@functools.lru_cache(maxsize=4096)
def _ask(model: bytes, providers: tuple[str, ...]) -> str:
    """onnxruntime's reason for refusing a model, without its codes; "" where it does not."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model, options, providers=list(providers), enable_fallback=0)
    except Exception as error:  # onnxruntime raises Exception itself and RuntimeError for all that goes wrong
        text = _STATUS.sub("", str(error).strip()) or type(error).__name__
        found = _NO_KERNEL.search(text)
        return f"onnxruntime has no kernel of {found[1]}-{found[2]} for these types" if found else text
    return ""
