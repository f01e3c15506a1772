"""Padding of some axes as padding of all: onnxruntime's optimizer goes wrong where axes are named.

It moves a Transpose over such a Pad as if the amounts were those of all axes (measured with 1.31: a Gather out of
range, where there are transposes on both sides).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from onnxgrad.engine.ir.builder import Builder


def amounts_for_all_axes(op: Builder, inputs: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """The inputs (data, pads, value, axes) of a Pad without axes; as they are where the rank of data is not known."""
    x, pads, filler, axes = inputs
    if x is None or pads is None or axes is None or x.shape is None:
        return list(inputs)
    rank = len(x.shape)
    named = _known(axes)
    full = _of_known_axes(op, pads, named % max(rank, 1), rank) if named is not None else _of_axes(op, pads, axes, rank)
    return [x, full] if filler is None else [x, full, filler]


def _known(value: ir.Value) -> np.ndarray | None:
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def _of_known_axes(op: Builder, pads: ir.Value, axes: np.ndarray, rank: int) -> ir.Value:
    count = len(axes)
    amounts = _known(pads)
    if amounts is not None:
        full = np.zeros((2, rank), np.int64)
        full[:, axes] = amounts.reshape(2, count)
        return op.constant(full.reshape(-1))
    places = np.full((2, rank), 2 * count, np.int64)  # behind the amounts stands a zero
    places[:, axes] = np.arange(2 * count).reshape(2, count)
    if places.reshape(-1).tolist() == list(range(2 * count)):
        return pads
    return op.Gather(op.Concat(pads, [0], axis=0), op.constant(places.reshape(-1)))


def _of_axes(op: Builder, pads: ir.Value, axes: ir.Value, rank: int) -> ir.Value:
    axes = op.Cast(axes, to=ir.DataType.INT64)
    axes = op.Where(op.Less(axes, 0), op.Add(axes, rank), axes)
    places = op.Concat(axes, op.Add(axes, rank), axis=0)
    return op.ScatterElements(op.constant([0] * (2 * rank)), places, pads, axis=0)
