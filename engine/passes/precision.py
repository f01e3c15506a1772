"""Models in float16 or bfloat16: all of them, or only the weights that they store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from onnxgrad.engine.errors import OpsetError, OptionError
from onnxgrad.engine.ir.names import bodies
from onnxgrad.engine.passes.purity import RANDOM
from onnxgrad.engine.passes.scope import Scope

STAYS_FLOAT32 = frozenset(
    {
        *("NonMaxSuppression", "RoiAlign", "CumSum", "Range"),  # positions, and sums of many
        *("ReduceSumSquare", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd"),  # overflow
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"),  # have a dtype of their own
        *RANDOM,
    }
)
"""Operators that lose too much, or whose dtype says what they are. Their operands are cast."""

_TYPES = {ir.DataType.FLOAT16: "tensor(float16)", ir.DataType.BFLOAT16: "tensor(bfloat16)"}
_SINCE = {ir.DataType.FLOAT16: 6, ir.DataType.BFLOAT16: 13}  # opsets whose Cast knows the dtype
_STORED = 512  # elements: smaller weights stay as they are, the Cast costs more than they do
_FLOAT32 = ir.TensorType(ir.DataType.FLOAT)
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
_SET_OUTPUT = frozenset({"Cast", "Constant", "ConstantOfShape", "EyeLike"})  # an attribute says what they give


@dataclass(frozen=True)
class Precision:
    """How float32 is lowered.

    weights_only: stored in `dtype`, computed in float32.  inputs_outputs: those of the model change their dtype too.
    float32: operators that stay.
    """

    dtype: ir.DataType = ir.DataType.FLOAT16
    weights_only: bool = False
    inputs_outputs: bool = False
    float32: frozenset[str] = field(default=STAYS_FLOAT32)


def lower_precision(scope: Scope, precision: Precision) -> int:
    """Change float32 to a shorter dtype; returns how many weights and nodes changed. Types must be inferred.

    Names stay. Finite numbers stay finite, and what is not 0 does not become 0. Operators that do not take the dtype,
    those of other domains and calls of functions stay in float32, and so does what is computed from shapes.

    Raises: OptionError for another dtype; OpsetError where the model's opset has no Cast to it.
    """
    if precision.dtype not in _TYPES:
        raise OptionError(f"Models are not lowered to {precision.dtype.name.lower()}.", fix="FLOAT16 or BFLOAT16")
    opset = scope.opset(scope.model.graph)
    if opset < _SINCE[precision.dtype]:
        fix = f"raise the opset to {_SINCE[precision.dtype]}"
        raise OpsetError(f"opset {opset} has no Cast to {precision.dtype.name.lower()}", fix=fix)
    if precision.weights_only:
        return sum(_store_weights(scope, graph, precision.dtype) for graph in list(scope.graphs()))
    return _Lowering(scope, precision).run()


def narrowed(tensor: ir.TensorProtocol, dtype: ir.DataType) -> ir.TensorProtocol:
    """A tensor in a shorter dtype: what is finite stays finite, what is not 0 does not become 0."""
    array = tensor.numpy().astype(np.float32)
    limits = ml_dtypes.finfo(dtype.numpy())  # type: ignore[no-untyped-call]
    largest, smallest = float(limits.max), float(limits.smallest_subnormal)
    clipped = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    result = clipped.astype(dtype.numpy())
    vanished = (result == 0) & (array != 0)
    if vanished.any():
        result = np.where(vanished, np.copysign(smallest, array).astype(dtype.numpy()), result)
    return ir.Tensor(np.ascontiguousarray(result).reshape(array.shape), dtype=dtype, name=tensor.name)


def _is_float32(value: ir.Value | None) -> bool:
    return value is not None and value.type == _FLOAT32


def _constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """The content of an initializer that no input overrides, or of a Constant."""
    node = value.producer()
    if node is None:
        return None if value.is_graph_input() else value.const_value
    if node.op_type != "Constant" or node.domain != "" or any(a.is_ref() for a in node.attributes.values()):
        return None
    return ir.convenience.get_const_tensor(value)


def _own_constants(graph: ir.Graph) -> list[ir.Value]:
    """Float32 initializers and Constants of a graph."""
    nodes = [node.outputs[0] for node in graph if node.op_type == "Constant" and node.domain == ""]
    found = [*graph.initializers.values(), *nodes]
    return [value for value in found if (t := _constant_tensor(value)) is not None and t.dtype == ir.DataType.FLOAT]


def _set_constant(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    node = value.producer()
    if node is not None:
        node.attributes.clear()
        node.attributes.add(ir.AttrTensor("value", tensor))
    if value.const_value is not None or node is None:
        value.const_value = tensor
    value.type = ir.TensorType(tensor.dtype)


def _store_weights(scope: Scope, graph: ir.Graph, dtype: ir.DataType) -> int:
    """Weights of one graph in the shorter dtype, each with a Cast in front of those who read it."""
    count = 0
    following = _following(graph)
    for value in _own_constants(graph):
        tensor, node = _constant_tensor(value), value.producer()
        if tensor is None or tensor.size < _STORED or value.is_graph_output() or not value.uses():
            continue
        _set_constant(value, narrowed(tensor, dtype))
        uses = list(value.uses())
        wide = scope.builder(graph, before=following[node]).Cast(value, to=int(ir.DataType.FLOAT))
        for user, index in uses:
            user.replace_input_with(index, wide)
        count += 1
    return count


def _following(graph: ir.Graph) -> dict[ir.Node | None, ir.Node | None]:
    """node -> the next one; None -> the first."""
    nodes: list[ir.Node | None] = [None, *graph]
    return dict(zip(nodes, [*nodes[1:], None], strict=True))


@dataclass
class _Slots:
    """The dtype of each float32 input and output of a node from now on; None for those that are something else."""

    inputs: list[ir.DataType | None]
    outputs: list[ir.DataType | None]


class _Lowering:
    """The main graph and the bodies in it."""

    def __init__(self, scope: Scope, precision: Precision) -> None:
        self._scope, self._low = scope, precision.dtype
        self._precision = precision
        main = scope.model.graph
        self._graphs = [main, *main.subgraphs()]
        self._following = {node: after for graph in self._graphs for node, after in _following(graph).items() if node}
        self._first = {graph: _following(graph)[None] for graph in self._graphs}
        self._outside = {main: self._low if precision.inputs_outputs else ir.DataType.FLOAT}
        self._sizes = _from_shapes(self._graphs)
        self._slots: dict[ir.Node, _Slots] = {}
        self._now: dict[ir.Value, ir.DataType] = {}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def run(self) -> int:
        """Decide for every node, change constants and types, then cast where they do not meet."""
        for graph in self._graphs:
            for node in graph:
                self._slots[node] = self._slots_of(node)
        for graph in self._graphs:
            self._settle(graph)
        for value, dtype in self._now.items():
            self._retype(value, dtype)
        for node in list(self._slots):
            self._cast_inputs(node)
        for graph in self._graphs:
            self._cast_outputs(graph)
        return sum(self._low in (*slots.inputs, *slots.outputs) for slots in self._slots.values())

    def _slots_of(self, node: ir.Node) -> _Slots:
        floats = [_is_float32(value) for value in node.inputs], [_is_float32(value) for value in node.outputs]
        if self._stays(node):
            dtypes = [[ir.DataType.FLOAT if is_float else None for is_float in side] for side in floats]
            return _Slots(*dtypes)
        schema = onnx.defs.get_schema(node.op_type, self._opset, "")
        lowered = self._lowered_types(schema, node)
        if node.op_type in _CONTROL_FLOW:
            passed = self._low if "V" in lowered else ir.DataType.FLOAT
            self._outside.update(dict.fromkeys(bodies(node), passed))
            dtypes = [[passed if is_float else None for is_float in side] for side in floats]
            return _Slots(*dtypes)
        given = _type_names(schema.inputs, len(node.inputs)), _type_names(schema.outputs, len(node.outputs))
        dtypes = [
            [(self._low if name in lowered else ir.DataType.FLOAT) if is_float else None for name, is_float in pairs]
            for pairs in (zip(names, side, strict=True) for names, side in zip(given, floats, strict=True))
        ]
        return _Slots(*dtypes)

    @property
    def _opset(self) -> int:
        return self._scope.opset(self._scope.model.graph)

    def _stays(self, node: ir.Node) -> bool:
        """Whether a node goes on in float32."""
        if self._is_exact(node):
            return True
        values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.name]
        if any(value.type is None for value in values):
            return True
        if node.op_type in _CONTROL_FLOW:
            return False
        return not onnx.defs.has(node.op_type, self._opset, "") or not all(
            isinstance(value.type, ir.TensorType) for value in values
        )

    def _is_exact(self, node: ir.Node) -> bool:
        """Whether a node is to see its constants as they are."""
        return node.domain != "" or node.op_type in self._precision.float32 or node in self._sizes

    def _lowered_types(self, schema: onnx.defs.OpSchema, node: ir.Node) -> set[str]:
        """The type variables of a node that become the shorter dtype."""
        names = {c.type_param_str for c in schema.type_constraints if _TYPES[self._low] in c.allowed_type_strs}
        taken = set(_type_names(schema.inputs, len(node.inputs)))
        return names if node.op_type in {*_SET_OUTPUT, *_CONTROL_FLOW} else names & taken

    def _settle(self, graph: ir.Graph) -> None:
        """Decide the dtype of the float32 values of one graph."""
        for value in graph.inputs:
            if _is_float32(value):
                self._now[value] = self._outside[graph]
        for node in graph:
            for value, dtype in zip(node.outputs, self._slots[node].outputs, strict=True):
                if dtype is not None:
                    self._now[value] = dtype
        for value in _own_constants(graph):
            self._now[value] = self._low if self._lowers(value) else ir.DataType.FLOAT

    def _lowers(self, value: ir.Value) -> bool:
        """Whether a constant is stored in the shorter dtype: all read it so, or it is large and rounding is allowed."""
        if value.is_graph_output():
            return False
        tensor = _constant_tensor(value)
        is_large = tensor is not None and tensor.size >= _STORED
        return all(
            self._slots[user].inputs[index] == self._low or (is_large and not self._is_exact(user))
            for user, index in value.uses()
        )

    def _retype(self, value: ir.Value, dtype: ir.DataType) -> None:
        if dtype != self._low:
            return
        tensor, node = _constant_tensor(value), value.producer()
        if tensor is not None:
            _set_constant(value, narrowed(tensor, self._low))
            return
        if value.const_value is not None:
            value.const_value = narrowed(value.const_value, self._low)
        value.type = ir.TensorType(self._low)
        if node is None or node.domain != "":
            return
        if node.op_type == "ConstantOfShape":
            filling = node.attributes["value"].as_tensor() if "value" in node.attributes else ir.Tensor(_ZERO)
            node.attributes.add(ir.AttrTensor("value", narrowed(filling, self._low)))
        elif node.op_type == "Cast":
            node.attributes.add(ir.AttrInt64("to", int(self._low)))
        elif node.op_type == "EyeLike":
            node.attributes.add(ir.AttrInt64("dtype", int(self._low)))

    def _cast_inputs(self, node: ir.Node) -> None:
        for index, (value, dtype) in enumerate(zip(node.inputs, self._slots[node].inputs, strict=True)):
            if value is not None and dtype is not None and self._now.get(value, dtype) != dtype:
                node.replace_input_with(index, self._cast(value, dtype))

    def _cast_outputs(self, graph: ir.Graph) -> None:
        is_main = graph is self._graphs[0]
        wanted = self._outside[graph]
        for index, value in enumerate(list(graph.outputs)):
            if value not in self._now or self._now[value] == wanted:
                continue
            cast = self._cast(value, wanted)
            graph.outputs[index] = cast
            if is_main:
                value.name, cast.name = cast.name, value.name

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """The value in another dtype: one Cast behind the node that makes it, or at the start of its graph."""
        if (value, dtype) not in self._casts:
            node, graph = value.producer(), value.graph
            assert isinstance(graph, ir.Graph)
            before = self._first[graph] if node is None else self._following[node]
            self._casts[value, dtype] = self._scope.builder(graph, before=before).Cast(value, to=int(dtype))
        return self._casts[value, dtype]


_ZERO = np.zeros(1, np.float32)


def _type_names(parameters: Sequence[onnx.defs.OpSchema.FormalParameter], count: int) -> list[str]:
    """The type, or type variable, of each of so many operands; the last parameter may stand for several."""
    return [parameters[min(index, len(parameters) - 1)].type_str for index in range(count)]


def _from_shapes(graphs: Iterable[ir.Graph]) -> set[ir.Node]:
    """Nodes that compute with sizes: lists of numbers, all of which come from shapes and constants."""
    values: set[ir.Value] = set()
    found: set[ir.Node] = set()
    for graph in graphs:
        for node in graph:
            read = [value for value in node.inputs if value is not None]
            varying = [value for value in read if _constant_tensor(value) is None]
            is_size = node.op_type in ("Shape", "Size") and node.domain == ""
            computes = varying and all(value in values for value in varying) and not any(bodies(node))
            if is_size or (computes and all(_is_list(output) for output in node.outputs)):
                found.add(node)
                values.update(node.outputs)
    return found


def _is_list(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) <= 1


PRECISIONS = {
    "f16_io_f32_comp": Precision(ir.DataType.FLOAT16, weights_only=True),
    "f16_io_comp": Precision(ir.DataType.FLOAT16),
    "bfloat16": Precision(ir.DataType.BFLOAT16),
}
"""The values of the option `precision`."""


def known_precision(name: str) -> Precision:
    """The precision of this name. Raises: OptionError."""
    if name not in PRECISIONS:
        raise OptionError(f"There is no precision {name!r}.", fix=f"one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
