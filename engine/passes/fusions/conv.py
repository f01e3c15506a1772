"""Conv and ConvTranspose take up what scales and shifts their outputs or inputs, channel by channel."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import (
    Attributes,
    Doubles,
    along_axis,
    batch_norm_affine,
    doubles,
    factor_along,
    fits,
    may_replace,
    scaled,
    summand_along,
    takes,
    takes_shift,
)
from onnxgrad.engine.passes.queries import Array, constant_value, dim, is_float, rank
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_CONVS = ("Conv", "ConvTranspose")


@dataclass(frozen=True)
class Kernel:
    """The constant weights of Conv [M, C/g, ...] or ConvTranspose [C, M/g, ...], seen as [g, ...]."""

    weights: Array
    groups: int
    transposed: bool

    @property
    def rank(self) -> int:
        """Of the weights, and of input and output."""
        return self.weights.ndim

    @property
    def outputs(self) -> int:
        """M, the number of output channels."""
        return int(self.weights.shape[1] * self.groups if self.transposed else self.weights.shape[0])

    @property
    def inputs(self) -> int:
        """C, the number of input channels."""
        return int(self.weights.shape[0] if self.transposed else self.weights.shape[1] * self.groups)

    @property
    def grouped(self) -> Array:
        """The weights with an axis of groups in front."""
        return self.weights.reshape(self.groups, -1, *self.weights.shape[1:])

    def factor(self, numbers: Doubles, *, of_inputs: bool) -> Doubles:
        """Numbers per input or output channel, to be multiplied with the grouped weights."""
        is_first = self.transposed == of_inputs
        shape = (self.groups, -1, 1) if is_first else (self.groups, 1, -1)
        return numbers.reshape(*shape, *(1,) * (self.rank - 2))

    def takes(self, numbers: Doubles, *, of_inputs: bool = False) -> bool:
        """Whether the weights can be scaled."""
        return takes(self.grouped, self.factor(numbers, of_inputs=of_inputs))

    def scaled(self, numbers: Doubles, *, of_inputs: bool = False) -> Array:
        """The weights, scaled by a number per output or input channel."""
        return scaled(self.grouped, self.factor(numbers, of_inputs=of_inputs)).reshape(self.weights.shape)

    def response(self, numbers: Doubles) -> Doubles:
        """What Conv makes of an input that holds one number per channel everywhere, without padding."""
        weighted = self.grouped.astype(np.float64) * self.factor(numbers, of_inputs=True)
        total: Doubles = weighted.sum(axis=tuple(range(2, weighted.ndim))).reshape(-1)
        return total


def kernel_of(h: ir.Value) -> Kernel | None:
    """The weights of the Conv or ConvTranspose that makes `h`, where they are constant floats of a sound shape."""
    node = h.producer()
    w = None if node is None else node.inputs[1]
    weights = constant_value(w)
    if node is None or w is None or weights is None or not is_float(w) or weights.ndim < 3:
        return None
    groups = node.attributes["group"].as_int() if "group" in node.attributes else 1
    if groups < 1 or weights.size == 0 or weights.shape[0] % groups:
        return None
    return Kernel(weights, groups, node.op_type == "ConvTranspose")


def _bias(b: ir.Value | None, channels: int) -> Doubles | None:
    """The bias per output channel, 0 where there is none."""
    found = np.zeros(channels) if b is None else doubles(b)
    return found if found is not None and found.shape == (channels,) else None


def _conv(op: Ops, x: Leaf | Output, w: Leaf, b: Leaf, kept: Leaf) -> Output:
    return op.one_of(_CONVS, x, w, op.optional(b), attributes=kept).named("h")


def _convolve(
    op: Builder, h: ir.Value, x: ir.Value, w: Array | ir.Value, b: Doubles | ir.Value | None, kept: Attributes
) -> ir.Value:
    """The node that makes `h`, with other operands."""
    node = h.producer()
    assert node is not None
    weights = w if isinstance(w, ir.Value) else op.constant(w)
    bias = b if b is None or isinstance(b, ir.Value) else op.constant(b.astype(_numpy_dtype(weights)))
    y: ir.Value = getattr(op, node.op_type)(x, weights, bias, **kept)
    return y


def _numpy_dtype(x: ir.Value) -> "np.dtype[np.generic]":
    assert x.dtype is not None
    return x.dtype.numpy()


def _takes_affine(h: ir.Value, w: ir.Value, b: ir.Value | None, factor: Doubles, summand: Doubles) -> Match:
    """Whether h * factor + summand can be computed by the weights and bias of the convolution that makes `h`."""
    kernel = kernel_of(h)
    if kernel is None or (bias := _bias(b, kernel.outputs)) is None or factor.shape != bias.shape:
        return Match.no("the weights and the bias are no constants that fit")
    return Match.all(
        Match.when(may_replace(w), "the weights have other readers"),
        Match.when(kernel.takes(factor), "the weights lose precision"),
        Match.when(fits(bias * factor + summand, w.dtype), "the bias is too large"),
    )


def _affine(
    op: Builder,
    h: ir.Value,
    x: ir.Value,
    b: ir.Value | None,
    kept: Attributes,
    factor: Doubles,
    summand: Doubles | None,
) -> ir.Value:
    """h * factor + summand. Without a bias and a summand there is no bias afterwards."""
    kernel = kernel_of(h)
    assert kernel is not None
    bias = _bias(b, kernel.outputs)
    assert bias is not None
    total = bias * factor + (0 if summand is None else summand)
    has_bias = b is not None or summand is not None
    return _convolve(op, h, x, kernel.scaled(factor), total if has_bias else None, kept)


class FoldBatchNormIntoConv(Rewrite):
    """BatchNormalization(Conv(x, w, b)) -> Conv(x, w', b'), outside training mode; ConvTranspose too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, s: Leaf, t: Leaf, m: Leaf, v: Leaf) -> Pattern:
        return op.BatchNormalization(_conv(op, x, w, b, kept), s, t, m, v, attributes=ANY).named("y")

    def check(self, y: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None) -> Match:
        affine = batch_norm_affine(y)
        if affine is None:
            return Match.no("its statistics are no constants, or it trains")
        return _takes_affine(h, w, b, *affine)

    def rewrite(
        self, op: Builder, y: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes
    ) -> ir.Value:
        affine = batch_norm_affine(y)
        assert affine is not None
        return _affine(op, h, x, b, kept, *affine)


