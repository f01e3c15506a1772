"""Write ONNX: a proto, or a file with or without external data. A file is complete or not there at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import ModelError, OptionError
from onnxgrad.engine.ir.file_tensor import FileTensor
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.exporters.atomic import check_targets, temporary_name, write_atomically, write_through
from onnxgrad.importers.onnx import ModelSource, load

ExternalData = bool | str
"""True, False, "auto", or the name of the data file."""

_LIMIT = 2**31 - 1
"""A protobuf message ends here, in bytes."""
_ROOM = 2**24
"""Kept free for the nodes when deciding whether the tensors fit."""
_SMALL = 1024
"""Smaller tensors stay in the model file, in bytes."""
_ALIGNMENT = 4096
"""Offsets of large tensors in the data file, so that they can be mapped into memory."""


def to_proto(model: ModelSource) -> onnx.ModelProto:
    """The model as one proto, with all data in it.

    Raises: OptionError, if the tensors take more than the 2 GB that a proto can hold.
    """
    model = load(model)
    if _tensor_bytes(model) > _LIMIT:
        fix = "save it with og.save(model, path): its data goes out as external data"
        raise OptionError("The model does not fit into a proto.", why="protobuf messages end at 2 GB", fix=fix)
    with _embedded(model):
        return serialize(model)


def save(model: ModelSource, path: str | os.PathLike[str], external_data: ExternalData = "auto") -> None:
    """Write a model file. What was at `path` stays until the new file is complete, also if the model came from it.

    external_data: True puts tensors into `<path>.data`, another name into a file of that name in the same folder,
    False keeps all in one file, "auto" does what is needed (one file up to 2 GB).

    Raises: OptionError, if the folder is missing or one file cannot hold the model.
    """
    model, path = load(model), Path(path)
    data_name = _data_file_name(model, path, external_data)
    check_targets(path)
    try:
        if data_name is None:
            content = to_proto(model).SerializeToString()
            write_atomically(path, lambda file: file.write(content))
        else:
            _save_with_data(model, path, data_name)
        _sync_folder(path.parent)
    except OSError as error:
        raise OptionError("The file could not be written.", where=str(path), why=str(error)) from error


def _data_file_name(model: ir.Model, path: Path, external_data: ExternalData) -> str | None:
    """The name of the data file, None for a model in one file."""
    too_large = _tensor_bytes(model) > _LIMIT - _ROOM
    if external_data == "auto":
        external_data = too_large
    if external_data is False:
        if too_large:
            fix = 'leave external_data at "auto"'
            raise OptionError("The model does not fit into one file.", why="protobuf messages end at 2 GB", fix=fix)
        return None
    name = f"{path.name}.data" if external_data is True else external_data
    if name in ("", ".", "..", path.name) or Path(name).name != name or "\\" in name:
        why = f"'{name}' is not the name of a file next to '{path.name}'"
        raise OptionError(
            "external_data has an impossible value.", why=why, fix='use True, False, "auto" or a file name'
        )
    return name


def _save_with_data(model: ir.Model, path: Path, data_name: str) -> None:
    """Write the data file, then the model file; the model file takes its place last."""
    data_path = path.parent / data_name
    targets = [value for value in _initializers(model) if _goes_out(value)]
    layout = _layout(targets)
    references = {
        value: FileTensor(
            data_name,
            offset,
            _tensor(value).nbytes,
            _tensor(value).dtype,
            shape=ir.Shape(_tensor(value).shape.numpy()),
            name=value.name or "",
            base_dir=path.parent.resolve(),
        )
        for value, offset in zip(targets, layout, strict=True)
    }
    with _embedded(model, except_for=set(targets)), _replaced(references):
        content = serialize(model).SerializeToString()
    if len(content) > _LIMIT:
        raise ModelError(
            "The model file would be larger than 2 GB.", why="tensors in nodes cannot leave the model file"
        )
    overwritten = [value for value in _initializers(model) if _reads_from(value, data_path)]
    temporary = temporary_name(data_path)
    try:
        write_through(temporary, lambda file: _write_tensors(file, targets, layout))
        for value in overwritten:
            _tensor(value).numpy()  # other models may share this tensor: it keeps the old file's content mapped
        write_atomically(path, lambda file: file.write(content), before=lambda: os.replace(temporary, data_path))
    finally:
        temporary.unlink(missing_ok=True)
    for value in overwritten:
        value.const_value = references.get(value, value.const_value)


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs_in(model.graph):
        yield from (value for value in graph.initializers.values() if value.const_value is not None)


def _tensor(value: ir.Value) -> ir.TensorProtocol:
    assert value.const_value is not None
    return value.const_value


def _goes_out(value: ir.Value) -> bool:
    tensor = _tensor(value)
    return tensor.dtype != ir.DataType.STRING and tensor.nbytes >= _SMALL


def _reads_from(value: ir.Value, path: Path) -> bool:
    tensor = value.const_value
    return isinstance(tensor, ir.ExternalTensor) and Path(tensor.path).resolve() == path.resolve()


def _tensor_bytes(model: ir.Model) -> int:
    """The size of all tensors in the model, at least."""
    total = sum(_tensor(value).nbytes for value in _initializers(model) if _goes_out(value))
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in graph.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    tensor = attribute.as_tensor()
                    total += 0 if tensor.dtype == ir.DataType.STRING else tensor.nbytes
    return total


def _layout(values: list[ir.Value]) -> list[int]:
    """Offsets of the tensors in the data file."""
    offsets, end = [], 0
    for value in values:
        size = _tensor(value).nbytes
        if size >= _ALIGNMENT:
            end = -(-end // _ALIGNMENT) * _ALIGNMENT
        offsets.append(end)
        end += size
    return offsets


def _write_tensors(file: BinaryIO, values: list[ir.Value], offsets: list[int]) -> None:
    position = 0
    for value, offset in zip(values, offsets, strict=True):
        file.write(b"\0" * (offset - position))
        tensor = _tensor(value)
        if isinstance(tensor, ir.ExternalTensor):
            tensor.tofile(file)
        else:
            file.write(tensor.tobytes())
        position = offset + tensor.nbytes


@contextmanager
def _embedded(model: ir.Model, except_for: set[ir.Value] | None = None) -> Iterator[None]:
    """For a while, tensors of external files are tensors in memory, so that a proto takes their content."""
    loaded: dict[ir.Value, ir.TensorProtocol] = {}
    for value in _initializers(model):
        tensor = _tensor(value)
        if isinstance(tensor, ir.ExternalTensor) and value not in (except_for or ()):
            loaded[value] = _in_memory(tensor)
    attributes: list[tuple[ir.Node, ir.Attr]] = []
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in graph.all_nodes():
            for attribute in node.attributes.values():
                if isinstance(attribute.value, ir.ExternalTensor):
                    attributes.append((node, attribute))
    for node, attribute in attributes:
        node.attributes[attribute.name] = ir.AttrTensor(attribute.name, _in_memory(attribute.as_tensor()))
    try:
        with _replaced(loaded):
            yield
    finally:
        for node, attribute in attributes:
            node.attributes[attribute.name] = attribute


def _in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name, doc_string=tensor.doc_string)


@contextmanager
def _replaced(tensors: Mapping[ir.Value, ir.TensorProtocol]) -> Iterator[None]:
    """For a while, the values have these tensors."""
    before = [(value, value.const_value) for value in tensors]
    for value, tensor in tensors.items():
        value.const_value = tensor
    try:
        yield
    finally:
        for value, old in before:
            value.const_value = old


def _sync_folder(folder: Path) -> None:
    """Make the new name permanent, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
