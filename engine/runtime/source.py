"""What a session is made of: the bytes of a model, big weights beside them, and the folder of its external data."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnxgrad.engine.errors import ExternalDataError, ModelError, OptionError
from onnxgrad.engine.ir.serialize import detach_weights, serialize
from onnxgrad.engine.runtime.call_signature import CallSignature, read_signature
from onnxgrad.engine.runtime.values import Array

ModelLike = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model

INLINE_LIMIT = 1_500_000_000
_PROTOBUF_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class ModelSource:
    """A model ready for onnxruntime. `weights` take the place of initializers that refer to files."""

    model: bytes
    signature: CallSignature
    weights: Mapping[str, tuple[Array, ir.DataType]] = field(default_factory=dict)
    folder: str = ""
    files: tuple[str, ...] = ()

    def key(self) -> tuple[object, ...]:
        """Equal for equal models: a digest of all bytes, their number, and the state of the files they refer to."""
        digest = hashlib.blake2b(self.model, digest_size=32)
        for name, (array, dtype) in sorted(self.weights.items()):
            digest.update(f"{name}\0{dtype.name}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        states = tuple(_state(Path(self.folder, name)) for name in self.files)
        size = len(self.model) + sum(array.nbytes for array, _ in self.weights.values())
        return digest.digest(), size, self.folder, states


def _state(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return -1, -1
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def read_source(model: ModelLike, outputs: Sequence[str] | None = None) -> ModelSource:
    """Read a model given as a path, bytes, ModelProto or ir.Model; none of them is changed.

    `outputs` selects what the model gives: outputs or other values of the main graph, in the order of the list.

    Raises: ModelError for what is not a model, ExternalDataError for external data that cannot be found,
    OptionError for an output that is not in the model.
    """
    folder, original, own = "", b"", True
    files: tuple[str, ...] = ()
    weights: Mapping[str, ir.TensorProtocol] = {}
    if isinstance(model, ir.Model):
        model, weights = detach_weights(model, INLINE_LIMIT)
        proto = serialize(model)
    elif isinstance(model, onnx.ModelProto):
        if model.ByteSize() > INLINE_LIMIT:
            return read_source(ir.from_proto(model), outputs)
        proto, own = model, False
    elif isinstance(model, bytes | bytearray | memoryview):
        original = bytes(model)
        proto = _parse(original, "bytes")
    elif isinstance(model, str | os.PathLike):
        path = Path(model)
        original = _read_file(path)
        proto = _parse(original, str(path))
        files = tuple(sorted({location for _, location in _external_files(proto.graph)}))
        folder = str(path.resolve().parent) if files else ""
    else:
        fix = "pass a path, bytes, a ModelProto or an ir.Model"
        raise ModelError(f"a {type(model).__name__} is not a model", fix=fix)
    if not folder and not weights:
        _refuse_files(proto)
    changed = _Edits(proto, own)
    changed.name_nodes_apart()
    if outputs is not None:
        changed.select_outputs(outputs)
    data = original if original and not changed.done else changed.proto.SerializeToString()
    arrays = {name: (tensor.numpy(), ir.DataType(tensor.dtype)) for name, tensor in weights.items()}
    return ModelSource(data, read_signature(changed.proto), arrays, folder, files)


class _Edits:
    """Changes to a ModelProto that is copied before the first of them unless it is `own`."""

    def __init__(self, proto: onnx.ModelProto, own: bool) -> None:
        self.proto = proto
        self.done = False
        self._own = own

    def _begin(self) -> onnx.GraphProto:
        if not self._own:
            copy = onnx.ModelProto()
            copy.CopyFrom(self.proto)
            self.proto, self._own = copy, True
        self.done = True
        return self.proto.graph

    def name_nodes_apart(self) -> None:
        """onnxruntime wants the names of a graph's nodes to differ; the standard does not."""
        if any(_repeated(graph) for graph in proto_graphs(self.proto.graph)):
            for graph in proto_graphs(self._begin()):
                taken = {node.name for node in graph.node}
                for index in _repeated(graph):
                    node, number = graph.node[index], 1
                    while (name := f"{node.name}_{number}") in taken:
                        number += 1
                    node.name = name
                    taken.add(name)

    def select_outputs(self, names: Sequence[str]) -> None:
        """Make `names` the outputs of the graph."""
        graph = self.proto.graph
        known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        values = {name for node in graph.node for name in node.output if name} | set(known)
        values |= {tensor.name for tensor in graph.initializer}
        unknown = [name for name in names if name not in values]
        if unknown or not names or len(set(names)) != len(names):
            twice = "a value twice" if names else "nothing"
            what = f"the model has no value {unknown[0]!r}" if unknown else f"outputs={list(names)!r} selects {twice}"
            raise OptionError(what, fix=f"the outputs are {', '.join(value.name for value in graph.output)}")
        if list(names) == [value.name for value in graph.output]:
            return
        graph = self._begin()
        known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        chosen = [onnx.ValueInfoProto() for _ in names]
        for value, name in zip(chosen, names, strict=True):
            value.CopyFrom(known.get(name, onnx.ValueInfoProto(name=name)))
        del graph.output[:]
        graph.output.extend(chosen)


def _repeated(graph: onnx.GraphProto) -> list[int]:
    seen: set[str] = set()
    found = []
    for index, node in enumerate(graph.node):
        if node.name and node.name in seen:
            found.append(index)
        seen.add(node.name)
    return found


def proto_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all bodies in it."""
    pending = [graph]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    pending.append(attribute.g)
                pending.extend(attribute.graphs)


def _external_files(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """The tensors whose data lies in a file, and the name of the file."""
    for inner in proto_graphs(graph):
        attributes = (attribute for node in inner.node for attribute in node.attribute)
        tensors = (attribute.t for attribute in attributes if attribute.type == onnx.AttributeProto.TENSOR)
        for tensor in (*inner.initializer, *tensors):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
                yield tensor.name, location


def _refuse_files(proto: onnx.ModelProto) -> None:
    for name, location in _external_files(proto.graph):
        raise ExternalDataError(
            f"the data of tensor {name!r} is in the file {location!r}, and the folder of that file is not known",
            why="the model was given as bytes or as a ModelProto",
            fix="pass the path of the .onnx file instead",
        )


def _read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > _PROTOBUF_LIMIT:
            raise ModelError("the file is larger than 2 GiB, the limit of the format", where=str(path))
        return path.read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        raise ModelError("the model file cannot be read", where=str(path), why=why) from error


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        why = f"{error}: the file is damaged, truncated, or has another format"
        raise ModelError("this is not an ONNX model", where=where, why=why) from error
    if not proto.HasField("graph"):
        raise ModelError("this is not an ONNX model", where=where, why="it holds no graph")
    return proto