class FoldScaleIntoConv(Rewrite):
    """Conv(x, w, b) * c -> Conv(x, w * c, b * c), and / c, for a constant per output channel; ConvTranspose too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        return op.one_of(("Mul", "Div"), _conv(op, x, w, b, kept), op.constant(c)).named("y")

    def check(self, y: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Match:
        factor = self._factor(y, h, c)
        if factor is None:
            return Match.no("the constant does not act on output channels alone")
        return _takes_affine(h, w, b, factor, np.zeros_like(factor))

    def rewrite(
        self, op: Builder, y: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes, c: ir.Value
    ) -> ir.Value:
        factor = self._factor(y, h, c)
        assert factor is not None
        return _affine(op, h, x, b, kept, factor, None)

    def _factor(self, y: ir.Value, h: ir.Value, c: ir.Value) -> Doubles | None:
        kernel = kernel_of(h)
        return None if kernel is None else factor_along(y.producer(), c, kernel.rank, 1, kernel.outputs)


class FoldNegationIntoConv(Rewrite):
    """-Conv(x, w, b) -> Conv(x, -w, -b), and c - Conv(x, w, b) -> Conv(x, -w, c - b); ConvTranspose too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        conv = _conv(op, x, w, b, kept)
        return op.either(op.Neg(conv), op.Sub(op.constant(c), conv))

    def check(self, h: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value | None) -> Match:
        kernel = kernel_of(h)
        if kernel is None:
            return Match.no("the weights are no constants")
        summand = np.zeros(kernel.outputs) if c is None else along_axis(c, kernel.rank, 1, kernel.outputs)
        if summand is None:
            return Match.no("the constant does not act on output channels alone")
        return _takes_affine(h, w, b, -np.ones(kernel.outputs), summand)

    def rewrite(
        self, op: Builder, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes, c: ir.Value | None
    ) -> ir.Value:
        kernel = kernel_of(h)
        assert kernel is not None
        summand = None if c is None else along_axis(c, kernel.rank, 1, kernel.outputs)
        return _affine(op, h, x, b, kept, -np.ones(kernel.outputs), summand)


