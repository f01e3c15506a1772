"""Load ONNX: a file, its bytes or a ModelProto, checked and brought into the form that the engine expects."""

import gc
import os
from collections.abc import Iterable, Iterator, MutableSequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.ir.file_tensor import share_mappings
from onnxgrad.engine.ir.functions import link_functions
from onnxgrad.engine.ir.nesting import nested_too_deep
from onnxgrad.engine.ir.serialize import DIM_NAMES
from onnxgrad.importers.dim_names import name_dimensions
from onnxgrad.importers.nodes import check_nodes
from onnxgrad.importers.protos import all_nodes, check_nesting, describe_node
from onnxgrad.importers.scopes import resolve_names
from onnxgrad.importers.sparse import make_dense
from onnxgrad.importers.tensors import check_tensors

ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model

_PROTOBUF_LIMIT = 2**31 - 1
_FOREIGN_FILES = (
    (b"PK\x03\x04", "it is a zip archive (a PyTorch checkpoint, a wheel, ...)"),
    (b"version https://git-lfs", "it is a Git LFS pointer: the model itself was not downloaded"),
    (b"\x1f\x8b", "it is compressed with gzip"),
    (b"\x89HDF", "it is an HDF5 file (Keras)"),
    (b"ORTM", "it is an onnxruntime .ort file"),
    (b"\x80\x02", "it is a Python pickle, which is never read"),
    (b"\x80\x04", "it is a Python pickle, which is never read"),
    (b"<!DOCTYPE", "it is a web page, not the file behind the link"),
    (b"<html", "it is a web page, not the file behind the link"),
)


def load(source: ModelSource, *, base_dir: str | os.PathLike[str] | None = None) -> ir.Model:
    """Read a model. What was valid stays as it was; what breaks the standard is repaired or refused.

    An `ir.Model` is returned as it is; a ModelProto is copied. External data stays on disk until it is used; its
    folder is that of the file, or `base_dir` for bytes and protos. Repaired: node names that are empty or repeat,
    sub-graph names that hide outer ones, branches that return an outer value, nodes out of order, dimension names
    that are no symbols (the original spelling is kept in `model.graph.meta["onnxgrad.dim_names"]`).

    Raises:
        ModelError: the file is missing, damaged or not ONNX, or the graph is not well defined.
        ExternalDataError: external data is missing, has the wrong size, or lies outside the folder.
    """
    if isinstance(source, ir.Model):
        return source
    if isinstance(source, onnx.ModelProto):
        check_nesting(source)  # CopyFrom recurses
        proto, where = onnx.ModelProto(), "the ModelProto"
        proto.CopyFrom(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        proto, where = _parse(bytes(source), "the bytes"), "the bytes"
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        base_dir = path.parent if base_dir is None else base_dir
        proto, where = _parse(_read(path), str(path)), str(path)
    else:
        raise ModelError(
            f"A model cannot be read from an object of type {type(source).__name__}.",
            fix="give a path, bytes, an onnx.ModelProto or an onnx_ir.Model",
        )
    try:
        with _collector_paused():
            return _to_model(proto, where, base_dir)
    except RecursionError as error:  # types and attributes of a proto that was built in memory
        raise nested_too_deep(where) from error
    except UnicodeDecodeError as error:  # names are decoded when they are read
        raise ModelError("A name or text in the model is not UTF-8.", where=where, why=str(error)) from error


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A large model is millions of objects that all stay: looking for garbage among them costs a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(path: Path) -> bytes:
    """The content of a file, or a ModelError that says why there is none."""
    if path.is_dir():
        inside = sorted(child.name for child in path.glob("*.onnx"))[:3]
        fix = f"name a file in it: {', '.join(inside)}" if inside else "name an .onnx file"
        raise ModelError("The path is a folder, not a model file.", where=str(path), fix=fix)
    try:
        if path.stat().st_size > _PROTOBUF_LIMIT:
            why = "protobuf messages end at 2 GB; larger models keep their weights in external data files"
            raise ModelError("The file is larger than an ONNX file can be.", where=str(path), why=why)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError("There is no such model file.", where=str(path), fix="check the path") from error
    except OSError as error:
        raise ModelError("The model file cannot be read.", where=str(path), why=str(error)) from error


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    """Bytes -> ModelProto, with a reason in words where that fails."""
    if not data:
        raise ModelError("The model file is empty.", where=where, fix="download or export it again")
    for magic, reason in _FOREIGN_FILES:
        if data.startswith(magic):
            raise ModelError("This is not an ONNX file.", where=where, why=reason)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise nested_too_deep(where) from error
        why = f"the protobuf data is damaged or cut short, or it is another format ({error})"
        raise ModelError("The file could not be read as ONNX.", where=where, why=why) from error
    return proto


def _to_model(proto: onnx.ModelProto, where: str, base_dir: str | os.PathLike[str] | None) -> ir.Model:
    """Check and repair a proto that is ours to change, and convert it."""
    _check_header(proto, where)
    check_nesting(proto)
    check_nodes(proto, where)
    _unify_domains(proto, where)
    check_tensors(proto, None if base_dir is None else Path(base_dir))
    make_dense(proto)
    resolve_names(proto)
    dim_names = name_dimensions(proto)
    try:
        model = ir.from_proto(proto)
    except (ir.serde.SerdeError, ValueError, NotImplementedError) as error:
        raise ModelError("The model cannot be represented.", where=where, why=_root_cause(error)) from error
    if base_dir is not None:
        for graph in (model.graph, *(function.graph for function in model.functions.values())):
            ir.external_data.set_base_dir(graph, os.path.abspath(base_dir))
        share_mappings(model)
    model.graph.meta[DIM_NAMES] = dim_names
    link_functions(model)
    return model


def _check_header(proto: onnx.ModelProto, where: str) -> None:
    """Any bytes without a contradiction are a protobuf message: ask for what every ONNX model has."""
    if not proto.HasField("graph") or proto.ir_version == 0:
        missing = "graph" if not proto.HasField("graph") else "IR version"
        raise ModelError(
            "This is not an ONNX model.", where=where, why=f"it has no {missing}: damaged, or another format"
        )
    if not proto.opset_import and proto.ir_version < 3:
        proto.opset_import.add(domain="", version=1)


def _unify_domains(proto: onnx.ModelProto, where: str) -> None:
    """Spell the domain 'ai.onnx' as '' everywhere, and see that every domain in use has one version."""
    imported = _one_version_per_domain(proto.opset_import, where)
    _check_domains(proto.graph.node, imported, where)
    for function in proto.functions:
        inside = f"function '{function.name}' of {where}"
        _check_domains(function.node, _one_version_per_domain(function.opset_import, inside), inside)


def _one_version_per_domain(imports: MutableSequence[onnx.OperatorSetIdProto], where: str) -> set[str]:
    versions: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            why = f"versions {versions[domain]} and {entry.version} of '{domain or 'ai.onnx'}'"
            raise ModelError("The model imports two versions of a domain.", where=where, why=why)
    del imports[:]
    imports.extend(onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in versions.items())
    return set(versions)


def _check_domains(nodes: Iterable[onnx.NodeProto], imported: set[str], where: str) -> None:
    for node in all_nodes(nodes):
        if node.domain == "ai.onnx":
            node.domain = ""
        if node.domain not in imported:
            why = f"the opset imports do not name its domain '{node.domain or 'ai.onnx'}'"
            raise ModelError(
                "The version of an operator is unknown.", where=f"{describe_node(node)} in {where}", why=why
            )


def _root_cause(error: BaseException) -> str:
    """The innermost message of a chain of errors; the outer ones repeat the whole protobuf."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)
