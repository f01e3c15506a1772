"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgrad.engine.errors import OptionError
from onnxgrad.models.nn.functional import spread
from onnxgrad.models.nn.initialize import fan_in_uniform
from onnxgrad.models.nn.module import Module
from onnxgrad.models.nn.operators import Kind, one


class Conv(Module):
    """Convolution of [N, in_channels, ...] with windows: [N, out_channels, ...].

    kernel: a size for each axis after the second, or one number for the two axes of an image; Conv(3, 8, (5,)) is for
    sequences. padding: zeros on both sides of each axis, or "same" for as many as keep the size at stride 1.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        if in_channels % groups or out_channels % groups:
            raise OptionError(f"{in_channels} and {out_channels} channels cannot be split into {groups} groups")
        sizes = spread(kernel, 2)
        self.strides, self.dilations = tuple(spread(stride, len(sizes))), tuple(spread(dilation, len(sizes)))
        self.pads = tuple(_pads(padding, sizes, self.dilations))
        self.groups = groups
        shape = (out_channels, in_channels // groups, *sizes)
        self.weight = fan_in_uniform(shape, math.prod(shape[1:]), rng)
        self.bias = fan_in_uniform((out_channels,), math.prod(shape[1:]), rng) if bias else None

    def __call__(self, x: Kind) -> Kind:
        """See the class."""
        return one(
            x,
            "Conv",
            x,
            self.weight,
            self.bias,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
            group=self.groups,
        )


def _pads(padding: int | Sequence[int] | str, sizes: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Begins, then ends, of all axes."""
    if padding == "same":
        whole = [(size - 1) * dilation for size, dilation in zip(sizes, dilations, strict=True)]
        return [*(size // 2 for size in whole), *(size - size // 2 for size in whole)]
    if isinstance(padding, str):
        raise OptionError(f"there is no padding {padding!r}", fix='a number, one for each axis, or "same"')
    each = spread(padding, len(sizes))
    return [*each, *each]
