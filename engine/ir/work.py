"""How many multiply-accumulate operations a model takes."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes


@dataclass
class Work:
    """Multiply-accumulates, and what had to be assumed to count them."""

    macs: int = 0
    assumed: set[str] = field(default_factory=set)
    """Names of dimensions that were taken to be 1."""
    uncounted: set[str] = field(default_factory=set)
    """Operators that do such work, on shapes that are not known."""
    has_loops: bool = False
    """Bodies of loops are counted once."""
    peak_bytes: int = 0
    """The most that values of the main graph take at one time, each kept until its last reader has run."""


def count_work(model: ir.Model) -> Work:
    """Count the work of convolutions, matrix products and recurrent layers. The model stays as it is."""
    copy = clone(model)
    if copy.functions:
        copy = InlinePass()(copy).model
    infer_shapes(copy)
    work = _count(copy.graph)
    work.peak_bytes = _peak_bytes(copy.graph)
    return work


def node_macs(node: ir.Node) -> int | None:
    """The multiply-accumulates of one node, with 1 for sizes that are not known; 0 for an operator that does none.

    None where a shape is missing. Bodies are not counted.
    """
    work = Work()
    if node.op_type in _COUNTERS:
        _add_node(work, node)
    return None if work.uncounted else work.macs


def _peak_bytes(graph: ir.Graph) -> int:
    """What is computed and the inputs, without constants; values of unknown shape count nothing."""
    last: dict[ir.Value, int] = {}
    nodes = list(graph)
    for position, node in enumerate(nodes):
        inner = (value for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH for value in _read_in(a))
        for value in (*node.inputs, *inner):
            if value is not None:
                last[value] = position
    freed: list[list[ir.Value]] = [[] for _ in nodes]
    for value, position in last.items():
        if not value.is_graph_output():
            freed[position].append(value)
    live = {value: value_bytes(value) for value in graph.inputs if not value.is_initializer()}
    total = peak = sum(live.values())
    for node, gone in zip(nodes, freed, strict=True):
        for output in node.outputs if node.op_type != "Constant" else ():
            live[output] = value_bytes(output)
            total += live[output]
        peak = max(peak, total)
        total -= sum(live.pop(value, 0) for value in (*gone, *(v for v in node.outputs if v not in last)))
    return peak


def _read_in(attribute: ir.Attr) -> Iterable[ir.Value | None]:
    return [value for node in attribute.as_graph().all_nodes() for value in node.inputs]


def value_bytes(value: ir.Value) -> int:
    """The size of a value, with 1 for sizes that are not known; 0 without a type, a rank, or for strings."""
    try:
        sizes, _ = _sizes(value)
    except ValueError:
        return 0
    if value.dtype is None or value.dtype == ir.DataType.STRING:
        return 0
    return math.ceil(math.prod(sizes) * value.dtype.bitwidth / 8)


def _count(nodes: Iterable[ir.Node]) -> Work:
    work = Work()
    for node in nodes:
        if node.op_type in _COUNTERS:
            _add_node(work, node)
        bodies = [_count(a.as_graph()) for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        for body in bodies:
            work.assumed |= body.assumed
            work.uncounted |= body.uncounted
            work.has_loops |= body.has_loops or (node.op_type != "If" and body.macs > 0)
        work.macs += max((body.macs for body in bodies), default=0)  # one branch runs
    return work


def _add_node(work: Work, node: ir.Node) -> None:
    try:
        macs, assumed = _COUNTERS[node.op_type](node)
    except (LookupError, AttributeError, TypeError, ValueError):  # an operand or a shape that is not there
        work.uncounted.add(node.op_type)
        return
    work.macs += macs
    work.assumed |= assumed


_Counted = tuple[int, set[str]]


def _sizes(value: ir.Value | None) -> tuple[list[int], set[str]]:
    """The sizes of a value with symbols taken to be 1, and these symbols. Raises ValueError without a shape."""
    if value is None or value.shape is None:
        raise ValueError("no shape")
    sizes, symbols = [], set[str]()
    for dim in value.shape.dims:
        if isinstance(dim, int):
            sizes.append(dim)
            continue
        free = dim.free_symbols()
        symbols |= free
        size = dim.evaluate(dict.fromkeys(free, 1))
        if not isinstance(size, int):
            raise ValueError("a dimension without a name")
        sizes.append(max(size, 0))
    return sizes, symbols


def _convolution(weight: int) -> Callable[[ir.Node], _Counted]:
    def count(node: ir.Node) -> _Counted:
        """Each output element sums over the channels of its group and the window."""
        (y, free), (w, _) = _sizes(node.outputs[0]), _sizes(node.inputs[weight])
        return math.prod(y) * math.prod(w[1:]), free

    return count


def _transposed_convolution(node: ir.Node) -> _Counted:
    """Each input element is added to a window in the output channels of its group."""
    (x, free), (w, _) = _sizes(node.inputs[0]), _sizes(node.inputs[1])
    return math.prod(x) * math.prod(w[1:]), free


def _matrix_product(node: ir.Node) -> _Counted:
    (a, symbols), (y, free) = _sizes(node.inputs[0]), _sizes(node.outputs[0])
    inner = a[-2] if node.attributes.get_int("transA", 0) and len(a) > 1 else a[-1]
    return math.prod(y) * inner, symbols | free


def _packed_product(node: ir.Node) -> _Counted:
    y, free = _sizes(node.outputs[0])
    return math.prod(y) * node.attributes["K"].as_int(), free


def _recurrent(gates: int) -> Callable[[ir.Node], _Counted]:
    def count(node: ir.Node) -> _Counted:
        """A product with the input and one with the state, for each gate, step, direction and sample."""
        x, free = _sizes(node.inputs[0])
        hidden = node.attributes["hidden_size"].as_int()
        directions = 2 if node.attributes.get_string("direction", "forward") == "bidirectional" else 1
        return x[0] * x[1] * directions * gates * hidden * (x[2] + hidden), free

    return count


def _einsum(node: ir.Node) -> _Counted:
    """One multiplication for each combination of the labels."""
    terms = node.attributes["equation"].as_string().replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    symbols: set[str] = set()
    for term, value in zip(terms, node.inputs, strict=True):
        dims, free = _sizes(value)
        sizes.update(zip(term, dims, strict=True))
        symbols |= free
    return (math.prod(sizes.values()) if len(terms) > 1 else 0), symbols


_COUNTERS: dict[str, Callable[[ir.Node], _Counted]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv"), _convolution(1)),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "FusedGemm"), _matrix_product),
    **dict.fromkeys(("FusedMatMul", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"), _matrix_product),
    "MatMulNBits": _packed_product,
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), _recurrent(4)),
    "Einsum": _einsum,
}
