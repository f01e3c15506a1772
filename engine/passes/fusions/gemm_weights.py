"""MatMul and Gemm with constant weights take up what scales and shifts their columns or rows."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import (
    Attributes,
    Doubles,
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
from onnxgrad.engine.passes.queries import Array, broadcasts_into, constant_value, dim, is_float, rank
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Output, Pattern, Rewrite

_GEMM_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})


@dataclass(frozen=True)
class Product:
    """x @ w of a MatMul, or alpha * x @ w + beta * b of a Gemm, where w is constant."""

    op_type: str
    weights: Array
    alpha: float
    beta: float
    turned: bool
    """transB"""
    input_axis: int
    """Of `x`: that which is summed over."""

    @property
    def columns(self) -> int:
        """N, the size of the last axis of the product."""
        return int(self.weights.shape[0 if self.turned else -1])

    @property
    def rows(self) -> int:
        """K, the size of the axis that is summed over."""
        return int(self.weights.shape[1 if self.turned else -2])

    def factor(self, numbers: Doubles, *, of_rows: bool) -> Doubles:
        """Numbers per row or column, to be multiplied with the weights."""
        ones = (1,) * (self.weights.ndim - 2)
        return numbers.reshape(*ones, *((-1, 1) if of_rows != self.turned else (1, -1)))

    def takes(self, numbers: Doubles, *, of_rows: bool = False) -> bool:
        """Whether the weights can be scaled."""
        return takes(self.weights, self.factor(numbers, of_rows=of_rows))

    def scaled(self, numbers: Doubles, *, of_rows: bool = False) -> Array:
        """The weights, scaled by a number per column or row."""
        return scaled(self.weights, self.factor(numbers, of_rows=of_rows))

    def response(self, numbers: Doubles) -> Doubles:
        """What becomes of an input with one number per row of the weights: one per column."""
        weights = self.weights.astype(np.float64)
        return self.alpha * (numbers @ (weights.T if self.turned else weights))


def product_of(h: ir.Value) -> Product | None:
    """The product that a MatMul or Gemm computes, where the right operand is a constant of floats."""
    node = h.producer()
    w = None if node is None else node.inputs[1]
    weights = constant_value(w)
    if node is None or w is None or weights is None or not is_float(w) or weights.ndim < 2 or weights.size == 0:
        return None
    if node.op_type == "MatMul":
        return Product("MatMul", weights, 1.0, 1.0, turned=False, input_axis=-1)
    if weights.ndim != 2:
        return None
    kept = {name: attribute.value for name, attribute in node.attributes.items()}
    alpha, beta = float(kept.get("alpha", 1.0)), float(kept.get("beta", 1.0))
    return Product("Gemm", weights, alpha, beta, bool(kept.get("transB", 0)), -2 if kept.get("transA", 0) else -1)


def _product(op: Ops, x: Leaf | Output, w: Leaf, b: Leaf, kept: Leaf) -> Output:
    return op.one_of(("MatMul", "Gemm"), x, w, op.optional(b), attributes=kept).named("h")


def _gemm(op: Builder, x: ir.Value, w: Array | ir.Value, bias: Doubles, kept: Attributes) -> ir.Value:
    """Gemm with this bias, whole."""
    weights = w if isinstance(w, ir.Value) else op.constant(w)
    assert weights.dtype is not None
    return op.Gemm(x, weights, op.constant(bias.astype(weights.dtype.numpy())), **{**kept, "beta": None})


def _bias(b: ir.Value | None, product: Product) -> Doubles | None:
    """beta * b, 0 where there is no bias."""
    if b is None:
        return np.zeros(1)
    found = doubles(b)
    return None if found is None else found * product.beta


def _stays_small(*operands: Doubles) -> bool:
    """Whether constants that are broadcast together do not become larger than they are."""
    return int(np.prod(np.broadcast_shapes(*(x.shape for x in operands)))) <= max(x.size for x in operands)


class FoldScaleIntoMatMul(Rewrite):
    """MatMul(x, w) * c -> MatMul(x, w * c), and / c, for a constant per column; Gemm(x, w, b) too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        return op.one_of(("Mul", "Div"), _product(op, x, op.constant(w), b, kept), op.constant(c)).named("y")

    def check(self, y: ir.Value, h: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Match:
        product, factor, bias = product_of(h), _output_factor(y, h, c), np.zeros(1) if b is None else doubles(b)
        if product is None or factor is None or bias is None:
            return Match.no("the constant does not act on columns alone, or weights and bias are no constants")
        return Match.all(
            Match.when(may_replace(w), "the weights have other readers"),
            Match.when(product.takes(factor), "the weights lose precision"),
            Match.when(b is None or _stays_small(bias, factor), "the bias would grow"),
            Match.when(b is None or fits(bias * factor, w.dtype), "the bias is too large"),
        )

    def rewrite(
        self, op: Builder, y: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes, c: ir.Value
    ) -> ir.Value:
        product, factor = product_of(h), _output_factor(y, h, c)
        assert product is not None and factor is not None
        weights = op.constant(product.scaled(factor))
        if product.op_type == "MatMul":
            return op.MatMul(x, weights)
        bias = None if b is None else doubles(b)
        scaled_bias = None if bias is None else op.constant((bias * factor).astype(product.weights.dtype))
        return op.Gemm(x, weights, scaled_bias, **kept)


def _output_factor(y: ir.Value, h: ir.Value, c: ir.Value) -> Doubles | None:
    product, size = product_of(h), rank(h)
    return None if product is None or not size else factor_along(y.producer(), c, size, -1, product.columns)


class FoldNegationIntoMatMul(Rewrite):
    """-MatMul(x, w) -> MatMul(x, -w)."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf) -> Pattern:
        return op.Neg(op.MatMul(x, op.constant(w)).named("h"))

    def check(self, h: ir.Value, w: ir.Value) -> Match:
        return Match.all(product_of(h) is not None, may_replace(w))

    def rewrite(self, op: Builder, h: ir.Value, x: ir.Value) -> ir.Value:
        product = product_of(h)
        assert product is not None
        return op.MatMul(x, op.constant(product.scaled(-np.ones(1))))


class FoldBatchNormIntoGemm(Rewrite):
    """BatchNormalization(Gemm(x, w, b)) -> Gemm(x, w', b'), outside training mode; MatMul of matrices too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, s: Leaf, t: Leaf, m: Leaf, v: Leaf) -> Pattern:
        product = _product(op, x, op.constant(w), b, kept)
        return op.BatchNormalization(product, s, t, m, v, attributes=ANY).named("y")

    def check(self, y: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, b: ir.Value | None) -> Match:
        product, affine = product_of(h), batch_norm_affine(y)
        if product is None or affine is None or affine[0].shape != (product.columns,):
            return Match.no("weights or statistics are no constants that fit, or it trains")
        return Match.all(
            Match.when(rank(x) == 2 and rank(w) == 2 and w.dtype in _GEMM_TYPES, "it is no product of matrices"),
            _takes_affine(product, w, b, *affine),
        )

    def rewrite(
        self, op: Builder, y: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes
    ) -> ir.Value:
        product, affine = product_of(h), batch_norm_affine(y)
        assert product is not None and affine is not None
        bias = _bias(b, product)
        assert bias is not None
        return _gemm(op, x, product.scaled(affine[0]), bias * affine[0] + affine[1], kept)