class FoldBiasIntoConv(Rewrite):
    """Conv(x, w, b) + c -> Conv(x, w, b + c), and - c, for a constant per output channel; ConvTranspose too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        return op.one_of(("Add", "Sub"), _conv(op, x, w, b, kept), op.constant(c)).named("y")

    def check(self, y: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Match:
        total = self._total(y, h, w, b, c)
        if total is None:
            return Match.no("the constant does not act on output channels alone, or the bias is no constant")
        return Match.when(fits(total, c.dtype), "the bias is too large")

    def rewrite(
        self,
        op: Builder,
        y: ir.Value,
        h: ir.Value,
        x: ir.Value,
        w: ir.Value,
        b: ir.Value | None,
        kept: Attributes,
        c: ir.Value,
    ) -> ir.Value:
        total = self._total(y, h, w, b, c)
        assert total is not None
        return _convolve(op, h, x, w, total.astype(_numpy_dtype(c)), kept)

    def _total(self, y: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Doubles | None:
        channels, size = _output_channels(h, w), rank(w)
        if channels is None or size is None or (bias := _bias(b, channels)) is None:
            return None
        summand = summand_along(y.producer(), c, size, 1, channels)
        return None if summand is None else bias + summand


def _output_channels(h: ir.Value, w: ir.Value) -> int | None:
    """M, for weights that need not be constants."""
    node = h.producer()
    if node is None or node.op_type == "Conv":
        return dim(w, 0)
    groups = node.attributes["group"].as_int() if "group" in node.attributes else 1
    per_group = dim(w, 1)
    return None if per_group is None else per_group * groups


class FoldInputScaleIntoConv(Rewrite):
    """Conv(x * c, w, b) -> Conv(x, w * c, b), and / c, for a constant per input channel; ConvTranspose too.

    Padding stays what it is: it is 0 before and after.
    """

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        return _conv(op, op.one_of(("Mul", "Div"), x, op.constant(c)).named("m"), w, b, kept)

    def check(self, m: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, c: ir.Value) -> Match:
        kernel, factor = kernel_of(h), _input_factor(m, h, x, c)
        if kernel is None or factor is None:
            return Match.no("the constant does not act on input channels alone, or the weights are no constants")
        return Match.all(
            Match.when(may_replace(w), "the weights have other readers"),
            Match.when(kernel.takes(factor, of_inputs=True), "the weights lose precision"),
        )

    def rewrite(
        self, op: Builder, m: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes, c: ir.Value
    ) -> ir.Value:
        kernel, factor = kernel_of(h), _input_factor(m, h, x, c)
        assert kernel is not None and factor is not None
        return _convolve(op, h, x, kernel.scaled(factor, of_inputs=True), b, kept)


def _input_factor(m: ir.Value, h: ir.Value, x: ir.Value, c: ir.Value) -> Doubles | None:
    kernel = kernel_of(h)
    if kernel is None or not _is_input(x, kernel):
        return None
    return factor_along(m.producer(), c, kernel.rank, 1, kernel.inputs)


def _is_input(x: ir.Value, kernel: Kernel) -> bool:
    """Whether `x` has the input channels of the convolution already, before anything is broadcast with it."""
    return rank(x) == kernel.rank and dim(x, 1) == kernel.inputs


class FoldInputShiftIntoConv(Rewrite):
    """Conv(x + c, w, b) -> Conv(x, w, b + Conv(c, w)), and - c, without padding: per input channel."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        shifted = op.one_of(("Add", "Sub"), x, op.constant(c)).named("m")
        return op.Conv(shifted, w, op.optional(b), attributes=kept).named("h")

    def check(self, m: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Match:
        kernel = kernel_of(h)
        if kernel is None or not _is_input(x, kernel):
            return Match.no("the weights are no constants, or the shape of the input is not known")
        shift = summand_along(m.producer(), c, kernel.rank, 1, kernel.inputs)
        if shift is None:
            return Match.no("the constant does not act on input channels alone")
        return _takes_shift(h, w, b, kernel, np.ones_like(shift), shift)

    def rewrite(
        self,
        op: Builder,
        m: ir.Value,
        h: ir.Value,
        x: ir.Value,
        w: ir.Value,
        b: ir.Value | None,
        kept: Attributes,
        c: ir.Value,
    ) -> ir.Value:
        kernel = kernel_of(h)
        assert kernel is not None
        shift = summand_along(m.producer(), c, kernel.rank, 1, kernel.inputs)
        bias = _bias(b, kernel.outputs)
        assert shift is not None and bias is not None
        return _convolve(op, h, x, w, bias + kernel.response(shift), kept)


class FoldInputBatchNormIntoConv(Rewrite):
    """Conv(BatchNormalization(x), w, b) -> Conv(x, w', b'), without padding and outside training mode."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, s: Leaf, t: Leaf, m: Leaf, v: Leaf) -> Pattern:
        normal = op.BatchNormalization(x, s, t, m, v, attributes=ANY).named("n")
        return op.Conv(normal, w, op.optional(b), attributes=kept).named("h")

    def check(self, n: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None) -> Match:
        kernel, affine = kernel_of(h), batch_norm_affine(n)
        if kernel is None or affine is None or affine[0].shape != (kernel.inputs,):
            return Match.no("weights or statistics are no constants that fit, or it trains")
        return Match.all(
            Match.when(may_replace(w), "the weights have other readers"), _takes_shift(h, w, b, kernel, *affine)
        )

    def rewrite(
        self, op: Builder, n: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes
    ) -> ir.Value:
        kernel, affine = kernel_of(h), batch_norm_affine(n)
        assert kernel is not None and affine is not None
        bias = _bias(b, kernel.outputs)
        assert bias is not None
        total = bias + kernel.response(affine[1])
        return _convolve(op, h, x, kernel.scaled(affine[0], of_inputs=True), total, kept)


def _takes_shift(
    h: ir.Value, w: ir.Value, b: ir.Value | None, kernel: Kernel, factor: Doubles, shift: Doubles
) -> Match:
    """Whether a Conv of x * factor + shift can be a Conv of x."""
    bias = _bias(b, kernel.outputs)
    if bias is None:
        return Match.no("the bias is no constant")
    return Match.all(
        Match.when(not shift.any() or _is_unpadded(h), "the input is padded"),
        Match.when(kernel.takes(factor, of_inputs=True), "the weights lose precision"),
        takes_shift(w, shift, bias + kernel.response(shift)),
    )


def _is_unpadded(h: ir.Value) -> bool:
    node = h.producer()
    assert node is not None
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    mode = attributes.get("auto_pad", "NOTSET")
    return mode == "VALID" or (mode == "NOTSET" and not any(attributes.get("pads", ())))


RULES: tuple[Rewrite, ...] = (
    FoldBatchNormIntoConv(),
    FoldScaleIntoConv(),
    FoldBiasIntoConv(),
    FoldNegationIntoConv(),
    FoldInputScaleIntoConv(),
    FoldInputBatchNormIntoConv(),
    FoldInputShiftIntoConv(),
)
