"""Kernels of onnxruntime that load and then fail or compute something else than the standard says.

Each row has the reason and what is done instead: it is measured by onnx's backend tests. A row goes when the kernel
is right in the oldest onnxruntime that onnxgrad supports.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.ir.scatter import is_racing_scatter

_T = ir.DataType


@dataclass(frozen=True)
class KnownBad:
    """A kind of node that onnxruntime gets wrong.

    `remedies`: the ones to try in turn, of "rewritten", "expanded", "widened" and "host". `to`: the type to widen to.
    `cpu_only`: the kernel for CUDA is right. `by_attributes`: what can be said before types are known, to save time.
    """

    op_type: str
    applies: Callable[[ir.Node], bool]
    why: str
    remedies: tuple[str, ...] = ("host",)
    to: ir.DataType | None = None
    cpu_only: bool = False
    by_attributes: Callable[[ir.Node], bool] = lambda node: True


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _dtype(node: ir.Node, index: int) -> ir.DataType | None:
    value = _input(node, index)
    return None if value is None else value.dtype


def _dim(value: ir.Value | None, axis: int) -> int | None:
    dim = None if value is None or value.shape is None or not len(value.shape) else value.shape[axis]
    return dim if isinstance(dim, int) else None


def _constant(value: ir.Value | None) -> np.ndarray | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _text(node: ir.Node, name: str) -> str:
    return node.attributes[name].as_string() if name in node.attributes else ""


def _int(node: ir.Node, name: str) -> int:
    return node.attributes[name].as_int() if name in node.attributes else 0


def _has_output(node: ir.Node, index: int) -> bool:
    return index < len(node.outputs) and bool(node.outputs[index].name)


def _gives_masked_scores(node: ir.Node) -> bool:
    return _has_output(node, 3) and _int(node, "qk_matmul_output_mode") in (1, 2)


def _mask_is_short(node: ir.Node) -> bool:
    mask, keys = _input(node, 3), _input(node, 1)
    if mask is None or _input(node, 6) is None:
        return False
    length = _dim(keys, -2)
    return length is None or _dim(mask, -1) != length


def _zero_points_differ(node: ir.Node) -> bool:
    point = _input(node, 3)
    return point is not None and (point.shape is None or (len(point.shape) == 1 and _dim(point, 0) != 1))


def _aligns_a_fraction(node: ir.Node) -> bool:
    """align_corners where size * scale is no whole number: the standard takes the product, onnxruntime its floor."""
    scales = _constant(_input(node, 2))
    if _text(node, "coordinate_transformation_mode") != "align_corners" or _input(node, 2) is None:
        return False
    if scales is None or not scales.size:
        return scales is None
    image = _input(node, 0)
    axes = node.attributes["axes"].as_ints() if "axes" in node.attributes else range(scales.size)
    sizes = [float(scale * (_dim(image, axis) or 1)) for axis, scale in zip(axes, scales, strict=False)]
    return not all(size.is_integer() for size in sizes)


def _sows(node: ir.Node) -> bool:
    training = _constant(_input(node, 2))
    return "seed" in node.attributes and _input(node, 2) is not None and (training is None or bool(training.item()))


def _is_float(node: ir.Node) -> bool:
    dtype = _dtype(node, 0)
    return dtype is not None and dtype.is_floating_point()


def _writes_what_it_reads(node: ir.Node) -> bool:
    """Training-mode normalization whose running statistics come out in the memory in which they go in.

    Not where they are outputs of the graph; and it harms nobody where what goes in is computed for this node alone.
    """
    if not _int(node, "training_mode"):
        return False
    pairs = zip(node.inputs[3:5], node.outputs[1:3], strict=False)
    return any(not after.is_graph_output() and not _is_for_one(before) for before, after in pairs)


def _is_for_one(value: ir.Value | None) -> bool:
    """Whether a value is computed in each run and read once: no constant, even after constants are folded."""
    if value is None or value.producer() is None or value.is_graph_output() or len(value.uses()) != 1:
        return False
    pending, seen = [value], set[ir.Value]()
    while pending:
        found = pending.pop()
        node = found.producer()
        if node is None and found.is_graph_input() and not found.is_initializer():
            return True
        seen.add(found)
        pending.extend(v for v in (node.inputs if node is not None else ()) if v is not None and v not in seen)
    return False


KNOWN_BAD: tuple[KnownBad, ...] = (
    KnownBad(
        "BatchNormalization",
        _writes_what_it_reads,
        "the kernel writes the running statistics into the memory of its inputs, also of constants and of the caller",
        ("expanded", "host"),
        by_attributes=lambda n: bool(_int(n, "training_mode")),
    ),
    KnownBad(
        "DFT",
        lambda n: _dtype(n, 0) == _T.FLOAT,
        "the sums of the float32 kernel lose digits",
        ("widened", "host"),
        _T.DOUBLE,
    ),
    KnownBad(
        "Attention",
        lambda n: _dtype(n, 0) == _T.FLOAT16,
        "the float16 kernel rounds between its steps",
        ("widened",),
        _T.FLOAT,
        cpu_only=True,
    ),
    KnownBad(
        "Attention",
        _gives_masked_scores,
        "the scores it gives hold the least number where the mask says minus infinity",
        ("expanded", "host"),
    ),
    KnownBad(
        "Attention",
        _mask_is_short,
        "the kernel refuses a mask that is shorter than the keys when it runs",
        ("expanded", "host"),
    ),
    KnownBad("ConvInteger", _zero_points_differ, "the kernel refuses one zero point for each output channel"),
    KnownBad(
        "Mod",
        lambda n: _is_float(n) and not _int(n, "fmod"),
        "the kernel refuses the floored modulo of floating-point numbers when it runs",
        ("rewritten", "host"),
        by_attributes=lambda n: not _int(n, "fmod"),
    ),
    KnownBad("MaxUnpool", lambda n: _input(n, 2) is not None, "the indices are taken to be those of output_shape"),
    KnownBad(
        "Resize",
        _aligns_a_fraction,
        "align_corners is computed with the rounded size",
        by_attributes=lambda n: _text(n, "coordinate_transformation_mode") == "align_corners",
    ),
    KnownBad(
        "ScatterND",
        is_racing_scatter,
        "the kernel adds in several threads at once, and loses updates with equal indices",
        ("rewritten", "host"),
        cpu_only=True,
        by_attributes=is_racing_scatter,
    ),
    KnownBad(
        "Pad",
        lambda n: _input(n, 3) is not None,
        "the optimizer moves transposes over it as if it had amounts for all axes",
        ("rewritten",),
        by_attributes=lambda n: len(n.inputs) > 3,
    ),
    KnownBad(
        "Dropout",
        _sows,
        "the numbers drawn for a seed are not those of the reference implementation",
        by_attributes=lambda n: "seed" in n.attributes and len(n.inputs) > 2,
    ),
    *(
        KnownBad(
            op_type,
            lambda n: _dtype(n, 0) == _T.DOUBLE,
            "the kernel is registered for float64 and refuses it when it runs",
            cpu_only=True,
            by_attributes=lambda n: _dtype(n, 1) in (None, _T.DOUBLE),
        )
        for op_type in ("GRU", "LSTM")
    ),
    *(
        KnownBad(
            op_type,
            lambda n: _dtype(n, 0) == _T.BOOL,
            "the kernel refuses an empty set of bool when it runs",
            ("widened", "host"),
        )
        for op_type in ("ReduceMax", "ReduceMin")
    ),
)

SUSPECTS = frozenset(row.op_type for row in KNOWN_BAD)
"""The operators of the table: models without them need not be looked at."""


def is_suspect(node: ir.Node) -> bool:
    """Whether `node` may fall under the table, as far as can be said without types."""
    if node.op_type not in SUSPECTS or node.domain not in ("", "ai.onnx"):
        return False
    return any(row.by_attributes(node) for row in KNOWN_BAD if row.op_type == node.op_type)


def find_known_bad(node: ir.Node, on_cpu: bool) -> KnownBad | None:
    """The row of the table that `node` falls under. Its inputs must have types; more known means fewer false alarms."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in SUSPECTS:
        return None
    rows = (row for row in KNOWN_BAD if row.op_type == node.op_type and (on_cpu or not row.cpu_only))
    return next((row for row in rows if row.applies(node)), None)
