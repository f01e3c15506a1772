"""Initializers of equal content become one."""

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.file_tensor import first_bytes
from onnxgrad.engine.passes.edit import replace_value
from onnxgrad.engine.passes.scope import Scope

_Key = tuple[ir.DataType, tuple[int, ...]]
_GLANCE = 256  # bytes


def merge_initializers(scope: Scope) -> int:
    """Keep one of several initializers with the same dtype, shape and bytes: -0.0 is not 0.0, inputs stay apart."""
    main = scope.model.graph
    count = _merge(scope, list(main.initializers.values()))
    for graph in main.subgraphs():
        count += _merge(scope, list(graph.initializers.values()))
    return count


def _merge(scope: Scope, values: list[ir.Value]) -> int:
    groups: defaultdict[_Key, list[tuple[ir.Value, ir.TensorProtocol]]] = defaultdict(list)
    for value in values:
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or value.is_graph_output() or tensor.dtype == ir.DataType.STRING:
            continue
        groups[tensor.dtype, tuple(tensor.shape.numpy())].append((value, tensor))
    count = 0
    for group in groups.values():
        for same in _equal_content(group):
            for value in same[1:]:
                if value.uses():
                    replace_value(scope, value, same[0], fresh=False)
                    count += 1
    return count


def _equal_content(group: list[tuple[ir.Value, ir.TensorProtocol]]) -> list[list[ir.Value]]:
    """The values of equal bytes together; whole tensors are read only where their first elements agree."""
    if len(group) == 1:
        return []
    alike: defaultdict[bytes, list[tuple[ir.Value, ir.TensorProtocol]]] = defaultdict(list)
    for value, tensor in group:
        alike[first_bytes(tensor, _GLANCE)].append((value, tensor))
    equal: defaultdict[bytes, list[ir.Value]] = defaultdict(list)
    for start, candidates in alike.items():
        for value, tensor in candidates if len(candidates) > 1 else ():
            rest = _digest(tensor) if tensor.nbytes > _GLANCE else b""
            equal[start + rest].append(value)
    return list(equal.values())


def _digest(tensor: ir.TensorProtocol) -> bytes:
    if not isinstance(tensor, ir.ExternalTensor):
        return hashlib.blake2b(tensor.tobytes(), digest_size=32).digest()
    sink = _Digest(hashlib.blake2b(digest_size=32))
    tensor.tofile(sink)
    return sink.hash.digest()


@dataclass(frozen=True)
class _Digest:
    """Takes the bytes of a file piece by piece."""

    hash: hashlib.blake2b

    def write(self, piece: bytes | memoryview) -> None:
        """Add the next bytes."""
        self.hash.update(piece)
