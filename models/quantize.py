"""int8 models: prepared by our own passes, quantized by onnxruntime's package, and measured against the original."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.engine.optimize import optimize_for_inference
from onnxgrad.engine.runtime.quantize import prepared_marks, quantize_dynamically, quantize_statically
from onnxgrad.exporters.onnx import save
from onnxgrad.importers.onnx import ModelSource, load

Array = npt.NDArray[np.generic]
Feeds = Mapping[str, Array]

_OPSET = 13
"""DequantizeLinear with a scale per channel begins here."""
_MARKS = ("DequantizeLinear", "DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization")
"""One of these, or an integer product, is in every quantized model."""


@dataclass(frozen=True)
class OutputError:
    """How an output of the int8 model differs from the original, over all data.

    relative: RMS of the difference / RMS of the original.  cosine: of both as one vector.  same: equal largest entries
    along the last axis, as a share of all rows; None for outputs of one column.
    """

    output: str
    largest: float
    relative: float
    cosine: float
    same: float | None

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def quantize(
    model: ModelSource,
    data: Sequence[Feeds] | None = None,
    *,
    per_channel: bool = True,
    reduce_range: bool = False,
    operators: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> ir.Model:
    """A model in int8: smaller, and faster where products take the time. `model` is not changed.

    Without `data`, weights are int8 and activations are quantized by their range in each call (dynamic: for MatMul,
    LSTM, Gather and the like; convolutions stay unless `operators` names them). With `data`, inputs of some calls,
    activations have fixed ranges, those that they have on the data (static, for convolutions too).
    per_channel: a scale for each output channel.  reduce_range: 7 bits of weight, for x86 processors without VNNI.
    operators: quantize only these.  exclude: names of nodes that stay.

    The model is optimized first. Nodes that read initializers which callers may override stay as they are.

    Raises: ModelError, OptionError; InputError for data without calls; ExecutionError where onnxruntime cannot do it.
    """
    if data is not None and not data:
        raise InputError("There is no data to calibrate with.", fix="give the inputs of at least one call")
    original = load(model)
    prepared = optimize_for_inference(original)
    if prepared.functions:  # the package does not look into them
        prepared = InlinePass()(prepared).model
    _check_names(prepared, exclude)
    if prepared.graph.opset_imports.get("", _OPSET) < _OPSET:
        raise_opset(prepared, _OPSET)
    kept = [*exclude, *_overridable_readers(prepared)]
    prepared.metadata_props.update(prepared_marks())
    infer_shapes(prepared)  # the package asks for the types of all values
    with tempfile.TemporaryDirectory(prefix="onnxgrad.") as folder:
        source, target = Path(folder, "model.onnx"), Path(folder, "int8.onnx")
        save(prepared, source)
        run = quantize_dynamically if data is None else partial(quantize_statically, data=data)
        run(source, target, per_channel=per_channel, reduce_range=reduce_range, operators=operators, exclude=kept)
        result = load(target)
        _read_data(result)
    if not any(node.op_type in _MARKS or node.op_type.endswith("Integer") for node in result.graph.all_nodes()):
        raise OptionError(
            "Nothing in the model could be quantized.",
            why="static int8 looks at the main graph only"
            if data is not None
            else "dynamic int8 is for MatMul and LSTM",
            fix="data=None, or without --static" if data is not None else "data=, or --static: for convolutions, too",
        )
    _restore(result, original)
    return result


def measure_errors(before: ir.Model, after: ir.Model, data: Sequence[Feeds]) -> tuple[OutputError, ...]:
    """Run both models on the data and compare their outputs of floating-point numbers, one by one.

    Values that are not finite in either are left out. Raises: ExecutionError, InputError.
    """
    first, second = compile(before), compile(after)
    sums: dict[str, _Sums] = {}
    for feeds in data:
        want, got = first(dict(feeds)), second(dict(feeds))
        for name, array in want.items():
            other = got[name]
            if _is_float(array) and _is_float(other):
                sums.setdefault(name, _Sums()).add(array.astype(np.float64), other.astype(np.float64))
    return tuple(found.error(name) for name, found in sums.items())


def _is_float(value: object) -> TypeGuard[Array]:
    """float16, bfloat16 and the like are no number types of numpy: their kind is V."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "fV"


@dataclass
class _Sums:
    """Sums over calls: so many outputs need not be kept."""

    largest: float = 0.0
    difference: float = 0.0
    first: float = 0.0
    second: float = 0.0
    product: float = 0.0
    rows: int = 0
    same: int = 0

    def add(self, want: npt.NDArray[np.float64], got: npt.NDArray[np.float64]) -> None:
        """Count one call."""
        if want.ndim and want.shape[-1] > 1 and want.size:
            agree = want.argmax(-1) == got.argmax(-1)
            self.rows, self.same = self.rows + agree.size, self.same + int(agree.sum())
        finite = np.isfinite(want) & np.isfinite(got)
        a, b = want[finite], got[finite]
        self.largest = max(self.largest, float(np.abs(a - b).max(initial=0)))
        self.difference += float(np.square(a - b).sum())
        self.first, self.second = self.first + float(a @ a), self.second + float(b @ b)
        self.product += float(a @ b)

    def error(self, name: str) -> OutputError:
        """The figures of all calls."""
        lengths = np.sqrt(self.first * self.second)
        cosine = self.product / lengths if lengths else float(self.difference == 0)
        relative = np.sqrt(self.difference / self.first) if self.first else float(np.sqrt(self.difference))
        same = self.same / self.rows if self.rows else None
        return OutputError(name, self.largest, float(relative), float(cosine), same)


def _check_names(model: ir.Model, exclude: Sequence[str]) -> None:
    names = {node.name for node in model.graph.all_nodes()}
    for name in exclude:
        if name not in names:
            raise InputError(
                f"There is no node {name!r} in the optimized model.",
                fix="names of nodes: onnxgrad optimize in.onnx out.onnx, and a viewer",
            )


def _overridable_readers(model: ir.Model) -> Iterator[str]:
    """Nodes that read an input with a default, whose content the package would take for a constant."""
    for value in model.graph.inputs:
        if value.is_initializer():
            yield from {node.name or "" for node, _ in value.uses()}


def _read_data(model: ir.Model) -> None:
    """Tensors in files of the folder that goes away are read into memory."""
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = ir.Tensor(value.const_value.numpy().copy(), dtype=value.const_value.dtype)


def _restore(result: ir.Model, original: ir.Model) -> None:
    """The package writes its own name and marks over what the file said."""
    result.producer_name, result.producer_version = original.producer_name, original.producer_version
    if not any(node.domain == "com.microsoft" for node in result.graph.all_nodes()):
        result.opset_imports.pop("com.microsoft", None)
    result.metadata_props.clear()
    result.metadata_props.update(original.metadata_props)
