"""Common subexpressions: of several nodes that compute the same, one stays."""

import struct
from collections.abc import Mapping

import onnx_ir as ir

from onnxgrad.engine.ir.functions import Functions
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.passes.edit import needs_identity, remove, replace_value
from onnxgrad.engine.passes.match import default_attributes
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.passes.scope import Scope

_Key = tuple[object, ...]
_Seen = Mapping[_Key, tuple[ir.Node, ...]]
_SMALL = 1024  # bytes of a tensor in an attribute that are compared
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def merge_equal_nodes(scope: Scope) -> int:
    """Merge nodes of equal operator, inputs and attributes (defaults count as given), also with those of outer graphs.

    Random nodes, nodes in training mode and nodes with bodies are never merged.
    """
    return sum(_Merge(scope, root).run(root, {}) for root in list(scope.roots()) if scope.opset(root))


class _Merge:
    def __init__(self, scope: Scope, root: ir.Graph) -> None:
        self._scope, self._opset = scope, scope.opset(root)
        self._functions: Functions = scope.functions

    def run(self, graph: ir.Graph, outer: _Seen) -> int:
        """Merge in a graph and below; `outer` holds what the graphs around it have computed, by key."""
        seen = dict(outer)
        count = 0
        for node in list(graph):
            if any(attribute.type in _GRAPHS for attribute in node.attributes.values()):
                for body in bodies(node):
                    count += self.run(body, seen)
                continue
            key = self._key(node) if is_pure(node, self._functions) else None
            alike = () if key is None else seen.get(key, ())
            if any(self._replace(node, known) for known in alike):
                count += 1
            elif key is not None:
                seen[key] = (*alike, node)
        return count

    def _key(self, node: ir.Node) -> _Key | None:
        """Operator, inputs, and the attributes that are not their defaults; None where these are not compared."""
        defaults = default_attributes(node.domain, node.op_type, self._opset)
        given: list[tuple[str, str, object]] = []
        for name, attribute in sorted(node.attributes.items()):
            if attribute.is_ref():
                given.append((name, "ref", attribute.ref_attr_name))
                continue
            value = _hashable(attribute.value)
            if value is None:
                return None
            if name not in defaults or value != _hashable(defaults[name]):
                given.append((name, "", value))
        return (node.op_identifier(), *node.inputs, *given)

    def _replace(self, node: ir.Node, known: ir.Node) -> bool:
        wanted = [output for output in node.outputs if output.uses() or output.is_graph_output()]
        if any(output.index() >= len(known.outputs) for output in wanted):  # type: ignore[operator]
            return False
        pairs = [(output, known.outputs[output.index()]) for output in wanted]  # type: ignore[index]
        if any(old.type != new.type or not new.name for old, new in pairs):
            return False
        if node.op_type == "Identity" and any(needs_identity(old, new) for old, new in pairs):
            return False
        for old, new in pairs:
            replace_value(self._scope, old, new, fresh=False)
        remove(node)
        return True


def _hashable(value: object) -> object:
    """What is equal where two attributes are the same to the bit; None for what is not compared."""
    if isinstance(value, float):
        return "f", struct.pack("<f", value) if abs(value) < 3e38 else repr(value)
    if isinstance(value, (int, str, bytes)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, ir.TensorProtocol) and value.dtype != ir.DataType.STRING and value.nbytes <= _SMALL:
        return value.dtype, tuple(value.shape.numpy()), value.tobytes()
    return None
