"""Dimension names of any spelling become symbols that expressions can be made of.

A symbol is an ASCII identifier. Products and sums of the model's own symbols ('past + 1') stay as they are. Spellings
of 'unknown' ('?', '-1', '', ...) become a symbol of their own at each place, since they say nothing about equality.
"""

import re
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from onnxgrad.importers.protos import all_graphs, all_nodes, bodies

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPRESSION = re.compile(r"[A-Za-z0-9_+\-*/%(), ]+\Z")
_UNKNOWN = {"", "?", "*", "-1", "None", "none", "unk", "unknown", "Unknown", "dynamic", "?x"}
_FUNCTIONS = {"max", "Max", "min", "Min", "floor", "sqrt", "mod", "Mod"}


def name_dimensions(proto: onnx.ModelProto) -> dict[str, str]:
    """Rewrite all dimension names in place. Returns symbol -> original spelling, for symbols that differ.

    The spelling '' stands for a dimension that had neither a value nor a name.
    """
    outer = [dim for value in (*proto.graph.input, *proto.graph.output) for dim in _dims(value.type)]
    inner = [dim for type_proto in _all_types(proto) for dim in _dims(type_proto)]
    dims = [*((dim, True) for dim in outer), *((dim, False) for dim in inner)]
    spellings = {dim.dim_param for dim, _ in dims}
    symbols = {spelling for spelling in spellings if _SYMBOL.match(spelling) and spelling not in _UNKNOWN}
    legal = symbols | {spelling for spelling in spellings if _is_expression(spelling, symbols)}
    naming = _Naming(set(symbols))
    for dim, is_interface in dims:
        spelling = _spelling(dim)
        if spelling is None or spelling in legal:
            continue
        if spelling not in _UNKNOWN and not spelling.startswith("-"):
            dim.dim_param = naming.symbol_of(spelling)
        elif is_interface:
            dim.dim_param = naming.fresh("unknown", spelling)
        else:
            dim.ClearField("value")  # an annotation inside: inference will find a better one
    return naming.originals


def _spelling(dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """The name of a dimension, '' if there is none; None for a size."""
    if dim.HasField("dim_value"):
        return str(dim.dim_value) if dim.dim_value < 0 else None
    return dim.dim_param


class _Naming:
    """Symbols given so far, and what they stand for."""

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._symbols: dict[str, str] = {}
        self.originals: dict[str, str] = {}

    def symbol_of(self, spelling: str) -> str:
        """The one symbol for a spelling."""
        if spelling not in self._symbols:
            word = re.sub(r"[^A-Za-z0-9_]+", "_", spelling).strip("_") or "dim"
            wanted = word if _SYMBOL.match(word) else f"dim_{word}"
            self._symbols[spelling] = self.fresh(wanted, spelling)
        return self._symbols[spelling]

    def fresh(self, wanted: str, spelling: str) -> str:
        """A symbol that nothing else has."""
        symbol, number = wanted, 0
        while symbol in self._used or symbol in _UNKNOWN:
            number += 1
            symbol = f"{wanted}_{number}"
        self._used.add(symbol)
        self.originals[symbol] = spelling
        return symbol


def _is_expression(spelling: str, symbols: set[str]) -> bool:
    """Whether a spelling is arithmetic on symbols that the model itself uses as dimensions."""
    if not _EXPRESSION.match(spelling) or spelling in _UNKNOWN:
        return False
    words = set(_WORD.findall(spelling)) - _FUNCTIONS
    if not words or not words <= symbols:
        return False
    try:
        ir.SymbolicDim(spelling) + 0
    except ValueError:  # the words are known, but they form no expression
        return False
    return True


def _all_types(proto: onnx.ModelProto) -> Iterator[onnx.TypeProto]:
    """All types in the model but those of its own inputs and outputs."""
    functions = [node for function in proto.functions for node in function.node]
    for index, graph in enumerate((*all_graphs(proto.graph), *bodies(functions))):
        values = (*graph.value_info, *(() if index == 0 else (*graph.input, *graph.output)))
        yield from (value.type for value in values)
    for function in proto.functions:
        yield from (value.type for value in function.value_info)
    for node in all_nodes((*proto.graph.node, *functions)):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TYPE_PROTO:
                yield attribute.tp
            yield from attribute.type_protos


def _dims(type_proto: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The dimensions of a tensor, or of the tensors in a sequence or optional."""
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        yield from type_proto.tensor_type.shape.dim
    elif kind == "sparse_tensor_type":
        yield from type_proto.sparse_tensor_type.shape.dim
    elif kind == "sequence_type":
        yield from _dims(type_proto.sequence_type.elem_type)
    elif kind == "optional_type":
        yield from _dims(type_proto.optional_type.elem_type)
    elif kind == "map_type":
        yield from _dims(type_proto.map_type.value_type)
