"""Check the tensors of a file before anything is allocated or opened for them."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ExternalDataError, ModelError
from onnxgrad.importers.protos import all_graphs, all_nodes, bodies

_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data")


def check_tensors(proto: onnx.ModelProto, base_dir: Path | None) -> None:
    """Every tensor holds as much data as its shape says; external data is a part of a file in the model's folder.

    Raises: ModelError, ExternalDataError, with the name of the tensor.
    """
    sizes: dict[str, int] = {}
    for where, tensor in _all_tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, where, base_dir, sizes)
        else:
            _check_embedded(tensor, where)


def _all_tensors(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    graphs = [*all_graphs(proto.graph), *(body for function in proto.functions for body in bodies(function.node))]
    for graph in graphs:
        for tensor in graph.initializer:
            yield f"initializer '{tensor.name}'", tensor
        for sparse in graph.sparse_initializer:
            yield f"sparse initializer '{sparse.values.name}'", sparse.values
            yield f"indices of sparse initializer '{sparse.values.name}'", sparse.indices
    nodes = [*all_nodes(proto.graph.node), *(node for function in proto.functions for node in all_nodes(function.node))]
    for node in nodes:
        output = node.output[0] if node.output else ""
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield f"attribute '{attribute.name}' of {node.op_type} that makes '{output}'", attribute.t
            elif attribute.type == onnx.AttributeProto.TENSORS:
                for tensor in attribute.tensors:
                    yield f"attribute '{attribute.name}' of {node.op_type} that makes '{output}'", tensor


def _describe(tensor: onnx.TensorProto, where: str) -> str:
    try:
        dtype = ir.DataType(tensor.data_type).name.lower()
    except ValueError:
        dtype = f"type {tensor.data_type}"
    return f"{where}: {dtype}{list(tensor.dims)}"


def _data_type(tensor: onnx.TensorProto, where: str) -> ir.DataType:
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError as error:
        why = f"data type {tensor.data_type} is not in the ONNX standard that is installed here"
        raise ModelError("A tensor has an unknown data type.", where=where, why=why, fix="update onnx") from error
    if dtype == ir.DataType.UNDEFINED:
        raise ModelError("A tensor has no data type.", where=where)
    if any(size < 0 for size in tensor.dims):
        raise ModelError("A tensor has a negative dimension.", where=_describe(tensor, where))
    return dtype


def _byte_length(tensor: onnx.TensorProto, dtype: ir.DataType) -> int:
    bits: int = math.prod(tensor.dims) * dtype.bitwidth
    return (bits + 7) // 8


def _check_embedded(tensor: onnx.TensorProto, where: str) -> None:
    dtype = _data_type(tensor, where)
    described = _describe(tensor, where)
    if tensor.HasField("segment"):
        raise ModelError("A tensor is stored in segments, which no runtime reads.", where=described)
    if tensor.HasField("raw_data") and dtype != ir.DataType.STRING:
        found, needed, unit = len(tensor.raw_data), _byte_length(tensor, dtype), "bytes"
    else:
        found, needed, unit = _stored(tensor), _entries(tensor, dtype), "values"
    if found != needed:
        why = f"the shape asks for {needed} {unit} and {found} are there"
        raise ModelError("A tensor's data does not have the size of its shape.", where=described, why=why)


def _stored(tensor: onnx.TensorProto) -> int:
    return sum(len(getattr(tensor, field)) for field in _TYPED_FIELDS)


def _entries(tensor: onnx.TensorProto, dtype: ir.DataType) -> int:
    """How long the typed field (float_data, int32_data, ...) has to be."""
    count: int = math.prod(tensor.dims)
    if dtype == ir.DataType.STRING:
        return count
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return 2 * count
    return _byte_length(tensor, dtype) if dtype.bitwidth in (2, 4) else count


def _check_external(tensor: onnx.TensorProto, where: str, base_dir: Path | None, sizes: dict[str, int]) -> None:
    """Location, offset and length of one external tensor. `sizes` remembers the files that were looked at."""
    dtype, described = _data_type(tensor, where), _describe(tensor, where)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if dtype == ir.DataType.STRING:
        raise ExternalDataError("A tensor of strings cannot be external data.", where=described)
    if base_dir is None:
        raise ExternalDataError(
            "The model keeps tensors in another file, and nothing says in which folder that is.",
            where=f"{described} in '{location}'",
            fix="load the model by its path, or give base_dir=",
        )
    if location not in sizes:
        sizes[location] = _file_size(location, base_dir, described)
    offset = _number(entries, "offset", 0, described)
    length = _number(entries, "length", _byte_length(tensor, dtype), described)
    if length != _byte_length(tensor, dtype):
        why = f"the length is {length} bytes and the shape asks for {_byte_length(tensor, dtype)}"
        raise ExternalDataError("External data does not have the size of its tensor.", where=described, why=why)
    if offset + length > sizes[location]:
        why = f"it ends at byte {offset + length} of '{location}', which has {sizes[location]} bytes"
        fix = "the data file is cut short or belongs to another model: copy it again"
        raise ExternalDataError("External data ends behind the end of its file.", where=described, why=why, fix=fix)


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise ExternalDataError(f"The {key} of external data is no size.", where=where, why=f"it is {text!r}")
    return int(text)


def _file_size(location: str, base_dir: Path, where: str) -> int:
    """The size of the data file, after making sure that it lies in the model's folder."""
    parts = PureWindowsPath(location).parts  # splits at both kinds of slash
    if not location or "\0" in location or ".." in parts or PureWindowsPath(location).anchor or os.path.isabs(location):
        why = f"'{location}' is not a path below the model's folder"
        raise ExternalDataError("The location of external data is refused.", where=where, why=why)
    root = base_dir.resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root):
        why = f"'{location}' is a link to '{path}', outside the model's folder '{root}'"
        fix = "copy the data file next to the model"
        raise ExternalDataError("The location of external data is refused.", where=where, why=why, fix=fix)
    if not path.is_file():
        fix = f"put the data file '{location}' into the folder '{base_dir}'"
        raise ExternalDataError("The file with the external data is missing.", where=where, fix=fix)
    status = path.stat()
    if status.st_nlink > 1:
        why = f"'{path}' has {status.st_nlink} hard links, so it may be a file from outside the folder"
        raise ExternalDataError("The location of external data is refused.", where=where, why=why, fix="copy the file")
    return status.st_size
