"""What is in a model, for people and for machines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.names import graphs_in
from onnxgrad.engine.ir.serialize import DIM_NAMES, serialize
from onnxgrad.engine.ir.work import Work, count_work
from onnxgrad.importers.onnx import ModelSource, load


@dataclass(frozen=True)
class ValueInfo:
    """An input or output: dimensions are spelled as in the file, '?' where it says nothing."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.shape is None else list(self.shape)}".replace("'", "")


@dataclass(frozen=True)
class Constants:
    """The constants of one dtype: initializers and Constant nodes."""

    tensors: int = 0
    elements: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Summary:
    """What `summary` found. `str()` gives tables, `to_dict()` what json can write."""

    producer: str
    ir_version: int
    opsets: dict[str, int]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    operators: dict[str, int]
    """Operator -> nodes, most frequent first; with the nodes of sub-graphs and of functions."""
    functions: dict[str, int]
    """Model-local function -> nodes in it."""
    parameters: dict[str, Constants]
    """By dtype, largest first."""
    file_bytes: int
    """The model as files, external data included."""
    macs: int
    """Multiply-accumulates of convolutions, products and recurrent layers, in one run."""
    peak_bytes: int
    """The most that inputs and computed values take at one time, in one run."""
    notes: tuple[str, ...]
    """What was assumed to count them."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(self.operators.values())

    @property
    def parameter_count(self) -> int:
        """Number of elements of all constants of floating-point and of quantized dtypes."""
        return sum(c.elements for dtype, c in self.parameters.items() if dtype not in ("int64", "bool", "string"))

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each multiply-accumulate."""
        return 2 * self.macs

    def to_dict(self) -> dict[str, object]:
        """Plain dicts, lists, strings and numbers."""
        totals = {"nodes": self.nodes, "parameter_count": self.parameter_count, "flops": self.flops}
        return {**asdict(self), **totals}

    def __str__(self) -> str:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        facts = [
            ("producer", self.producer or "unknown"),
            ("opset", f"{opsets} (IR version {self.ir_version})"),
            ("size", _quantity(self.file_bytes, "B")),
            ("parameters", _quantity(self.parameter_count, "")),
            ("MACs", _quantity(self.macs, "")),
            ("memory", f"{_quantity(self.peak_bytes, 'B')} for values, at most"),
        ]
        facts += [("", note) for note in self.notes]
        facts += [("input", str(value)) for value in self.inputs] + [("output", str(value)) for value in self.outputs]
        dtypes = [
            (dtype, str(constants.tensors), str(constants.elements), _quantity(constants.bytes, "B"))
            for dtype, constants in self.parameters.items()
        ]
        operators = [(name, str(count)) for name, count in self.operators.items()]
        parts = [
            _table((), facts),
            _table(("constants", "tensors", "elements", "size"), dtypes),
            _table(("operator", "nodes"), [*operators, ("total", str(self.nodes))]),
        ]
        if self.functions:
            parts.append(_table(("function", "nodes"), [(name, str(count)) for name, count in self.functions.items()]))
        return "\n\n".join(parts)


def summary(source: ModelSource) -> Summary:
    """Count the operators, parameters, bytes and multiply-accumulates of a model.

    Dimensions with a name are taken to be 1 where work is counted; the notes say which.
    """
    model = load(source)
    copy = clone(model)
    proto = serialize(copy)
    nodes = [node for graph in _graphs(copy) for node in graph]
    spellings: dict[str, str] = model.graph.meta.get(DIM_NAMES, {})
    operators = Counter(_operator(node) for node in nodes)
    work = count_work(model)
    return Summary(
        producer=f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
        ir_version=model.ir_version,
        opsets=dict(copy.graph.opset_imports),
        inputs=tuple(_value_info(v, spellings) for v in model.graph.inputs if v.const_value is None),
        outputs=tuple(_value_info(v, spellings) for v in model.graph.outputs),
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        functions={f"{f.domain}::{f.name}": len(list(f.all_nodes())) for f in copy.functions.values()},
        parameters=_count_constants(copy),
        file_bytes=proto.ByteSize() + sum(t.nbytes for t in _constants(copy) if isinstance(t, ir.ExternalTensor)),
        macs=work.macs,
        peak_bytes=work.peak_bytes,
        notes=tuple(_notes(model, work)),
    )


def _notes(model: ir.Model, work: Work) -> Iterator[str]:
    spellings: dict[str, str] = model.graph.meta.get(DIM_NAMES, {})
    dims = {dim.value for v in model.graph.inputs if v.shape for dim in v.shape if isinstance(dim, ir.SymbolicDim)}
    named = sorted({_spell(name, spellings) for name in work.assumed & dims})
    if named:
        yield f"with {', '.join(named)} = 1"
    if work.assumed - dims:
        yield "with 1 for each size that depends on data"
    if work.has_loops:
        yield "with one round of each loop"
    if work.uncounted:
        yield f"without {', '.join(sorted(work.uncounted))} of unknown shape"


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    yield from graphs_in(model.graph)
    for function in model.functions.values():
        yield from graphs_in(function.graph)


def _operator(node: ir.Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _constants(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in _graphs(model):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
        for node in graph:
            for output in node.outputs if node.op_type == "Constant" and node.domain == "" else ():
                tensor = ir.convenience.get_const_tensor(output)
                if tensor is not None:
                    yield tensor


def _count_constants(model: ir.Model) -> dict[str, Constants]:
    found: dict[str, Constants] = {}
    for tensor in _constants(model):
        dtype = tensor.dtype.name.lower()
        before = found.get(dtype, Constants())
        size = sum(map(len, tensor.numpy().ravel())) if tensor.dtype == ir.DataType.STRING else tensor.nbytes
        found[dtype] = Constants(before.tensors + 1, before.elements + tensor.size, before.bytes + size)
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _value_info(value: ir.Value, spellings: dict[str, str]) -> ValueInfo:
    type_ = "?" if value.type is None else _type_name(value.type)
    if value.shape is None:
        return ValueInfo(value.name or "", type_, None)
    shape = [dim if isinstance(dim, int) else _spell(dim.value, spellings) for dim in value.shape.dims]
    return ValueInfo(value.name or "", type_, tuple(shape))


def _type_name(type_: ir.TypeProtocol) -> str:
    """'float', 'sequence(float)', 'optional(sequence(int64))'."""
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        kind = "sequence" if isinstance(type_, ir.SequenceType) else "optional"
        return f"{kind}({_type_name(type_.elem_type)})"
    return type_.dtype.name.lower()


def _spell(symbol: str | None, spellings: dict[str, str]) -> str:
    return spellings.get(symbol or "", symbol or "") or "?"


def _quantity(number: int, unit: str) -> str:
    """1234567 -> '1.23 M'; 0 to 999 as they are."""
    if number < 1000:
        return f"{number} {unit}".strip()
    power = min(len(f"{float(f'{number:.3g}'):.0f}") - 1, 12) // 3
    return f"{number / 1000**power:.3g} {' kMGT'[power]}{unit}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be. Under a head, all but the first are numbers, and aligned at the right."""
    every = [tuple(head), *rows] if head else list(rows)
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
    lines = []
    for row in every:
        cells = [
            cell.rjust(width) if head and column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    if head:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
