"""MatMul and Gemm take up what is added, multiplied or transposed around them, whatever the operands are."""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.fusions.channels import Attributes
from onnxgrad.engine.passes.queries import Dim, broadcasts_into, dims, is_float, rank, same_dim, scalar_value
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_GEMM_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})
_C_IS_OPTIONAL = 11  # the opset from which Gemm needs no third input


def _is_matrix_product(*operands: ir.Value) -> bool:
    """Whether operands of a MatMul can be those of a Gemm."""
    return all(rank(x) == 2 and x.dtype in _GEMM_TYPES for x in operands)


class MatMulAddToGemm(Rewrite):
    """Add(MatMul(a, b), c) -> Gemm(a, b, c), for 2-D a and b and a bias that broadcasts one way."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf) -> Pattern:
        return op.Add(op.MatMul(a, b), c)

    def check(self, a: ir.Value, b: ir.Value, c: ir.Value) -> Match:
        return Match.all(_is_matrix_product(a, b), broadcasts_into(c, _rows_columns(a, b)))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return op.Gemm(a, b, c)


class ReshapedMatMulAddToGemm(Rewrite):
    """Add(MatMul(Reshape(x), b), c) -> Reshape(Gemm(x, b, c)), for 2-D x and b, where the rows of x stay whole.

    Other products of more dimensions stay MatMul and Add: with a Reshape on either side they have more nodes, take as
    long (measured), and are no longer what onnxruntime knows as attention.
    """

    since = 5

    def pattern(self, op: Ops, x: Leaf, b: Leaf, c: Leaf, shape: Leaf) -> Pattern:
        a = op.one_of(("Reshape", "Unsqueeze"), x, op.optional(shape), attributes=ANY).named("a").keep()
        return op.Add(op.MatMul(a, b).named("h"), c)

    def check(self, x: ir.Value, a: ir.Value, b: ir.Value, c: ir.Value, h: ir.Value) -> Match:
        return Match.all(
            _is_matrix_product(x, b),
            _keeps_rows(x, a),
            broadcasts_into(c, (None, *(dims(b) or ())[-1:])),
            Match.when(_target(h) is not None, "more than one dimension is not known"),
        )

    def rewrite(self, op: Builder, x: ir.Value, b: ir.Value, c: ir.Value, h: ir.Value) -> ir.Value:
        return op.Reshape(op.Gemm(x, b, c), list(_target(h) or ()))


def _keeps_rows(x: ir.Value, a: ir.Value) -> bool:
    """Whether `a` has more dimensions than `x`, and the same last one."""
    old, new = dims(x), dims(a)
    return old is not None and new is not None and len(new) > len(old) > 0 and same_dim(old[-1], new[-1])


def _target(h: ir.Value) -> tuple[int, ...] | None:
    """What a Reshape needs to give the shape of `h`: numbers, and one -1 at most."""
    shape: tuple[Dim, ...] = dims(h) or ()
    free = [size for size in shape if not isinstance(size, int)]
    if not shape or 0 in shape or len(free) > 1:
        return None
    return tuple(size if isinstance(size, int) else -1 for size in shape)


class MatMulSubToGemm(Rewrite):
    """Sub(c, MatMul(a, b)) -> Gemm(a, b, c, alpha=-1), for 2-D a and b and a bias that broadcasts one way."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf) -> Pattern:
        return op.Sub(c, op.MatMul(a, b))

    def check(self, a: ir.Value, b: ir.Value, c: ir.Value) -> Match:
        return Match.all(_is_matrix_product(a, b), broadcasts_into(c, _rows_columns(a, b)))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return op.Gemm(a, b, c, alpha=-1.0)


def _rows_columns(a: ir.Value, b: ir.Value) -> tuple[int | ir.SymbolicDim | None, int | ir.SymbolicDim | None]:
    rows, columns = dims(a), dims(b)
    return (rows[0] if rows else None), (columns[-1] if columns else None)