def _takes_affine(product: Product, w: ir.Value, b: ir.Value | None, factor: Doubles, summand: Doubles) -> Match:
    """Whether product * factor + summand can be a product."""
    bias = _bias(b, product)
    if bias is None or not _stays_small(bias, factor, summand):
        return Match.no("the bias is no constant, or would grow")
    return Match.all(
        Match.when(may_replace(w), "the weights have other readers"),
        Match.when(product.takes(factor), "the weights lose precision"),
        Match.when(fits(bias * factor + summand, w.dtype), "the bias is too large"),
    )


class FoldBiasIntoGemm(Rewrite):
    """Gemm(a, b, k) + c -> Gemm(a, b, k + c), - c, and c - Gemm(a, b, k), for constants k and c."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, k: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        product = op.Gemm(a, b, op.optional(op.constant(k)), attributes=kept).named("h")
        return op.either(
            op.one_of(("Add", "Sub"), product, op.constant(c)).named("y"),
            op.Sub(op.constant(c), product).named("negative"),
        )

    def check(self, y: ir.Value | None, h: ir.Value, k: ir.Value | None, kept: Attributes, c: ir.Value) -> Match:
        total = _total(y, k, kept, c)
        return Match.all(
            Match.when(broadcasts_into(c, h), "the constant makes the product larger"),
            Match.when(total is not None, "the bias would grow"),
            Match.when(total is not None and fits(total, c.dtype), "the bias is too large"),
        )

    def rewrite(
        self,
        op: Builder,
        y: ir.Value | None,
        a: ir.Value,
        b: ir.Value,
        k: ir.Value | None,
        kept: Attributes,
        c: ir.Value,
    ) -> ir.Value:
        total, alpha = _total(y, k, kept, c), kept.get("alpha", 1.0)
        assert total is not None and isinstance(alpha, float)
        return _gemm(op, a, b, total, kept if y is not None else {**kept, "alpha": -alpha})


def _total(y: ir.Value | None, k: ir.Value | None, kept: Attributes, c: ir.Value) -> Doubles | None:
    """The bias of Gemm(..., k) + c and - c; of c - Gemm(..., k) where `y` is None."""
    own, other, beta = np.zeros(1) if k is None else doubles(k), doubles(c), kept.get("beta", 1.0)
    if own is None or other is None or not isinstance(beta, float) or not _stays_small(own, other):
        return None
    if y is None:
        return other - own * beta
    node = y.producer()
    return own * beta + (other if node is not None and node.op_type == "Add" else -other)


class FoldInputScaleIntoMatMul(Rewrite):
    """MatMul(x * c, w) -> MatMul(x, c * w), and / c, for a constant per row of w; Gemm(x, w, b) too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        return _product(op, op.one_of(("Mul", "Div"), x, op.constant(c)).named("m"), op.constant(w), b, kept)

    def check(self, m: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, c: ir.Value) -> Match:
        product, factor = product_of(h), _input_factor(m, h, x, c)
        if product is None or factor is None:
            return Match.no("the constant does not act on rows alone, or the weights are no constants")
        return Match.all(
            Match.when(may_replace(w), "the weights have other readers"),
            Match.when(product.takes(factor, of_rows=True), "the weights lose precision"),
        )

    def rewrite(
        self, op: Builder, m: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes, c: ir.Value
    ) -> ir.Value:
        product, factor = product_of(h), _input_factor(m, h, x, c)
        assert product is not None and factor is not None
        weights = op.constant(product.scaled(factor, of_rows=True))
        return op.MatMul(x, weights) if product.op_type == "MatMul" else op.Gemm(x, weights, b, **kept)


