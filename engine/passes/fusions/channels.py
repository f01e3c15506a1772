"""Constants that act on one axis of a value, and weights that take them up; no rewrites of its own.

Everything is worked out in float64 and rounded once.
"""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.ir.signatures import AttributeValue
from onnxgrad.engine.passes.purity import is_training
from onnxgrad.engine.passes.queries import Array, constant_value, is_float, single_reader
from onnxgrad.engine.passes.rewrite import Match

Doubles = npt.NDArray[np.float64]
Attributes = Mapping[str, AttributeValue]

_SHARED_LIMIT = 1 << 16  # elements: weights with other readers are copied up to this size
_LARGEST_SHIFT = 1024.0  # (x + c) @ w = x @ w + c @ w loses as many digits as c has more than x
_PIECE = 1 << 20  # elements that are worked on at once in float64


def along_axis(c: ir.Value, rank: int, axis: int, size: int) -> Doubles | None:
    """The `size` numbers of a constant that, broadcast to a value of this rank, differ along `axis` only.

    None where `c` is anything else, would make the value larger, or is not finite.
    """
    array = constant_value(c, _PIECE)
    if array is None or not is_float(c) or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    others = [length for index, length in enumerate(shape) if index != axis % rank]
    if any(length != 1 for length in others) or shape[axis % rank] not in (1, size):
        return None
    numbers = array.astype(np.float64).reshape(-1)
    return np.broadcast_to(numbers, (size,)) if np.isfinite(numbers).all() else None


def factor_along(node: ir.Node | None, c: ir.Value, rank: int, axis: int, size: int) -> Doubles | None:
    """What Mul(x, c) or Div(x, c) multiplies a value with, along one axis."""
    numbers = along_axis(c, rank, axis, size)
    if numbers is None or node is None or node.op_type == "Mul":
        return numbers
    return None if (numbers == 0).any() else 1 / numbers


def summand_along(node: ir.Node | None, c: ir.Value, rank: int, axis: int, size: int) -> Doubles | None:
    """What Add(x, c) or Sub(x, c) adds to a value, along one axis."""
    numbers = along_axis(c, rank, axis, size)
    return numbers if numbers is None or node is None or node.op_type == "Add" else -numbers


def batch_norm_affine(y: ir.Value) -> tuple[Doubles, Doubles] | None:
    """(factor, summand) per channel of a BatchNormalization of constants, outside training mode."""
    node = y.producer()
    if node is None or is_training(node) or len(node.inputs) != 5:
        return None
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    if attributes.get("spatial", 1) != 1:
        return None
    arrays = [constant_value(value) for value in node.inputs[1:]]
    scale, shift, mean, var = (None if array is None else array.astype(np.float64) for array in arrays)
    if scale is None or shift is None or mean is None or var is None or scale.ndim != 1:
        return None
    if not scale.shape == shift.shape == mean.shape == var.shape:
        return None
    epsilon = attributes.get("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(var + epsilon)
        summand = shift - mean * factor
    return (factor, summand) if np.isfinite(factor).all() and np.isfinite(summand).all() else None


def may_replace(w: ir.Value) -> bool:
    """Whether another constant in the place of this one does not make the model much larger."""
    return single_reader(w) or (w.const_value is not None and w.const_value.size <= _SHARED_LIMIT)


def takes_shift(w: ir.Value, shift: Doubles, bias: Doubles) -> Match:
    """Whether weights may answer a shift of their input by this bias instead."""
    return Match.all(
        Match.when(w.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE), "the dtype has too few digits"),
        Match.when(bool((np.abs(shift) <= _LARGEST_SHIFT).all()), "the input is shifted far"),
        Match.when(fits(bias, w.dtype), "the bias is too large"),
    )


def takes(w: Array, factor: Doubles) -> bool:
    """Whether `w * factor` can be written in the dtype of `w` at full precision: no overflow, nothing too small.

    `factor` has the rank of `w`; where it has a dimension of 1, the largest element speaks for all.
    """
    if w.size == 0:
        return True
    axes = tuple(axis for axis, size in enumerate(factor.shape) if size == 1)
    peak = np.abs(w).max(axis=axes, keepdims=True).astype(np.float64) * np.abs(factor)
    smallest, largest = _limits(w.dtype)
    return bool((((peak >= smallest) & (peak <= largest)) | (peak == 0)).all())


def scaled(w: Array, factor: Doubles) -> Array:
    """`w * factor` in the dtype of `w`; in pieces, for the sake of large weights."""
    result = np.empty_like(w)
    axis = int(np.argmax(w.shape))
    source, target, numbers = np.moveaxis(w, axis, 0), np.moveaxis(result, axis, 0), np.moveaxis(factor, axis, 0)
    step = max(1, _PIECE // max(1, source[:1].size))
    for start in range(0, len(source), step):
        piece = slice(start, start + step)
        target[piece] = source[piece].astype(np.float64) * (numbers if len(numbers) == 1 else numbers[piece])
    return result


def fits(numbers: Doubles, dtype: ir.DataType | None) -> bool:
    """Whether numbers stay finite in a floating-point dtype."""
    if dtype is None:
        return False
    return bool((np.abs(numbers) <= _limits(dtype.numpy())[1]).all())


def _limits(dtype: "np.dtype[np.generic]") -> tuple[float, float]:
    """The smallest and the largest number that a floating-point dtype holds at full precision."""
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(limits.smallest_normal), float(limits.max)


def doubles(x: ir.Value | None) -> Doubles | None:
    """The content of a constant of finite floats, in float64."""
    array = constant_value(x)
    if x is None or array is None or not is_float(x):
        return None
    found: Doubles = array.astype(np.float64)
    return found if np.isfinite(found).all() else None


def is_normal(numbers: Doubles, dtype: "np.dtype[np.generic]") -> bool:
    """Whether a floating-point dtype holds all of these numbers at full precision."""
    smallest, largest = _limits(dtype)
    return bool(((np.abs(numbers) >= smallest) & (np.abs(numbers) <= largest)).all())