class GemmAddToGemm(Rewrite):
    """Add(Gemm(a, b), c) -> Gemm(a, b, c), for a bias that broadcasts one way."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf, kept: Leaf) -> Pattern:
        return op.Add(op.Gemm(a, b, attributes=kept).named("h"), c)

    def check(self, h: ir.Value, c: ir.Value) -> Match:
        return Match.all(broadcasts_into(c, h))

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value, kept: Attributes) -> ir.Value:
        return op.Gemm(a, b, c, **{**kept, "beta": None})


class FoldTransposeIntoGemm(Rewrite):
    """Gemm(Transpose(a), b, c) -> Gemm(a, b, c, transA=1); b and MatMul too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf, kept: Leaf, perm: Leaf) -> Pattern:
        turned_a = op.Transpose(a, perm=perm).named("s").keep()
        turned_b = op.Transpose(b, perm=perm).keep()
        return op.either(
            op.Gemm(turned_a, b, op.optional(c), attributes=kept),
            op.Gemm(a, turned_b, op.optional(c), attributes=kept),
        )

    def check(self, a: ir.Value, b: ir.Value, perm: list[int] | None) -> Match:
        return Match.all(perm is None or perm == [1, 0])

    def rewrite(
        self,
        op: Builder,
        a: ir.Value,
        b: ir.Value,
        c: ir.Value | None,
        kept: Attributes,
        s: ir.Value | None,
    ) -> ir.Value:
        name = "transB" if s is None else "transA"
        return op.Gemm(a, b, c, **{**kept, name: 0 if kept.get(name, 0) else 1})


class MatMulTransposeToGemm(Rewrite):
    """MatMul(Transpose(a), b) -> Gemm(a, b, transA=1), for 2-D a and b; MatMul(a, Transpose(b)) too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, perm: Leaf) -> Pattern:
        return op.either(
            op.MatMul(op.Transpose(a, perm=perm).named("s"), b),
            op.MatMul(a, op.Transpose(b, perm=perm)),
        )

    def check(self, a: ir.Value, b: ir.Value, perm: list[int] | None, opset: int) -> Match:
        return Match.all(_is_matrix_product(a, b), perm is None or perm == [1, 0], opset >= _C_IS_OPTIONAL)

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, s: ir.Value | None) -> ir.Value:
        return op.Gemm(a, b, transB=1) if s is None else op.Gemm(a, b, transA=1)


class ScaleGemm(Rewrite):
    """s * Gemm(a, b, c) -> Gemm(a, b, c, alpha * s, beta * s), for a constant number s; / s and negation too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf, kept: Leaf, s: Leaf) -> Pattern:
        product = op.Gemm(a, b, op.optional(c), attributes=kept)
        return op.either(op.one_of(("Mul", "Div"), product, op.constant(s)).named("y"), op.Neg(product).named("y"))

    def check(self, y: ir.Value, s: ir.Value | None, kept: Attributes) -> Match:
        factor = _factor(y, s)
        return Match.all(
            factor is not None,
            _rank_at_most(s, 2),
            _is_attribute(_alpha(kept, factor), y),
            _is_attribute(_beta(kept, factor), y),
        )

    def rewrite(
        self,
        op: Builder,
        a: ir.Value,
        b: ir.Value,
        c: ir.Value | None,
        kept: Attributes,
        y: ir.Value,
        s: ir.Value | None,
    ) -> ir.Value:
        factor = _factor(y, s)
        beta = None if c is None else _beta(kept, factor)
        return op.Gemm(a, b, c, **{**kept, "alpha": _alpha(kept, factor), "beta": beta})


