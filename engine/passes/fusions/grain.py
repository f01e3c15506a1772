"""A sum that is divided by the number of what was summed is a mean."""

import math

import onnx_ir as ir

from onnxgrad.engine.passes.queries import dims, rank, reduction, scalar_value
from onnxgrad.engine.passes.rewrite import ANY, Builder, Leaf, Match, Ops, Pattern, Rewrite

_EXACT = 1 << 24
"""Numbers up to this have a float32 of their own."""


class DividedSumToMean(Rewrite):
    """Div(ReduceSum(x), n) -> ReduceMean(x), where n elements are summed, in float32 and double."""

    def pattern(self, op: Ops, x: Leaf, axes: Leaf, n: Leaf) -> Pattern:
        total = op.ReduceSum(x, op.optional(axes), attributes=ANY).named("total")
        return op.Div(total, op.constant(n))

    def check(self, x: ir.Value, total: ir.Value, n: ir.Value) -> Match:
        count = _count(x, total)
        return Match.all(
            x.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE),  # a float16 sum may be infinite where the mean is not
            count is not None and count > 0,
            (rank(n) or 0) <= (rank(total) or 0),
            count is not None and count < _EXACT and scalar_value(n) == count,
        )

    def rewrite(self, op: Builder, x: ir.Value, total: ir.Value) -> ir.Value:
        found = reduction(total)
        assert found is not None
        axes, keeps = found
        return op.ReduceMean(x, list(axes), keepdims=int(keeps))


def _count(x: ir.Value, total: ir.Value) -> int | None:
    """How many elements make one of the sum."""
    found, sizes = reduction(total), dims(x)
    if found is None or sizes is None:
        return None
    own = [sizes[axis] for axis in found[0]]
    numbers = [size for size in own if isinstance(size, int)]
    return math.prod(numbers) if len(numbers) == len(own) else None


RULES: tuple[Rewrite, ...] = (DividedSumToMean(),)
