"""Loops over time steps that an exporter wrote out: one product over all steps takes their place."""

from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.passes.queries import dim, from_front, int_values, ints_of, producer, rank, single_reader
from onnxgrad.engine.passes.rewrite import Builder, Leaf, Match, Ops, Pattern, Rewrite

_FEWEST = 2


@dataclass(frozen=True)
class _Step:
    """Unsqueeze(Gemm(Gather(x, index, axis), w, c), [axis])."""

    x: ir.Value
    w: ir.Value
    c: ir.Value | None
    axis: int
    index: int
    transposed: bool


class MergeUnrolledProducts(Rewrite):
    """Concat over t of Unsqueeze(Gemm(x[t], w, c)) -> Add(MatMul(x, w), c), for all t in their order; MatMul too."""

    def pattern(self, op: Ops, xs: Leaf, axis: Leaf) -> Pattern:
        return op.Concat(op.many(xs), axis=axis)

    def check(self, xs: tuple[ir.Value, ...], axis: int) -> Match:
        steps = [_step(x) for x in xs]
        first = steps[0]
        if first is None or len(steps) < _FEWEST:
            return Match.no("the operands are no products")
        same = all(
            step is not None
            and (step.x, step.w, step.c, step.axis, step.transposed)
            == (first.x, first.w, first.c, first.axis, first.transposed)
            for step in steps
        )
        indices = [step.index for step in steps if step is not None]
        return Match.all(
            same,
            rank(first.x) == 3,
            from_front([axis], 3) == (first.axis,),
            first.axis < 2,
            indices == list(range(len(xs))),
            dim(first.x, first.axis) == len(xs),
            _broadcasts_along(first),
        )

    def rewrite(self, op: Builder, xs: tuple[ir.Value, ...]) -> ir.Value:
        step = _step(xs[0])
        assert step is not None
        w = op.Transpose(step.w, perm=[1, 0]) if step.transposed else step.w
        product = op.MatMul(step.x, w)
        return product if step.c is None else op.Add(product, step.c)


def _broadcasts_along(step: _Step) -> bool:
    """Whether what is added to each product is the same for all of its rows."""
    if step.c is None:
        return True
    size = rank(step.c)
    return size is not None and (size < 2 or (size == 2 and dim(step.c, 0) == 1))


def _step(x: ir.Value) -> _Step | None:
    """The step that makes one operand of the Concat, where nobody else reads any of it."""
    unsqueeze = producer(x, "Unsqueeze")
    axes = from_front(ints_of(x, 1, "axes") or (), 3)
    y = None if unsqueeze is None else unsqueeze.inputs[0]
    if y is None or axes is None or len(axes) != 1 or not single_reader(x) or not single_reader(y):
        return None
    product = producer(y, "Gemm") or producer(y, "MatMul")
    a, w = (None, None) if product is None else (product.inputs[0], product.inputs[1])
    gather = producer(a, "Gather")
    if product is None or a is None or w is None or gather is None or not single_reader(a) or rank(w) != 2:
        return None
    source, indices = gather.inputs[0], gather.inputs[1]
    index = int_values(indices, 1)
    axis = gather.attributes["axis"].as_int() if "axis" in gather.attributes else 0
    if source is None or indices is None or rank(indices) != 0 or not index or from_front([axis], 3) != axes:
        return None
    size = dim(source, axes[0])
    at = index[0] + size if index[0] < 0 and size is not None else index[0]
    attributes = {name: attribute.value for name, attribute in product.attributes.items()}
    plain = (
        attributes.get("alpha", 1.0) == 1.0 and attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA", 0)
    )
    c = product.inputs[2] if len(product.inputs) > 2 else None
    return _Step(source, w, c, axes[0], at, bool(attributes.get("transB", 0))) if plain else None


RULES: tuple[Rewrite, ...] = (MergeUnrolledProducts(),)
