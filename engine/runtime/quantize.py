"""int8: onnxruntime's quantization package, on files."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from onnxgrad.engine.errors import ExecutionError, OptionError

Feeds = Mapping[str, npt.NDArray[np.generic]]

_MARKS = {"onnx.quant.pre_process": "onnxruntime.quant"}
"""Says in the metadata of a file that it was prepared; without it the package asks for that on every call."""

_NOT_DYNAMIC = ("Conv",)
"""ConvInteger has one scale for a whole weight, and is 8 times as slow as Conv (PP-LCNet, one thread, AVX-512)."""


def quantize_dynamically(
    source: Path,
    target: Path,
    *,
    per_channel: bool = True,
    reduce_range: bool = False,
    operators: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> None:
    """Weights in int8; activations in uint8, by their range in each call. Writes `target`.

    per_channel: a scale for each output channel of a weight.  reduce_range: 7 bits of weight, for processors that
    saturate sums of pairs.  operators: only these; without any, all but Conv.  exclude: names of nodes that stay.

    Raises: ExecutionError where onnxruntime's package fails.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _explained(source):
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=_known(operators, static=False),
            per_channel=per_channel,
            reduce_range=reduce_range,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=list(exclude),
            use_external_data_format=_is_large(source),
            extra_options={"EnableSubgraph": True},
        )
        _import_domain(target)


def quantize_statically(
    source: Path,
    target: Path,
    data: Iterable[Feeds],
    *,
    per_channel: bool = True,
    reduce_range: bool = False,
    operators: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> None:
    """Weights and activations in int8, by the ranges that activations have on `data`; QuantizeLinear and
    DequantizeLinear around each operator. Writes `target`. Options: as those of `quantize_dynamically`.

    Raises: ExecutionError where onnxruntime's package fails.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # the package is not typed
        """One call after the other, then None."""

        def __init__(self) -> None:
            self.left = iter(data)

        def get_next(self) -> dict[str, npt.NDArray[np.generic]] | None:
            feeds = next(self.left, None)
            return None if feeds is None else dict(feeds)

    with _explained(source):
        quantize_static(
            source,
            target,
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=_known(operators, static=True),
            per_channel=per_channel,
            reduce_range=reduce_range,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=list(exclude),
            use_external_data_format=_is_large(source),
        )
        _import_domain(target)


def quantizable_operators(static: bool) -> tuple[str, ...]:
    """The operators that onnxruntime's package can quantize."""
    from onnxruntime.quantization.registry import IntegerOpsRegistry, QDQRegistry

    return tuple(sorted(QDQRegistry if static else IntegerOpsRegistry))


def prepared_marks() -> dict[str, str]:
    """Metadata for the file that is given to the functions above."""
    return dict(_MARKS)


def _known(operators: Sequence[str], static: bool) -> list[str]:
    known = quantizable_operators(static)
    for name in operators:
        if name not in known:
            raise OptionError(f"{name!r} is no operator that can be quantized.", fix=f"one of {', '.join(known)}")
    return list(operators) if operators else [name for name in known if static or name not in _NOT_DYNAMIC]


def _import_domain(file: Path) -> None:
    """The package imports com.microsoft only where a node of the main graph needs it, not one of a branch."""
    model = onnx.load(file, load_external_data=False)
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.add(domain="com.microsoft", version=1)
        file.write_bytes(model.SerializeToString())


def _is_large(source: Path) -> bool:
    """Whether the model came with external data: its int8 version may be too large for one file, too."""
    return source.with_name(f"{source.name}.data").exists()


@contextmanager
def _explained(source: Path) -> Iterator[None]:
    """The package's advice on the root logger is for people who call it themselves; its errors become ours."""
    root = logging.getLogger()
    disabled = root.disabled
    root.disabled = True
    try:
        yield
    except OptionError:
        raise
    except Exception as error:  # the package raises whatever goes wrong inside it
        raise ExecutionError(
            "onnxruntime's quantization package cannot quantize this model.",
            where=str(source),
            why=f"{type(error).__name__}: {error}",
            fix="leave out the nodes or operators that it names",
        ) from error
    finally:
        root.disabled = disabled