class ScaleMatMulToGemm(Rewrite):
    """s * MatMul(a, b) -> Gemm(a, b, alpha=s), for 2-D a and b and a constant number s; / s and negation too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, s: Leaf) -> Pattern:
        product = op.MatMul(a, b)
        return op.either(op.one_of(("Mul", "Div"), product, op.constant(s)).named("y"), op.Neg(product).named("y"))

    def check(self, a: ir.Value, b: ir.Value, y: ir.Value, s: ir.Value | None, opset: int) -> Match:
        return Match.all(
            _is_matrix_product(a, b), opset >= _C_IS_OPTIONAL, _rank_at_most(s, 2), _is_attribute(_factor(y, s), y)
        )

    def rewrite(self, op: Builder, a: ir.Value, b: ir.Value, y: ir.Value, s: ir.Value | None) -> ir.Value:
        return op.Gemm(a, b, alpha=_factor(y, s))


class ScaleGemmInput(Rewrite):
    """Gemm(s * a, b, c) -> Gemm(a, b, c, alpha * s), for a constant number s; / s and b too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf, kept: Leaf, s: Leaf) -> Pattern:
        kinds, number = ("Mul", "Div"), op.constant(s)
        return op.either(
            op.Gemm(op.one_of(kinds, a, number).named("m"), b, op.optional(c), attributes=kept).named("y"),
            op.Gemm(a, op.one_of(kinds, b, number).named("m"), op.optional(c), attributes=kept).named("y"),
        )

    def check(self, a: ir.Value, b: ir.Value, m: ir.Value, s: ir.Value, kept: Attributes, y: ir.Value) -> Match:
        return Match.all(rank(a) == 2, rank(b) == 2, _rank_at_most(s, 2), _is_attribute(_alpha(kept, _factor(m, s)), y))

    def rewrite(
        self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value | None, m: ir.Value, s: ir.Value, kept: Attributes
    ) -> ir.Value:
        return op.Gemm(a, b, c, **{**kept, "alpha": _alpha(kept, _factor(m, s))})


class ScaleGemmBias(Rewrite):
    """Gemm(a, b, s * c) -> Gemm(a, b, c, beta * s), for a constant number s; / s too."""

    def pattern(self, op: Ops, a: Leaf, b: Leaf, c: Leaf, kept: Leaf, s: Leaf) -> Pattern:
        return op.Gemm(a, b, op.one_of(("Mul", "Div"), c, op.constant(s)).named("m"), attributes=kept).named("y")

    def check(self, m: ir.Value, s: ir.Value, kept: Attributes, y: ir.Value) -> Match:
        return Match.all(_rank_at_most(s, 2), _is_attribute(_beta(kept, _factor(m, s)), y))

    def rewrite(
        self, op: Builder, a: ir.Value, b: ir.Value, c: ir.Value, m: ir.Value, s: ir.Value, kept: Attributes
    ) -> ir.Value:
        return op.Gemm(a, b, c, **{**kept, "beta": _beta(kept, _factor(m, s))})


def _rank_at_most(s: ir.Value | None, limit: int) -> bool:
    """Whether a number does not add dimensions; true where there is none."""
    size = 0 if s is None else rank(s)
    return size is not None and size <= limit


def _factor(y: ir.Value, s: ir.Value | None) -> float | None:
    """What the Mul, Div or Neg that makes `y` multiplies with."""
    node = y.producer()
    if node is None or s is None:
        return None if node is None else -1.0
    number = scalar_value(s)
    if number is None or not is_float(s) or not np.isfinite(number) or (node.op_type == "Div" and number == 0):
        return None
    return float(number) if node.op_type == "Mul" else 1 / float(number)


def _alpha(kept: Attributes, factor: float | None) -> float | None:
    alpha = kept.get("alpha", 1.0)
    return None if factor is None or not isinstance(alpha, (int, float)) else alpha * factor


def _beta(kept: Attributes, factor: float | None) -> float | None:
    beta = kept.get("beta", 1.0)
    return None if factor is None or not isinstance(beta, (int, float)) else beta * factor


def _is_attribute(number: float | None, y: ir.Value) -> bool:
    """Whether an attribute, in float32, holds this factor at the precision that `y` needs."""
    if number is None or abs(number) > 2.0**100:
        return False
    if float(np.float32(number)) == number:
        return True
    return y.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16) and abs(number) >= 2.0**-100


RULES: tuple[Rewrite, ...] = (
    MatMulAddToGemm(),
    ReshapedMatMulAddToGemm(),
    MatMulSubToGemm(),
    GemmAddToGemm(),
    FoldTransposeIntoGemm(),
    MatMulTransposeToGemm(),
    ScaleGemm(),
    ScaleMatMulToGemm(),
    ScaleGemmInput(),
    ScaleGemmBias(),
)
