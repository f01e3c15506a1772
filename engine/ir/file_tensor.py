"""Tensors whose data is in a file: read when they are used, and never in memory as a whole where they are copied."""

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnxgrad.engine.ir.names import graphs_in

_PIECE = 1 << 24
"""Bytes that are in memory at once while a tensor is copied; a multiple of the page size."""

_mappings: WeakValueDictionary[tuple[object, ...], mmap.mmap] = WeakValueDictionary()


class Sink(Protocol):
    """Something that takes bytes: a file, a checksum."""

    def write(self, piece: bytes | memoryview, /) -> object:
        """Take the next bytes."""


class FileTensor(ir.ExternalTensor):
    """An external tensor. Those of one file share one mapping: onnx_ir's own hold an open file each, and a process may
    open about a thousand."""

    _content: npt.NDArray[np.generic] | None = None

    def numpy(self) -> npt.NDArray[np.generic]:
        """The tensor, mapped: pages of the file come into memory when they are touched."""
        if self._content is None:
            self._map()
            self._content = self._read()
        return self._content

    def __array__(self, dtype: "np.dtype[np.generic] | None" = None) -> npt.NDArray[np.generic]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def tobytes(self) -> bytes:
        """A copy of the bytes."""
        self._map()
        return super().tobytes() if self.size else b""

    def tofile(self, file: "Sink | BinaryIO") -> None:
        """Write the bytes piece by piece."""
        if self.raw is None:
            super().tofile(file)
            return
        start, end = self.offset or 0, (self.offset or 0) + self.nbytes
        with memoryview(self.raw) as view:
            for position in range(start, end, _PIECE):
                file.write(view[position : min(position + _PIECE, end)])
                self._forget(position, min(position + _PIECE, end))

    def _map(self) -> None:
        if self.raw is not None or self.size == 0:
            return
        self._check_path_containment()
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            key = (self.path, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            mapping = _mappings.get(key)
            if mapping is None:
                mapping = _mappings[key] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.raw = mapping

    def _read(self) -> npt.NDArray[np.generic]:
        shape, dtype = self.shape.numpy(), self.dtype.numpy()
        if self.size == 0 or self.raw is None:
            return np.empty(shape, dtype)
        if self.dtype.bitwidth < 8:  # several numbers in a byte
            proto = onnx.TensorProto(data_type=self.dtype, dims=shape, raw_data=self.tobytes())
            return ir.serde.deserialize_tensor(proto).numpy()
        stored = np.frombuffer(self.raw, dtype.newbyteorder("<"), self.size, self.offset or 0)
        return stored.reshape(shape)

    def _forget(self, start: int, end: int) -> None:
        """These pages need not stay in memory: they are in the file."""
        if self.raw is not None and hasattr(mmap, "MADV_DONTNEED"):
            first = start // mmap.PAGESIZE * mmap.PAGESIZE
            self.raw.madvise(mmap.MADV_DONTNEED, first, end - first)


class _Enough(Exception):
    """The first bytes are there."""


class _Start:
    """Takes the first bytes of a tensor."""

    def __init__(self, size: int) -> None:
        self.size, self.content = size, b""

    def write(self, piece: bytes | memoryview) -> None:
        """Take bytes until there are enough."""
        self.content += bytes(piece[: self.size - len(self.content)])
        if len(self.content) == self.size:
            raise _Enough


def first_bytes(tensor: ir.TensorProtocol, size: int) -> bytes:
    """The first bytes of a tensor, or all where there are fewer; a file is not read any further."""
    if not isinstance(tensor, ir.ExternalTensor):
        packed = tensor.dtype.bitwidth < 8 or tensor.nbytes <= size
        return tensor.tobytes()[:size] if packed else _first_of(tensor.numpy(), size)
    start = _Start(min(size, tensor.nbytes))
    with suppress(_Enough):
        tensor.tofile(start)
    return start.content


def _first_of(array: npt.NDArray[np.generic], size: int) -> bytes:
    return array.reshape(-1)[: -(-size // array.dtype.itemsize)].tobytes()[:size]


def share_mappings(model: ir.Model) -> None:
    """Make FileTensors of all external tensors of a model."""
    for graph in _graphs_of(model):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = _file_tensor(value.const_value)
        for node in graph:
            for name, attribute in list(node.attributes.items()):
                if isinstance(attribute.value, ir.ExternalTensor):
                    node.attributes[name] = ir.AttrTensor(name, _file_tensor(attribute.value), attribute.doc_string)


def _graphs_of(model: ir.Model) -> Iterator[ir.Graph]:
    yield from graphs_in(model.graph)
    for function in model.functions.values():
        yield from graphs_in(function.graph)


def _file_tensor(tensor: ir.ExternalTensor) -> FileTensor:
    return FileTensor(
        tensor.location,
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
        base_dir=tensor.base_dir,
    )