def _input_factor(m: ir.Value, h: ir.Value, x: ir.Value, c: ir.Value) -> Doubles | None:
    product = _product_with(x, h)
    return None if product is None else factor_along(m.producer(), c, rank(x) or 0, product.input_axis, product.rows)


def _product_with(x: ir.Value, h: ir.Value) -> Product | None:
    """The product, where `x` has the size of its input already, before anything is broadcast with it."""
    product = product_of(h)
    return None if product is None or dim(x, product.input_axis) != product.rows else product


class FoldInputShiftIntoGemm(Rewrite):
    """Gemm(x + c, w, b) -> Gemm(x, w, b + c @ w), and - c, for a constant per row of w."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, c: Leaf) -> Pattern:
        shifted = op.one_of(("Add", "Sub"), x, op.constant(c)).named("m")
        return op.Gemm(shifted, w, op.optional(b), attributes=kept).named("h")

    def check(self, m: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, b: ir.Value | None, c: ir.Value) -> Match:
        product, shift = product_of(h), _input_shift(m, h, x, c)
        if product is None or shift is None:
            return Match.no("the constant does not act on rows alone, or the weights are no constants")
        return _takes_shift(product, w, b, np.ones_like(shift), shift)

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
        product, shift = product_of(h), _input_shift(m, h, x, c)
        assert product is not None and shift is not None
        bias = _bias(b, product)
        assert bias is not None
        return _gemm(op, x, w, bias + product.response(shift), kept)


def _input_shift(m: ir.Value, h: ir.Value, x: ir.Value, c: ir.Value) -> Doubles | None:
    product = _product_with(x, h)
    return None if product is None else summand_along(m.producer(), c, rank(x) or 0, product.input_axis, product.rows)


class FoldInputBatchNormIntoGemm(Rewrite):
    """Gemm(BatchNormalization(x), w, b) -> Gemm(x, w', b'), outside training mode; MatMul of matrices too."""

    def pattern(self, op: Ops, x: Leaf, w: Leaf, b: Leaf, kept: Leaf, s: Leaf, t: Leaf, m: Leaf, v: Leaf) -> Pattern:
        normal = op.BatchNormalization(x, s, t, m, v, attributes=ANY).named("n")
        return _product(op, normal, w, b, kept)

    def check(self, n: ir.Value, h: ir.Value, x: ir.Value, w: ir.Value, b: ir.Value | None) -> Match:
        product, affine = product_of(h), batch_norm_affine(n)
        if product is None or affine is None or affine[0].shape != (product.rows,):
            return Match.no("weights or statistics are no constants that fit, or it trains")
        return Match.all(
            Match.when(rank(x) == 2 and rank(w) == 2 and product.input_axis == -1, "it is no product of matrices"),
            Match.when(may_replace(w), "the weights have other readers"),
            _takes_shift(product, w, b, *affine),
        )

    def rewrite(
        self, op: Builder, n: ir.Value, h: ir.Value, x: ir.Value, b: ir.Value | None, kept: Attributes
    ) -> ir.Value:
        product, affine = product_of(h), batch_norm_affine(n)
        assert product is not None and affine is not None
        bias = _bias(b, product)
        assert bias is not None
        return _gemm(op, x, product.scaled(affine[0], of_rows=True), bias + product.response(affine[1]), kept)


def _takes_shift(product: Product, w: ir.Value, b: ir.Value | None, factor: Doubles, shift: Doubles) -> Match:
    """Whether the product of x * factor + shift can be a product of x."""
    bias = _bias(b, product)
    response = product.response(shift)
    if bias is None or not _stays_small(bias, response):
        return Match.no("the bias is no constant, or would grow")
    return Match.all(
        Match.when(product.takes(factor, of_rows=True), "the weights lose precision"),
        takes_shift(w, shift, bias + response),
    )


RULES: tuple[Rewrite, ...] = (
    FoldScaleIntoMatMul(),
    FoldNegationIntoMatMul(),
    FoldBatchNormIntoGemm(),
    FoldBiasIntoGemm(),
    FoldInputScaleIntoMatMul(),
    FoldInputBatchNormIntoGemm(),
    FoldInputShiftIntoGemm(),
)
